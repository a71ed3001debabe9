"""Merge engine deduplicate: the last record of a key wins, kind and all.

source   org.apache.paimon.mergetree.compact.DeduplicateMergeFunction, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.data.engines.runs import kinds_of, make_runs
from lakeidx.data.row_kinds import is_retract


class DeduplicateEngine:
    """The last record, or the last that is not ignored.

    ignore_delete   records of kind -U and -D are skipped
    """

    def __init__(self, *, ignore_delete: bool = False) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, kv: pa.Table, starts: npt.NDArray[np.int64], *, shortcut: bool = False) -> pa.Table:
        """See `MergeEngine.merge`."""
        runs = make_runs(kv, starts)
        if not self._ignore_delete:
            return kv if runs.count == runs.rows else kv.take(pa.array(runs.lasts))
        ignored = is_retract(kinds_of(kv))
        if not ignored.any():
            return kv.take(pa.array(runs.lasts))
        chosen = runs.last_true(~ignored)
        if shortcut:
            chosen = np.where(runs.lengths == 1, runs.starts, chosen)
        return kv.take(pa.array(chosen[chosen >= 0]))

    def required_columns(self, columns: list[str]) -> list[str]:
        """See `MergeEngine.required_columns`."""
        return list(columns)
