"""Key ranges of live data files: from the manifests, in the keys' own order.

Every manifest entry of a primary-key table carries its file's smallest and largest key, so pruning by ranges costs no
read. Keys of several columns are pruned by the first column. Where the first column's type has no order here, or a
file carries no keys, it has no range and is always a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import internal_to_arrow
from lakeidx.key_index.keys.codes import has_int_view, int_view
from lakeidx.key_index.keys.ranges import SlotRanges, bytes_slots, int_slots
from lakeidx.key_index.locations import Int64s, KeyBatch, LiveFile
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType


def file_slots(batch: KeyBatch, rows: Int64s, files: Sequence[LiveFile], *, prune: bool) -> SlotRanges:
    """Return the ranges of files and some of a batch's keys, in slots.

    rows    int64[m] positions in the batch
    prune   False: no file has a range
    errors  CorruptFileError for a key range that cannot be decoded
    """
    first = batch.key_types[0]
    column = batch.keys.column(0)
    bounds = [_bounds(f, batch.key_types) if prune else (None, None) for f in files]
    low, high = [b[0] for b in bounds], [b[1] for b in bounds]
    if has_int_view(first):
        always = np.array([v is None for v in low], np.bool_)
        ends = [_ints(e, first) for e in (low, high)]
        return int_slots(int_view(column, first)[rows], ends[0], ends[1], always)
    if first.root in STRING_ROOTS or first.root in BYTES_ROOTS:
        keys = RowBytes.from_arrow(column if len(rows) == len(batch) else column.take(pa.array(rows)))
        return bytes_slots(keys, [_raw(v) for v in low], [_raw(v) for v in high])
    return int_slots(
        np.zeros(len(rows), np.int64),
        np.zeros(len(files), np.int64),
        np.zeros(len(files), np.int64),
        np.ones(len(files), np.bool_),
    )


def _bounds(file: LiveFile, types: Sequence[DataType]) -> tuple[object, object]:
    """Return the first column of the smallest and the largest key, (None, None) when the file has none."""
    ends: list[object] = []
    for raw in (file.meta.min_key, file.meta.max_key):
        arity, row = split_arity(raw)
        if arity != len(types):
            return None, None
        ends.append(decode_row(row, types)[0])
    return (None, None) if None in ends else (ends[0], ends[1])


def _ints(values: Sequence[object], data_type: DataType) -> Int64s:
    known = [i for i, v in enumerate(values) if v is not None]
    out = np.zeros(len(values), np.int64)
    out[known] = int_view(internal_to_arrow([values[i] for i in known], data_type), data_type)
    return out


def _raw(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8")
    return value if isinstance(value, bytes) else None
