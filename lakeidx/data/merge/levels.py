"""The level a record comes from, where merging depends on it.

In a table whose compactions look keys up (changelog-producer lookup, deletion vectors, first-row, force-lookup) a record above
level 0 already holds what lay below it when it was made. Of a key's records above level 0 only that of the lowest level counts;
an aggregation of all of them would count the older ones twice, and a sequence field could bring an older one back.

source   org.apache.paimon.mergetree.compact.LookupMergeFunction, org.apache.paimon.table.PrimaryKeyFileStoreTable.store,
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: A column of KV tables on their way into a merge; int8, one value per file.
LEVEL = "_LEVEL"


Int64s = npt.NDArray[np.int64]


def with_level(batches: Iterable[pa.Table], level: int) -> Iterator[pa.Table]:
    """Read batches of one file, with the column LEVEL: where merges of the table need it (option `merges_by_level`)."""
    for rows in batches:
        yield rows.append_column(LEVEL, pa.array(np.full(rows.num_rows, level, np.int8)))


def newest_above_0(rows: Int64s, starts: Int64s, levels: npt.NDArray[np.int8]) -> tuple[Int64s, Int64s]:
    """Drop records above level 0 that a newer record of the key replaces.

    rows, starts   int64[n], int64[g]: row numbers by key, and where each key begins
    levels         int8[n]: of the rows
    returns        the rows that stay, in order, and where each key begins among them; no key is left without a row
    """
    above = levels > 0
    lowest = np.minimum.reduceat(np.where(above, levels, np.int8(127)), starts)
    lengths = np.diff(np.append(starts, len(rows)))
    keep = ~above | (levels == np.repeat(lowest, lengths))
    if keep.all():
        return rows, starts
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep)))
    return rows[keep], before[starts]
