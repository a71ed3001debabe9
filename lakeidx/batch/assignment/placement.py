"""Input and result of placing the rows of a batch, in whichever process it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.assignment.row_keys import PartRows, RowKeys
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.bucket_assignment.rules import AssignRules, RandomBuckets, assigner_of
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.locations import KeyLocations
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata

if TYPE_CHECKING:
    from lakeidx.batch.assignment.keyed_batch import KeyedBatch
    from lakeidx.key_index.key_moves import MovePlan


@dataclass(frozen=True, slots=True)
class PlaceWork:
    """One batch on one snapshot; pickles, and its size does not grow with rows, parts or buckets.

    staging     where the batch is staged
    index       the table's index type
    snapshot    the state that keys are looked for in; None for a table without snapshots
    fresh       the batch replaces what is there: nothing is known, buckets are filled again from 0
    directory   where targets are written
    rules       where new hashes go, and how many placing tasks share them
    here        the one task runs in the process that plans the batch, with what that keeps of the index
    """

    metadata: TableMetadata
    staging: ObjectStore
    schema: TableSchema
    index: TableIndex
    snapshot: Snapshot | None
    batch_id: str
    fresh: bool
    directory: str
    rules: AssignRules
    here: bool

    @classmethod
    def of(
        cls, context: BatchContext, schema: TableSchema, snapshot: Snapshot | None, directory: str, tasks: int | None
    ) -> PlaceWork:
        """Make the work of a batch; `tasks` are at most those that may run at a time, None: one in this process."""
        files, fresh, index = context.files, context.overwrite is not None, TableIndex.of(schema)
        rules, here = plan_assigners(schema, tasks), tasks is None
        return cls(
            context.metadata, files.store, schema, index, snapshot, files.batch_id, fresh, directory, rules, here
        )

    def owners(self, keys: RowKeys) -> NDArray[np.int32]:
        """Return the placing task of each row, int32[n]; a key of a global index has one task in all partitions."""
        tasks = self.rules.num_assigners
        if self.index.is_global:
            return assigner_of(0, keys.hashes, num_channels=tasks, num_assigners=tasks)
        of_partitions = np.array([partition_hash(p) for p in keys.partitions], np.int32)
        return assigner_of(of_partitions[keys.codes], keys.hashes, num_channels=tasks, num_assigners=tasks)

    def rules_of(self, task: int) -> AssignRules:
        """Return the rules of a placing task."""
        return replace(self.rules, assign_id=task)

    def pick(self, task: int) -> RandomBuckets:
        """Return the draws of buckets; seeded by batch and task, so that either may be run again and decides the same."""
        return RandomBuckets.seeded(f"{self.batch_id}#{task}")


def partition_hash(partition: bytes) -> int:
    """Return the hash of a partition, as manifests have it, which selects the placing task of its first keys."""
    return hash_words(split_arity(partition)[1])


def plan_assigners(schema: TableSchema, parallelism: int | None) -> AssignRules:
    """Plan how many assigners share the work, by the table's dynamic-bucket options and the runner's slots; None: one does all.

    Never more than there may be buckets, so that each owns the id of one; an idle one would be of no use.
    """
    options = schema.table_options
    target_rows, most = options.dynamic_bucket_target_row_num, options.dynamic_bucket_max_buckets
    tasks = 1
    if parallelism is not None:
        limits = (options.dynamic_bucket_initial_buckets, most if most > 0 else None)
        tasks = options.dynamic_bucket_assigner_parallelism or parallelism
        tasks = min([tasks, *(limit for limit in limits if limit is not None)])
    return AssignRules(target_rows=target_rows, max_buckets=most, num_assigners=tasks)


#: (partition bytes, bucket)
Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True, eq=False)
class PartPlaces:
    """Targets of the rows of one staged part, dropped ones left out, and after them the deletes that it adds.

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
