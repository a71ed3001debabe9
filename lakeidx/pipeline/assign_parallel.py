"""Bucket assignment of large batches by several assigners side by side, each with the part of the index that it owns.

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

from lakeidx.codec.binary_row import split_arity
from lakeidx.codec.murmur import hash_words
from lakeidx.errors import InternalError
from lakeidx.format.schema import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.index.assigner import AssignPlan, BucketAssigner, HashBucketAssigner, PartitionKey
from lakeidx.index.routing import group_rows
from lakeidx.index.rules import RandomBuckets
from lakeidx.index.simple_assigner import SimpleHashBucketAssigner
from lakeidx.pipeline.artifacts import IngestReport
from lakeidx.pipeline.assigned import Assignment, PartKeys, load_index_files, read_part_keys
from lakeidx.pipeline.keys import RowKeys
from lakeidx.pipeline.runner import Block, Runner
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import load_view

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
class AssignerTasks:
    """What the tasks need; pickles.

    snapshot   the state all assigners load their index from; None for a table without snapshots
    fresh      the batch replaces what is there, nothing is known
    """

    metadata: TableMetadata
    schema: TableSchema
    ingest: IngestReport
    snapshot: Snapshot | None
    plan: AssignPlan
    batch_id: str
    fresh: bool

    def split(self, number: int) -> Iterator[Block]:
        """Map: route the keys of one part."""
        found = read_part_keys(self.metadata, self.ingest, self.ingest.parts[number], self.schema)
        keys = found.keys
        if len(keys) == 0:
            return
        partition_hashes = np.array([_hash_of(p) for p in keys.partitions], np.int32)
        routed = self.plan.assigner_of(partition_hashes[keys.codes], keys.hashes)
        groups = group_rows(routed, self.plan.num_channels)
        retract = found.retract if found.retract is not None else np.zeros(len(keys), np.bool_)
        names = json.dumps([p.hex() for p in keys.partitions])
        for assigner in range(self.plan.num_channels):
            rows = groups.rows(assigner)
            if len(rows) == 0:
                continue
            table = pa.table(
                {
                    "position": rows.astype(np.int32),
                    "hash": keys.hashes[rows],
                    "code": keys.codes[rows],
                    "retract": retract[rows],
                }
            )
            yield Block(assigner, number, table.replace_schema_metadata({_PARTITIONS: names}))

    def combine(self, assign_id: int, blocks: Iterator[Block]) -> list[PlacedRows]:
        """Reduce: place the rows of one assigner, in batch order."""
        # Seeded by batch and assigner, so that a task that is run again gives the same buckets.
        pick = RandomBuckets.seeded(f"{self.batch_id}#{assign_id}")
        assigner: BucketAssigner = (
            SimpleHashBucketAssigner(self.plan, assign_id, pick)
            if self.fresh
            else HashBucketAssigner(self.plan, assign_id, _SnapshotIndex(self), pick)
        )
        return [_place(assigner, block) for block in blocks]


@dataclass(frozen=True, slots=True)
class _SnapshotIndex:
    """An `lakeidx.index.assigner.IndexLoader` over one snapshot."""

    tasks: AssignerTasks

    def load(self, partition: bytes) -> Sequence[tuple[int, NDArray[np.int32]]]:
        tasks = self.tasks
        view = load_view(tasks.metadata, tasks.snapshot, partitions={partition})
        return load_index_files(tasks.metadata, tasks.schema, partition, view.hash_index().get(partition, {}))


def _hash_of(partition: bytes) -> int:
    return hash_words(split_arity(partition)[1])


def _place(assigner: BucketAssigner, block: Block) -> PlacedRows:
    rows = block.rows
    partitions = tuple(bytes.fromhex(p) for p in json.loads((rows.schema.metadata or {})[_PARTITIONS]))
    positions, hashes, codes = (
        rows.column(n).to_numpy().astype(np.int32, copy=False) for n in ("position", "hash", "code")
    )
    buckets, known = np.empty(len(hashes), np.int32), np.zeros(len(hashes), np.bool_)
    groups = group_rows(codes, len(partitions))
    for code, partition in enumerate(partitions):
        mine = groups.rows(code)
        if len(mine):
            placed = assigner.assign(PartitionKey(partition, _hash_of(partition)), hashes[mine])
            buckets[mine], known[mine] = placed.buckets, ~placed.is_new
    retract = rows.column("retract").to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
    return PlacedRows(block.order, partitions, positions, codes, retract, buckets, known)


def plan_assigners(schema: TableSchema, parallelism: int) -> AssignPlan:
    """How many assigners share the work, by the table's dynamic-bucket options and the runner's slots."""
    options = schema.table_options
    return AssignPlan.from_options(
        parallelism=parallelism,
        target_rows=options.dynamic_bucket_target_row_num,
        max_buckets=options.dynamic_bucket_max_buckets,
        initial_buckets=options.dynamic_bucket_initial_buckets,
        assigner_parallelism=options.dynamic_bucket_assigner_parallelism,
    )


def assign_in_tasks(tasks: AssignerTasks, runner: Runner) -> tuple[list[PartKeys], Assignment]:
    """Place all rows of a batch.

    returns   per part its partition codes and row kinds (key hashes stay in the tasks), and the assignment
    errors    what reading parts and index files raises; InternalError when a row got no bucket
    """
    placed = runner.shuffle(
        tasks.split,
        range(len(tasks.ingest.parts)),
        tasks.combine,
        weights=[1] * tasks.plan.num_channels,
        label="bucket_assignment",
    )
    parts: list[PartKeys] = []
    out = Assignment([], [], figures={"assigners": float(tasks.plan.num_channels)})
    assert out.known is not None
    by_part: dict[int, list[PlacedRows]] = {}
    for rows in (rows for task in placed for rows in task):
        by_part.setdefault(rows.part, []).append(rows)
    for number, part in enumerate(tasks.ingest.parts):
        pieces = by_part.get(number, [])
        buckets, codes = np.full(part.rows, -1, np.int32), np.zeros(part.rows, np.int32)
        known, retract = np.zeros(part.rows, np.bool_), np.zeros(part.rows, np.bool_)
        for piece in pieces:
            buckets[piece.positions], codes[piece.positions] = piece.buckets, piece.codes
            known[piece.positions], retract[piece.positions] = piece.known, piece.retract
        if part.rows and int(buckets.min()) < 0:
            raise InternalError(f"{int((buckets < 0).sum())} rows got no bucket", path=part.path)
        parts.append(PartKeys(RowKeys(pieces[0].partitions if pieces else (), codes, buckets), retract))
        out.buckets.append(buckets)
        out.known.append(known)
    return parts, out
