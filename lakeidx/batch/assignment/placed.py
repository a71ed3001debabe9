"""The result of placing the rows of a batch, the same for every way of placing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.assignment.keyed_batch import KeyedBatch, PartRows
from lakeidx.key_index.locations import KeyLocations

if TYPE_CHECKING:
    from lakeidx.key_index.key_moves import MovePlan

#: (partition bytes, bucket)
Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True, eq=False)
class PartPlaces:
    """Where the rows of one staged part go, dropped ones left out, and after them the deletes that it adds.

    rows         which rows of which part: those that are kept and those that are dropped
    partitions   distinct partitions as manifest bytes
    codes        int32[n]: which of them each row goes to
    buckets      int32[n]
    ranks        int32[partitions], ascending: which of the part's partitions they are; None: all of them
    """

    rows: PartRows
    partitions: tuple[bytes, ...]
    codes: NDArray[np.int32]
    buckets: NDArray[np.int32]
    ranks: NDArray[np.int32] | None = None


@dataclass(slots=True)
class RowCounts:
    """Rows of a batch by what they do: a retract is a delete, else a known key is an update, a new one an insert.

    upserts   updates and inserts, where nobody looks which of the two
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    upserts: int = 0

    def add(self, rows: int, known: NDArray[np.bool_] | None, retract: NDArray[np.bool_] | None) -> None:
        """Count some rows.

        known     bool[rows]; None: it is unknown which keys exist (fixed buckets), every row that is no delete is an upsert
        retract   bool[rows]; None: no row is
        """
        deletes = 0 if retract is None else int(np.count_nonzero(retract))
        self.deletes += deletes
        if known is None:
            self.upserts += rows - deletes
            return
        updates = int(np.count_nonzero(known if retract is None else known & ~retract))
        self.updates += updates
        self.inserts += rows - deletes - updates

    def join(self, other: RowCounts) -> None:
        """Add another task's counts to these."""
        self.inserts += other.inserts
        self.updates += other.updates
        self.deletes += other.deletes
        self.upserts += other.upserts

    @property
    def rows(self) -> int:
        """All of them."""
        return self.inserts + self.updates + self.deletes + self.upserts


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Rows that are written to another partition than their own columns name, or dropped.

    batch   the batch they are of
    plan    with all buckets filled in
    """

    batch: KeyedBatch
    plan: MovePlan

    @property
    def any(self) -> bool:
        """True when some row is dropped, moved, or adds a delete."""
        plan = self.plan
        if len(plan.delete_row) or not bool(plan.keep.all()):
            return True
        return bool((plan.partition != self.batch.keys.partition).any())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Placed:
    """Places of all rows of a batch, or of those of a task's share of it.

    parts          per staged part
    counts         rows by what they do
    new_hashes     hashes that each bucket got and did not have; None: not counted, the index file has to be examined
    metrics        what finding the keys took
    moves          of index types that find keys; None where every row goes to its own partition
    located        what an index type with state outside the table had answered, and the batch it answered for
    is_global      keys were looked for in all partitions
    by_partition   a key's bucket depends on all buckets of its partition
    """

    parts: Sequence[PartPlaces]
    counts: RowCounts
    new_hashes: Mapping[Place, int] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    moves: Moves | None = None
    located: tuple[KeyedBatch, KeyLocations] | None = None
    is_global: bool = False
    by_partition: bool = False
