"""Locate the keys of a batch, then place those that are nowhere: chooses how, by bucket mode and by what the index type can."""

from __future__ import annotations

import numpy as np

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.assignment.by_hash import HashPlacing, place_by_hash
from lakeidx.batch.assignment.by_key_index import place_by_key_index
from lakeidx.batch.assignment.in_tasks import place_in_tasks
from lakeidx.batch.assignment.part_keys import read_keys
from lakeidx.batch.assignment.placed import PartPlaces, Placed, RowCounts
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import open_key_index, uses_key_index
from lakeidx.errors import UnsupportedError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.port import KeyIndex
from lakeidx.table.key_buckets import hash_entries


def place_batch(context: BatchContext, ingest: IngestReport, schema: TableSchema, snapshot: Snapshot | None) -> Placed:
    """Place all rows of a batch on a snapshot.

    errors   UnsupportedError for an overwrite that the index type cannot follow; CommitConflictError when what an index type keeps
             is of a later snapshot
    """
    if not uses_key_index(schema):
        return _by_function(context, ingest, schema)
    with open_key_index(schema, context.metadata.paths) as key_index:
        _check_overwrite(context, key_index)
        if key_index.needs_keys:
            return place_by_key_index(context, ingest, schema, snapshot, key_index)
    if ingest.rows_staged >= context.parallel_rows:
        return place_in_tasks(context, ingest, schema, snapshot)
    parts = read_keys(context.metadata, ingest, schema)
    entries = hash_entries(context.metadata, snapshot, {p for part in parts for p in part.keys.partitions})
    placing = HashPlacing.of_batch(
        context.metadata, schema, entries, batch_id=context.files.batch_id, fresh=context.overwrite is not None
    )
    return place_by_hash(parts, placing)


def _by_function(context: BatchContext, ingest: IngestReport, schema: TableSchema) -> Placed:
    """Place rows in fixed buckets, or in none: a row's bucket follows from the row."""
    mode = schema.bucket_mode
    if mode not in (BucketMode.HASH_FIXED, BucketMode.BUCKET_UNAWARE):
        raise UnsupportedError(f"bucket mode {mode.name} cannot be upserted yet", path=context.paths.root)
    counts, places = RowCounts(), []
    for part in read_keys(context.metadata, ingest, schema):
        keys = part.keys
        counts.add(len(keys), None, part.retract)
        buckets = keys.hashes if mode is BucketMode.HASH_FIXED else np.zeros(len(keys), np.int32)
        places.append(PartPlaces(keys.partitions, keys.codes, buckets))
    return Placed(parts=places, counts=counts)


def _check_overwrite(context: BatchContext, key_index: KeyIndex) -> None:
    if context.overwrite == "partitions" and key_index.is_global:
        raise UnsupportedError(
            "partitions cannot be overwritten alone where each key lives in one partition of the table: a key may live "
            "in another one; overwrite the table",
            path=context.paths.root,
        )
    if context.overwrite is not None and key_index.why_no_overwrite:
        raise UnsupportedError(key_index.why_no_overwrite, path=context.paths.root)
