"""Batches that stop before their commit: what holds them, and how somebody releases or discards one.

Import `hold` for the batches that are held, `trial` for the table as it would be with one.
Nothing here runs a stage by itself but `hold.release_batch`; the stages are `lakeidx.batch.stages`.
"""
