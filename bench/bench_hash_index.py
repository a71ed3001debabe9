"""Placing the keys of a batch by a large HASH index: hashes only, no rows.

A dynamic-bucket table gets index files of many hashes, 2,000,000 in a bucket, ascending as lakeidx writes them, or in no order as
Java does. A batch of a hundredth of them, half of it known, is placed by the index as the stage `bucket_assignment` does it; then
as many new hashes as the index has are placed in an empty table. Every answer is compared with that of `PartitionIndex`, which
holds the whole index as a map and goes hash by hash. Each case runs in a process of its own, which has placed a few hashes before;
memory is what it takes at most beyond what it had then.

    python -m bench.bench_hash_index [--hashes 60000000] [--rounds 3] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.assignment.by_hash import HashPlacing, StoredIndex
from lakeidx.bucket_assignment import AssignRules, PartitionIndex, RandomBuckets
from lakeidx.bucket_assignment.partition_index import Assignment
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.table.handle import TableHandle
from lakeidx.table.index_files import write_hash_index
from lakeidx.testing.peak_memory import peak_mib

Hashes = NDArray[np.int32]
#: The one partition of a table without partition columns.
PARTITION = b"\x00\x00\x00\x00" + bytes(8)
TARGET_ROWS = 2_000_000
PART_ROWS = 1 << 20
SEED = 1
RULES = AssignRules(target_rows=TARGET_ROWS)


@dataclass(frozen=True, slots=True)
class Figure:
    """One case: least seconds of the rounds, and least seconds of the processors.

    hashes   in the batch
    held     in the index
    mib      memory taken beyond what the process had, of the first round
    """

    case: str
    hashes: int
    held: int
    seconds: float
    cpu_seconds: float
    mib: int


def distinct(n: int) -> Hashes:
    """Distinct hashes in random order, as murmur gives them for distinct keys."""
    rng = np.random.default_rng(SEED)
    found = np.unique(rng.integers(-(2**31), 2**31, n + n // 25 + 100, dtype=np.int64).astype(np.int32))
    return rng.permutation(found)[:n]


def make_index(uri: str, hashes: Hashes, *, ascending: bool) -> dict[int, IndexEntry]:
    """Make an empty table's index files, bucket by bucket."""
    fields = [{"name": "k", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "BIGINT"}]
    table = TableHandle.create(uri, {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "-1"}})
    metadata, names = table.metadata, NewFileNames()
    entries = {}
    for bucket, start in enumerate(range(0, len(hashes), TARGET_ROWS)):
        part = hashes[start : start + TARGET_ROWS]
        part = np.sort(part) if ascending else part
        entries[bucket] = write_hash_index(metadata, metadata.latest_schema(), PARTITION, bucket, part, names)
    return entries


def placed(uri: str, entries: dict[int, IndexEntry], batch: Hashes) -> list[Assignment]:
    """Place a batch as the stage does, its columns a part each."""
    metadata = TableHandle.open(uri).metadata
    index = StoredIndex(metadata, metadata.latest_schema(), {PARTITION: entries})
    placing = HashPlacing(index, RULES, RandomBuckets.seeded(str(SEED)), fresh=False)
    columns = [batch[at : at + PART_ROWS] for at in range(0, len(batch), PART_ROWS)]
    (found,) = placing.place_each([(PARTITION, lambda: columns)])
    return found


def measure(
    case: str, uri: str, entries: dict[int, IndexEntry], batch_file: str, held: int, rounds: int
) -> tuple[Figure, Hashes]:
    """Measure one case in the process it is called in; also gives the buckets."""
    batch = np.load(batch_file)
    placed(uri, {}, batch[:1000])
    first = next(iter(entries.values()), None)
    if first is not None:
        placed(uri, {first.bucket: first}, batch[:1000])
    before, mib = peak_mib(), 0
    wall, cpu = [], []
    for number in range(rounds):
        begun, used = time.perf_counter(), time.process_time()
        found = placed(uri, entries, batch)
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
        mib = mib if number else peak_mib() - before
    buckets = np.concatenate([a.buckets for a in found])
    return Figure(case, len(batch), held, round(min(wall), 3), round(min(cpu), 3), mib), buckets


def expected(known: Sequence[Hashes], batch: Hashes) -> Hashes:
    """Buckets by a map of the whole index, hash by hash."""
    index = PartitionIndex.load(list(enumerate(known)), rules=RULES, pick=RandomBuckets.seeded(str(SEED)))
    return index.assign_rows(batch).buckets


def run(hashes: int, rounds: int, folder: Path) -> list[Figure]:
    """All figures."""
    few = hashes // 100
    every = distinct(hashes + few // 2)
    held, new = every[:hashes], every[hashes:]
    rng = np.random.default_rng(SEED)
    batch = rng.permutation(np.concatenate((rng.choice(held, few - len(new), replace=False), new)))
    np.save(folder / "few.npy", batch)
    np.save(folder / "all.npy", held)
    buckets = [held[at : at + TARGET_ROWS] for at in range(0, hashes, TARGET_ROWS)]
    want_few, want_all = expected(buckets, batch), expected([], held)
    figures: list[Figure] = []
    for case, file, want, ascending in (
        ("few against many", "few.npy", want_few, True),
        ("few against many, Java's files", "few.npy", want_few, False),
        ("all new", "all.npy", want_all, None),
    ):
        uri = f"{folder}/{len(figures)}.db/t"
        entries = make_index(uri, held if ascending is not None else held[:0], ascending=bool(ascending))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            there = 0 if ascending is None else hashes
            figure, found = pool.apply(measure, (case, uri, entries, str(folder / file), there, rounds))
        assert np.array_equal(found, want), f"{case}: the buckets are not those of the rules"
        figures.append(figure)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hashes", type=int, default=60_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files are made; default: the system's")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-", dir=args.folder) as folder:
        figures = run(args.hashes, args.rounds, Path(folder))
    for figure in figures:
        if args.json:
            print(json.dumps(asdict(figure)))
        else:
            print(
                f"{figure.case:32} {figure.hashes:>11,} against {figure.held:>11,}: {figure.seconds:.3f} s, "
                f"{figure.cpu_seconds:.3f} CPU s, {figure.mib} MiB"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
