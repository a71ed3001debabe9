"""Locate the keys of some rows, then place those that are nowhere: of a whole batch, or of the share that a task was sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakeidx.batch.assignment.by_hash import place_by_hash
from lakeidx.batch.assignment.part_keys import PartKeys
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.placed import PartPlaces, Placed, RowCounts
from lakeidx.errors import UnsupportedError
from lakeidx.format.schema.schema_file import BucketMode


def place_parts(work: PlaceWork, parts: Sequence[PartKeys], task: int | None) -> Placed:
    """Place rows whose bucket follows from their hash, or from the HASH index.

    task     the placing task whose share they are; None: all rows of the batch are
    errors   UnsupportedError for other bucket modes; see `place_by_hash`
    """
    if work.index.type is not None:
        return place_by_hash(work, parts, task)
    mode = work.schema.bucket_mode
    if mode not in (BucketMode.HASH_FIXED, BucketMode.BUCKET_UNAWARE):
        raise UnsupportedError(f"bucket mode {mode.name} cannot be upserted yet", path=work.metadata.paths.root)
    counts, places = RowCounts(), []
    for part in parts:
        keys = part.keys
        # Without a primary key each row is a new one.
        counts.add(len(keys), None if work.schema.primary_keys else np.zeros(len(keys), np.bool_), part.retract)
        buckets = keys.hashes if mode is BucketMode.HASH_FIXED else np.zeros(len(keys), np.int32)
        places.append(PartPlaces(part.rows, keys.partitions, keys.codes, buckets, part.ranks))
    return Placed(parts=places, counts=counts)
