"""Merge engine first-row: the first record of a key wins.

source   org.apache.paimon.mergetree.compact.FirstRowMergeFunction, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.engines.messages import first_row_retract
from lakeidx.data.engines.runs import kinds_of, make_runs
from lakeidx.data.row_kinds import is_retract


class FirstRowEngine:
    """The first record that adds.

    ignore_delete   drop records of kind -U and -D instead of refusing them
    """

    def __init__(self, *, ignore_delete: bool = False) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """See `MergeEngine.merge`.

        errors   InvalidInputError for a -U or -D that is not ignored
        """
        runs = make_runs(kv, starts)
        dropped = is_retract(kinds_of(kv))
        if not dropped.any():
            return kv if runs.count == runs.rows else kv.take(pa.array(runs.starts))
        lone = runs.lengths == 1 if shortcut else np.zeros(runs.count, np.bool_)
        if not self._ignore_delete and bool(np.any(dropped & ~runs.of_rows(lone))):
            raise first_row_retract()
        chosen = np.where(lone, runs.starts, runs.first_true(~dropped))
        return kv.take(pa.array(chosen[chosen >= 0]))

    def required_columns(self, columns: list[str]) -> list[str]:
        """See `MergeEngine.required_columns`."""
        return list(columns)
