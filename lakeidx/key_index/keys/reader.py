"""Keys as they are read from data files, and the order of their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.locations import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Keys read from a data file.

    codes      of m rows, comparable with a batch's
    sequence   int64[m] sequence numbers, None when not requested
    kinds      int8[m] row kinds, None when not requested
    keys       the key columns, as in `KeyBatch.keys`
    order      columns of the table's ``sequence.field``, when requested and the table has one
    """

    codes: KeyCodes
    sequence: Int64s | None
    kinds: npt.NDArray[np.int8] | None
    keys: pa.Table
    order: tuple[pa.ChunkedArray, ...] = ()


def record_ages(order: Sequence[pa.ChunkedArray], sequence: Int64s, *, descending: bool) -> Int64s:
    """Return the numbers that order records of a key as merging does: by ``sequence.field`` columns if there are any,
    then by sequence number; higher = newer.

    order     columns over all m records; null is before every value, in both directions
    sequence  int64[m]
    returns   int64[m]
    """
    if not order:
        return sequence
    direction = "descending" if descending else "ascending"
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for i, column in enumerate(order):
        columns[f"valid{i}"], columns[f"o{i}"] = column.is_valid(), column
        keys += [(f"valid{i}", "ascending"), (f"o{i}", direction)]
    table = pa.table({**columns, "sequence": pa.array(sequence)})
    sorted_rows = pc.sort_indices(table, sort_keys=[*keys, ("sequence", "ascending")]).to_numpy()
    out = np.empty(len(sequence), np.int64)
    out[sorted_rows] = np.arange(len(sequence))
    return out
