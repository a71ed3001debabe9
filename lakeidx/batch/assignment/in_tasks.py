"""Placing of large batches by several assigners side by side, each with the part of the index that it owns.

A map task reads the key columns of a part and sends (position, hash) of its rows to the assigner that owns the hash; an assigner
loads the index of a partition when its first row comes, keeps the hashes it owns and opens and fills only buckets of its own.
Rows themselves do not move here. The driver holds a few bytes for each row: its bucket, its partition code and two flags.

source   org.apache.paimon.flink.sink.RowDynamicBucketSink, org.apache.paimon.index.HashBucketAssigner, release 1.4.2
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import IngestReport, SourceFile, StagedPart
from lakeidx.batch.assignment.part_keys import read_part_keys
from lakeidx.batch.assignment.placed import PartPlaces, Place, Placed, RowCounts
from lakeidx.batch.context import BatchContext
from lakeidx.bucket_assignment.assigner import AssignPlan, BucketAssigner, HashBucketAssigner, PartitionKey
from lakeidx.bucket_assignment.partition_index import IndexedBucket
from lakeidx.bucket_assignment.routing import RowGroups, group_rows
from lakeidx.bucket_assignment.rules import RandomBuckets
from lakeidx.bucket_assignment.simple_assigner import SimpleHashBucketAssigner
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.errors import InternalError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.key_buckets import find_hits, hash_entries
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.routed_rows import Block, RoutedRows

_PARTITIONS = b"partitions"


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows of one part that one assigner placed.

    part        number of the part; partitions: its distinct partitions
    positions   int32[n] rows of the part; the other columns in the same order
    """

    part: int
    partitions: tuple[bytes, ...]
    positions: NDArray[np.int32]
    codes: NDArray[np.int32]
    retract: NDArray[np.bool_]
    buckets: NDArray[np.int32]
    known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _AssignerTasks:
    """What the tasks need; pickles.

    snapshot   the state all assigners load their index from; None for a table without snapshots
    fresh      the batch replaces what is there, nothing is known
    """

    metadata: TableMetadata
    schema: TableSchema
    snapshot: Snapshot | None
    plan: AssignPlan
    batch_id: str
    fresh: bool

    def split(self, item: tuple[int, StagedPart, SourceFile | None]) -> Iterator[RoutedRows]:
        """Map: route the keys of one part."""
        number, part, source = item
        found = read_part_keys(self.metadata, source, part, self.schema)
        keys = found.keys
        if len(keys) == 0:
            return
        partition_hashes = np.array([_hash_of(p) for p in keys.partitions], np.int32)
        routed = self.plan.assigner_of(partition_hashes[keys.codes], keys.hashes)
        names = json.dumps([p.hex() for p in keys.partitions])
        retract = found.retract if found.retract is not None else np.zeros(len(keys), np.bool_)
        columns = {
            "position": np.arange(len(keys), dtype=np.int32),
            "hash": keys.hashes,
            "code": keys.codes,
            "retract": retract,
        }
        yield RoutedRows(number, pa.table(columns).replace_schema_metadata({_PARTITIONS: names}), routed)

    def combine(self, assign_id: int, blocks: Iterator[Block]) -> list[PlacedRows]:
        """Reduce: place the rows of one assigner, in batch order."""
        # Seeded by batch and assigner, so that a task that is run again gives the same buckets.
        pick = RandomBuckets.seeded(f"{self.batch_id}#{assign_id}")
        received = [_Keys.of(block) for block in blocks]
        assigner: BucketAssigner = (
            SimpleHashBucketAssigner(self.plan, assign_id, pick)
            if self.fresh
            else HashBucketAssigner(self.plan, assign_id, _SnapshotIndex(self, received), pick)
        )
        return [_place(assigner, block) for block in received]


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """Keys of one part that came to an assigner, in the part's order.

    rows     int64[n], grouped by partition: `groups.rows(code)`
    """

    part: int
    partitions: tuple[bytes, ...]
    positions: NDArray[np.int32]
    hashes: NDArray[np.int32]
    codes: NDArray[np.int32]
    retract: NDArray[np.bool_]
    groups: RowGroups

    @classmethod
    def of(cls, block: Block) -> _Keys:
        """Return the columns of a block."""
        rows = block.rows
        partitions = tuple(bytes.fromhex(p) for p in json.loads((rows.schema.metadata or {})[_PARTITIONS]))
        positions, hashes, codes = (
            rows.column(n).to_numpy().astype(np.int32, copy=False) for n in ("position", "hash", "code")
        )
        retract = rows.column("retract").to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
        return cls(block.order, partitions, positions, hashes, codes, retract, group_rows(codes, len(partitions)))

    def hashes_of(self, partition: bytes) -> NDArray[np.int32]:
        """Return the hashes of the rows of one partition."""
        if partition not in self.partitions:
            return np.zeros(0, np.int32)
        return self.hashes[self.groups.rows(self.partitions.index(partition))]


