"""The key state without a machine: built from a table's key columns, and asked by a process that has read nothing of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.bench_tagging import make_workload
from bench.keyed_table import KeyedTable
from bench.scale.asked_state import STATE, asked
from bench.scale.figure import Clock, Figure, in_bare_process, in_new_process
from lakeidx.key_index.locations import KeyBatch
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import make_key_index
from lakeidx.key_index.state.key_state import SHARD_ROWS
from lakeidx.key_index.state.manifest import StateManifest, decode_manifest, encode_manifest
from lakeidx.key_index.state.run_files import SegmentRef

ASKED, WARM, ROUNDS = 100_000, 50_000, 3
#: Of the state whose manifest is made: keys of a bucket, segments of a shard, bytes of a key in files and of a file.
BUCKET_KEYS, SEGMENTS, KEY_BYTES, FILE_BYTES = 2_000_000, 4, 45, 32 << 20


def measure(keys: int, folder: Path) -> list[Figure]:
    """Build the state of a table of text keys, and ask it for some of them, each in a process of its own."""
    warm = make_workload("random", WARM, 1000, folder / "warm")
    work = make_workload("random", keys, min(ASKED, keys), folder / "table")
    return [
        in_new_process(built, work, warm),
        answered(work),
        *(manifest(n) for n in (keys, 100 * keys, 1_000 * keys)),
    ]


def built(work: KeyedTable, warm: KeyedTable) -> Figure:
    """Build the state; a small one was built before."""
    for _ in range(2):
        make_key_index(IndexOptions(STATE)).tag(warm.fresh_batch(), warm.context(STATE))
    few, b = slice(0, 1000), work.batch
    batch = KeyBatch(b.partitions, b.partition[few], b.keys.slice(0, 1000), b.key_types, b.hashes[few])
    context, key_index = work.context(STATE), make_key_index(IndexOptions(STATE))
    clock = Clock()
    found = key_index.tag(batch, context)
    seconds, cpu = clock.seconds()
    mib = clock.mib()
    dataclasses.replace(work, batch=batch, bucket_of=work.bucket_of[few]).check(found.bucket, "state")
    return Figure(f"key state of {work.rows:,} text keys is built", seconds, cpu, mib=mib)


def answered(work: KeyedTable) -> Figure:
    """Ask the state from three new processes, one after another; the quickest counts."""
    figures = []
    for _ in range(ROUNDS):
        figure, found = in_bare_process(asked, work.handle.paths.root, work.index_folder, work.batch, work.rows)
        work.check(found.bucket, "state")
        figures.append(figure)
    quickest: Figure = min(figures, key=lambda figure: figure.seconds)
    return quickest


def manifest(keys: int) -> Figure:
    """Make the manifest of a state, which every task reads that asks it; seconds are those of reading it."""
    bits = max(0, (keys - 1) // SHARD_ROWS).bit_length()
    files = [f"run-{number:032x}.keys" for number in range(1 + keys * KEY_BYTES // FILE_BYTES)]
    shards = tuple(
        tuple(
            SegmentRef(files[(s * SEGMENTS + i) % len(files)], SHARD_ROWS, *([FILE_BYTES] * 8)) for i in range(SEGMENTS)
        )
        for s in range(1 << bits)
    )
    made = StateManifest(
        table_id="t",
        scope="s",
        snapshot_id=1,
        token="t",
        partitions=("00" * 24,),
        bits=bits,
        shards=shards,
        counts={(0, b): BUCKET_KEYS for b in range(1 + keys // BUCKET_KEYS)},
    )
    data = encode_manifest(made)
    clock = Clock()
    if decode_manifest(data) != made:
        raise AssertionError("the manifest is read as another")
    seconds, cpu = clock.seconds()
    return Figure(f"manifest of the key state of {keys:,} keys", seconds, cpu, mib=len(data) / (1 << 20))
