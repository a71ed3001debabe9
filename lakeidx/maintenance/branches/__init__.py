"""Branches of a table: made at a tag or snapshot, listed, deleted, and brought into the table.

A branch has snapshots, schemas, tags and consumers of its own, and the table's manifests and data files (`lakeidx.format.paths`).
Its batches are staged apart, too (`lakeidx.batch.artifacts`): an id counts once on each branch.
"""
