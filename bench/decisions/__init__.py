"""What the alternatives would have cost that docs/decisions rejects: one module per decision, run by `bench/bench_decisions.py`.

Each way gets the same input, and its result is checked before its figures count.
"""
