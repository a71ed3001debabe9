"""Integrity rules over what a caller has read of a table: pure functions, each with a small typed answer.

`load.load_evidence` reads what they need, and `verify.verify` runs all that suit a table.
When checks run and what a failure blocks belongs to `lakeidx.dagster`.
"""
