"""Data files opened for their keys: the interface between key indexes and readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.format.hudi.footer import KeyFooter
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.locations import Int64s, LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.types import DataType, Field


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


class OpenKeyFile(Protocol):
    """A data file opened for its keys."""

    def footer(self) -> KeyFooter:
        """Read the key index in the footer; an empty one for formats and writers that leave none."""
        ...

    def read(self, wanted: KeyCodes | None, metrics: IndexMetrics, *, versions: bool = False) -> KeyRows:
        """Read the key columns, and nothing else.

        wanted    leave out row groups that hold none of these keys; None reads all
        versions  with sequence numbers, row kinds and what else orders the records of a key
        """
        ...

    def holds_deletes(self) -> bool:
        """Return True when a row is of kind -U or -D; reads the column of row kinds."""
        ...


class KeyReader(Protocol):
    """Opens data files for their keys."""

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """Columns of the trimmed primary key."""
        ...

    @property
    def key_types(self) -> tuple[DataType, ...]:
        """Their types."""
        ...

    def open(self, file: LiveFile) -> OpenKeyFile:
        """Open one file; threads may open different files at once."""
        ...


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
