"""Upkeep of tables: compaction, lookup files, snapshot expiry, staging cleanup, rollback, ring resizing, file index
rebuilds.

Import the function of a task; each returns a report.
Stages of a batch live in `lakeidx.batch`; the pure picking of compactions in `lakeidx.compaction`.
"""
