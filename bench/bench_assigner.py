"""Speed of bucket assignment per core: PartitionIndex over columns of key hashes.

Every case is first checked on its leading rows against the row-by-row rules (`lakeidx.testing.reference_assigner`), then
timed on all rows, one thread, best of several rounds. For comparison, org.apache.paimon.index.PartitionIndex of release 1.4.2 on
such a machine: about 6 M new and 23 M known hashes a second at 5 M hashes.

    python -m bench.bench_assigner [--rows 1000000,10000000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from bench.clock import best_of
from lakeidx.bucket_assignment import (
    AssignPlan,
    AssignRules,
    PartitionIndex,
    RandomBuckets,
    group_rows,
    plan_index_update,
)
from lakeidx.testing.reference_assigner import ReferenceIndex

Column = NDArray[np.int32]
CHECKED_ROWS = 200_000
SEED = "bench"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    case            what was done
    rows            rows of the column
    million_per_s   rows per second of the best round, in millions
    seconds         the best round by the clock; cpu_seconds the best by the processor
    bytes_per_hash  memory of the index afterwards, where there is one
    """

    case: str
    rows: int
    million_per_s: float
    seconds: float
    cpu_seconds: float
    bytes_per_hash: float | None


@dataclass(frozen=True, slots=True)
class Case:
    """A column assigned by an index.

    isolates  why the case is here
    known     hashes the index holds before
    column    what is assigned
    rules     limits
    """

    name: str
    isolates: str
    known: Column
    column: Column
    rules: AssignRules

    def index(self, rows: int | None = None) -> PartitionIndex:
        """Return a fresh index that holds the known hashes (or the first of them), 500,000 in a bucket."""
        known = self.known[:rows]
        files = [(b, known[at : at + 500_000]) for b, at in enumerate(range(0, len(known), 500_000))]
        return PartitionIndex.load(files, rules=self.rules, pick=RandomBuckets.seeded(SEED))


def distinct_hashes(rows: int) -> Column:
    """Return distinct hashes in random order, as murmur gives them for distinct keys."""
    rng = np.random.default_rng(rows)
    found = np.unique(rng.integers(-(2**31), 2**31, rows + rows // 50 + 100).astype(np.int32))
    return rng.permutation(found)[:rows]


def cases(rows: int) -> list[Case]:
    """Measure the grid for one size."""
    hashes = distinct_hashes(rows)
    rng = np.random.default_rng(7)
    shuffled, none = rng.permutation(hashes), hashes[:0]
    plain = AssignRules(target_rows=500_000)
    half = rows // 2
    mixed = rng.permutation(hashes)
    return [
        Case("known", "updates only: one lookup per row, cache misses", hashes, shuffled, plain),
        Case("new", "first load: insertion and growth from nothing", none, hashes, plain),
        Case("known, sorted", "keys that come in hash order", hashes, np.sort(hashes), plain),
        Case("new, sorted", "insertion in hash order", none, np.sort(hashes), plain),
        Case("half known", "an upsert, known and new rows mixed", hashes[:half], mixed, plain),
        Case("repeated", "few hot keys, all rows alike to the caches", none, np.resize(hashes[:100], rows), plain),
        Case("consecutive", "hashes that are not random at all", none, np.arange(rows, dtype=np.int32), plain),
        Case("small buckets", "a bucket fills every 1,000 rows", none, hashes, AssignRules(target_rows=max(1000, rows // 30_000))),
        Case("drawn", "max-buckets reached: a draw per new hash", none, hashes, AssignRules(target_rows=10, max_buckets=8)),
    ]  # fmt: skip


def check(case: Case) -> None:
    """Compare the leading rows with the row-by-row rules; raises AssertionError."""
    index = case.index(CHECKED_ROWS)
    keys, buckets = index.items()
    counts = [(b, index.counts[b]) for b in index.buckets.tolist()]
    twin = ReferenceIndex(
        case.rules, RandomBuckets.seeded(SEED), zip(keys.tolist(), buckets.tolist(), strict=True), counts
    )
    column = case.column[:CHECKED_ROWS]
    expected = np.fromiter((twin.assign(h) for h in column.tolist()), np.int32, len(column))
    if not np.array_equal(index.assign(column), expected):
        raise AssertionError(f"{case.name}: the column does not follow the rules")


def measure_case(case: Case, rounds: int) -> Figure:
    """Time one case that was checked."""
    check(case)
    last: list[PartitionIndex] = []

    def fresh() -> None:
        last[:] = [case.index()]

    seconds, cpu = best_of(rounds, lambda: last[0].assign_rows(case.column), prepare=fresh)
    rows = len(case.column)
    return Figure(case.name, rows, rows / seconds / 1e6, seconds, cpu, last[0].memory_bytes / max(len(last[0]), 1))


def measure_rest(rows: int, rounds: int) -> list[Figure]:
    """Measure what surrounds assignment: loading index files, planning an index update, routing."""
    hashes = distinct_hashes(rows)
    rules = AssignRules(target_rows=500_000)
    files = [(b, hashes[b::20].copy()) for b in range(20)]
    loaded = PartitionIndex.load(files, rules=rules, pick=RandomBuckets.seeded(SEED))
    assert all((loaded.lookup(part) == b).all() for b, part in files)
    load = best_of(rounds, lambda: PartitionIndex.load(files, rules=rules, pick=RandomBuckets.seeded(SEED)))
    old, new = np.sort(hashes[rows // 5 :]), hashes[: rows // 4]
    planned = plan_index_update(old, new)
    assert planned is not None
    assert np.array_equal(planned, np.union1d(old, new))
    update = best_of(rounds, lambda: plan_index_update(old, new))
    plan = AssignPlan(num_channels=8, num_assigners=8, target_rows=500_000)
    groups = group_rows(plan.assigner_of(5, hashes), 8)
    assert all(((5 + np.abs(hashes[groups.rows(t)].astype(np.int64)) % 8) % 8 == t).all() for t in range(8))
    split = best_of(rounds, lambda: group_rows(plan.assigner_of(5, hashes), 8))
    return [
        Figure("load 20 index files", rows, rows / load[0] / 1e6, *load, loaded.memory_bytes / len(loaded)),
        Figure("plan an index update", rows, rows / update[0] / 1e6, *update, None),
        Figure("split by 8 assigners", rows, rows / split[0] / 1e6, *split, None),
    ]


def run(sizes: list[int], rounds: int) -> list[Figure]:
    """Measure all sizes."""
    figures = []
    for rows in sizes:
        figures += [measure_case(case, rounds) for case in cases(rows)]
        figures += measure_rest(rows, rounds)
    return figures


def main(argv: list[str] | None = None) -> int:
    """Command line: see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000", help="column lengths, comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args(argv)
    figures = run([int(n) for n in arguments.rows.split(",")], arguments.rounds)
    if arguments.json:
        machine = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
        for figure in figures:
            print(json.dumps({"bench": "assigner", **asdict(figure), **machine}))
        return 0
    for figure in figures:
        size = "" if figure.bytes_per_hash is None else f"{figure.bytes_per_hash:6.1f} bytes/hash"
        print(f"{figure.case:22s} {figure.rows:>12,d} rows {figure.million_per_s:8.1f} M/s {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
