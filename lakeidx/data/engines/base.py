"""What every merge engine does."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class MergeEngine(Protocol):
    """Merges the rows of each key of a key-value table into at most one."""

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """Merge runs of rows.

        kv         key-value table in merge order: rows of a key one after another, ordered by the sequence fields, then
                   the sequence number, then retracts before adds. Columns may be left out, except those that
                   `required_columns` names
        starts     int64[g]: the first row of each key's run
        shortcut   return a lone record as it is (kind included), as reads and plain compactions do; without it a lone
                   record passes through the engine, as in lookup compactions
        returns    at most one row per run, in run order, with the columns of `kv`; rows of kind -U and -D are still
                   among them
        errors     InvalidInputError naming column and option for what the engine cannot merge
        """

    def required_columns(self, columns: list[str]) -> list[str]:
        """Return the columns that merging needs besides the system columns for correct values of `columns`.

        returns   `columns` first, then what is missing, in schema order
        """
