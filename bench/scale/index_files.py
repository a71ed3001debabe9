"""The HASH index of the largest batch on its way to placing tasks: one map task, one placing task, and all of them by calculation.

`FILES` files (a bucket each) of `HASHES` hashes go to `TASKS` placing tasks, each of which owns some of every file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.growth.points import Point, make_table
from bench.scale.figure import Clock, Figure
from lakeidx.batch.assignment.place_work import PlaceWork
from lakeidx.batch.assignment.routed_keys import partition_hash
from lakeidx.batch.assignment.sent_index import IndexFiles, SentIndex, plan_index_files, send_index_files
from lakeidx.batch.upsert import make_context
from lakeidx.format.hash_index import encode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.table.index_files import index_file_path
from lakeidx.table.view import HASH_INDEX
from lakeidx.tasks.block_bytes import decode_block, encode_block
from lakeidx.tasks.routed_rows import Block, TargetGroups, cut_rows, group_targets

FILES, TASKS, HASHES = 100_000, 1_000, 10_000
#: Rows of a placing task, among which it looks for hashes.
TASK_ROWS, ROUNDS = 1_000_000, 3
_PARTITION = bytes.fromhex("00000001" + "00" * 16)


def measure(folder: Path) -> list[Figure]:
    """Send what one map task sends, and take what one placing task gets."""
    table = make_table(folder, Point("buckets", 1), "index_files")
    work = PlaceWork.of(make_context(table.metadata, "b"), table.schema, None, "none", TASKS)
    every = plan_index_files({_PARTITION: {b: _entry(b) for b in range(FILES)}}, 0)
    files = _written(work, every[0])
    groups = group_targets([TASK_ROWS] * TASKS, TASKS)
    sent, payload = _sent(work, every[0], groups)
    taken = _taken(work, [payload] * len(every), files)
    whole = Figure(
        f"calculated from both: {FILES:,} index files to {TASKS:,} tasks",
        cpu_seconds=len(every) * (sent.cpu_seconds or 0.0) + TASKS * (taken.cpu_seconds or 0.0),
        mib=len(every) * (sent.mib or 0.0),
    )
    return [sent, taken, whole]


def _entry(bucket: int) -> IndexEntry:
    name = f"index-{uuid.UUID(int=bucket)}-0"
    return IndexEntry(
        kind=FileKind.ADD, partition=_PARTITION, bucket=bucket, index_type=HASH_INDEX, file_name=name,
        file_size=4 * HASHES, row_count=HASHES,
    )  # fmt: skip


def _written(work: PlaceWork, item: IndexFiles) -> list[np.ndarray[Any, Any]]:
    """Write the files of a map task; gives their hashes."""
    random = np.random.default_rng(1)
    files = [np.sort(random.integers(-(1 << 31), 1 << 31, HASHES).astype(np.int32)) for _ in item.entries]
    for entry, hashes in zip(item.entries, files, strict=True):
        work.metadata.store.put(index_file_path(work.metadata, work.schema, entry), encode_hash_index(hashes))
    return files


def _sent(work: PlaceWork, item: IndexFiles, groups: TargetGroups) -> tuple[Figure, Any]:
    """Send a share of the files, as runners do; return the block of the first task, too."""
    best, sent = (float("inf"), float("inf")), []
    for _ in range(ROUNDS):
        clock = Clock()
        routed = send_index_files(work, item, is_global=False)
        blocks = (block for rows in routed for block in cut_rows(rows, groups))
        sent = [(int(block.targets[0]), p) for block in blocks for p in encode_block(block, groups)]
        best = min(best, clock.seconds())
    if [task for task, _ in sent] != list(range(TASKS)):
        raise AssertionError(f"{len(sent)} blocks for {TASKS} tasks")
    size = sum(payload.size for _, payload in sent)
    case = f"{len(item.entries):,} of {FILES:,} index files to {TASKS:,} tasks, a block each"
    return Figure(case, *best, mib=size / (1 << 20)), sent[0][1]


def _taken(work: PlaceWork, payloads: list[Any], files: list[np.ndarray[Any, Any]]) -> Figure:
    """Take the blocks of the first task; those of one map task stand for all."""
    rows = np.random.default_rng(2).integers(-(1 << 31), 1 << 31, TASK_ROWS).astype(np.int32)

    def blocks() -> Iterator[Block]:
        for order, payload in enumerate(payloads):
            yield from decode_block(0, order, payload).blocks()

    best, mib = (float("inf"), float("inf")), 0
    for _ in range(ROUNDS):
        clock = Clock()
        index = SentIndex.of([rows], FILES * HASHES // TASKS)
        list(index.take(blocks()))
        best, mib = min(best, clock.seconds()), max(mib, clock.mib())
    hits = index.hits(_PARTITION, [rows], threads=1)
    own = np.concatenate([h[work.plan.assigner_of(partition_hash(_PARTITION), h) == 0] for h in files])
    found = np.concatenate([hashes for _, hashes, _ in hits[: len(files)]])
    if not np.isin(own[np.isin(own, rows)], found).all() or not np.isin(found, own).all() or len(hits) < FILES:
        raise AssertionError("a task did not get its hashes")
    return Figure(f"a placing task takes its hashes of {FILES:,} index files", *best, mib=mib)
