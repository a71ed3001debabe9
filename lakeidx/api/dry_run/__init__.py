"""Dry runs of the verbs that write rows: what a batch would do, with nothing written.

`lakeidx.api.table.plannable` gives a verb its ``dry_run``, `lakeidx.api.dry_run.plan.BatchPlan` is what comes of it. Verbs of
upkeep have dry runs of their own, which need no batch.
"""