@dataclass(frozen=True, slots=True)
class _SnapshotIndex:
    """An `lakeidx.bucket_assignment.assigner.IndexLoader` over one snapshot: what its files have of the assigner's own keys."""

    tasks: _AssignerTasks
    received: Sequence[_Keys]

    def load(self, partition: bytes) -> Sequence[IndexedBucket]:
        tasks = self.tasks
        entries = hash_entries(tasks.metadata, tasks.snapshot, (partition,))[partition].values()
        columns = [keys.hashes_of(partition) for keys in self.received]
        found = find_hits(tasks.metadata, tasks.schema, list(entries), columns)
        return [(hits.entry.bucket, hits.known, hits.entry.row_count) for hits in found]


def _hash_of(partition: bytes) -> int:
    return hash_words(split_arity(partition)[1])


def _place(assigner: BucketAssigner, keys: _Keys) -> PlacedRows:
    buckets, known = np.empty(len(keys.hashes), np.int32), np.zeros(len(keys.hashes), np.bool_)
    for code, partition in enumerate(keys.partitions):
        mine = keys.groups.rows(code)
        if len(mine):
            placed = assigner.assign(PartitionKey(partition, _hash_of(partition)), keys.hashes[mine])
            buckets[mine], known[mine] = placed.buckets, ~placed.is_new
    return PlacedRows(keys.part, keys.partitions, keys.positions, keys.codes, keys.retract, buckets, known)


def plan_assigners(schema: TableSchema, parallelism: int) -> AssignPlan:
    """Plan how many assigners share the work, by the table's dynamic-bucket options and the runner's slots."""
    options = schema.table_options
    return AssignPlan.from_options(
        parallelism=parallelism,
        target_rows=options.dynamic_bucket_target_row_num,
        max_buckets=options.dynamic_bucket_max_buckets,
        initial_buckets=options.dynamic_bucket_initial_buckets,
        assigner_parallelism=options.dynamic_bucket_assigner_parallelism,
    )


def place_in_tasks(
    context: BatchContext, ingest: IngestReport, schema: TableSchema, snapshot: Snapshot | None
) -> Placed:
    """Place all rows of a batch; key hashes stay in the tasks.

    errors    what reading parts and index files raises; InternalError when a row got no bucket
    """
    plan = plan_assigners(schema, context.runner.parallelism)
    fresh = context.overwrite is not None
    tasks = _AssignerTasks(context.metadata, schema, snapshot, plan, context.files.batch_id, fresh)
    placed = context.runner.shuffle(
        tasks.split,
        [(number, part, ingest.source_of(part)) for number, part in enumerate(ingest.parts)],
        tasks.combine,
        targets=range(plan.num_channels),
        weights=[1] * plan.num_channels,
        label=context.label("bucket_assignment"),
    )
    by_part: dict[int, list[PlacedRows]] = {}
    for rows in (rows for task in placed for rows in task):
        by_part.setdefault(rows.part, []).append(rows)
    counts, new_hashes = RowCounts(), dict[Place, int]()
    parts = []
    for number, part in enumerate(ingest.parts):
        pieces = by_part.get(number, [])
        for piece in pieces:
            counts.add(len(piece.positions), piece.known, piece.retract)
            _count_new(piece, new_hashes)
        parts.append(_join(part, pieces))
    return Placed(parts=parts, counts=counts, new_hashes=new_hashes, metrics={"assigners": float(plan.num_channels)})


def _join(part: StagedPart, pieces: Sequence[PlacedRows]) -> PartPlaces:
    """Return the rows of one part, as its assigners placed them."""
    buckets, codes = np.full(part.rows, -1, np.int32), np.zeros(part.rows, np.int32)
    for piece in pieces:
        buckets[piece.positions], codes[piece.positions] = piece.buckets, piece.codes
    if part.rows and int(buckets.min()) < 0:
        raise InternalError(f"{int((buckets < 0).sum())} rows got no bucket", path=part.path)
    return PartPlaces(pieces[0].partitions if pieces else (), codes, buckets)


def _count_new(piece: PlacedRows, counts: dict[Place, int]) -> None:
    """Add the hashes that are new to their bucket."""
    new = ~piece.known
    codes = piece.codes[new].astype(np.int64) << 32 | piece.buckets[new]
    for value, count in zip(*(a.tolist() for a in np.unique(codes, return_counts=True)), strict=True):
        place = (piece.partitions[value >> 32], value & 0xFFFFFFFF)
        counts[place] = counts.get(place, 0) + count
