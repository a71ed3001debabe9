"""Verbs of a table as jobs with run config: rows deleted, updated and merged, partitions dropped, older states made the newest.

Import `build_verb_jobs` of `jobs`, which `lakeidx.dagster.factory` uses. `settings` has the run config.
What a verb does is in `lakeidx.api`; decisions about held batches are in `lakeidx.dagster.assets.publish`.
"""
