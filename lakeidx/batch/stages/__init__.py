"""The four stages of a batch: ingest, bucket_assignment, index_write, commit.

Import a stage's `run_…` function; each reads the artifact of the stage before and closes with a report.
Upkeep of tables lives in `lakeidx.maintenance`, readers of landing files in `lakeidx.landing`.
"""
