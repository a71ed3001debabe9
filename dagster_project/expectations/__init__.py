"""Great Expectations suites over the figures of quality rules, and their verdicts."""
