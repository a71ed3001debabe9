"""Great Expectations over the figures of quality rules, and its verdicts.

Import `verdicts.judge`; importing Great Expectations takes seconds, so `dagster_project.preload` does it in the background.
The rules themselves live in `lakeidx.quality`.
"""
