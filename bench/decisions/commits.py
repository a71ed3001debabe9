"""Decisions 2 and 3: two batches that assign keys on one snapshot, and a long batch among short ones.

The first runs lakeidx's own assignment twice on the same index, whose last bucket has room for half of the new keys. The second
plays races with numbers for a clock, no seconds pass: short batches commit at random (exponential intervals), a long one loses a
try during which one of them does. With priority the short ones wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from bench.decisions.figure import Figure
from lakeidx.batch.commit_priority import LOST_BEFORE_TURN
from lakeidx.bucket_assignment import AssignRules, PartitionIndex, RandomBuckets
from lakeidx.codec.bucket import buckets_of_hashes

KNOWN, NEW, TARGET = 995_000, 10_000, 100_000
#: Mean interval of short batches, time of a try of the long one, tries after which it is taken as starved, seeds.
SHORT, LONG, MOST_TRIES, HISTORIES = 1.0, 5.0, 10_000, 500


def two_batches() -> list[Figure]:
    """Return keys in two buckets after two batches with the same new keys, without a check and with lakeidx's."""
    rng = np.random.default_rng(2)
    hashes = rng.permutation(1 << 24)[: KNOWN + NEW].astype(np.int32) * 211
    if len(np.unique(hashes)) != len(hashes):
        sys.exit("the hashes are not distinct")
    known, new = hashes[:KNOWN], hashes[KNOWN:]
    rules = AssignRules(target_rows=TARGET)

    def index(seed: str) -> PartitionIndex:
        made = PartitionIndex.load([], rules=rules, pick=RandomBuckets.seeded("base"))
        buckets = made.assign(known)
        counted = [(b, known[buckets == b]) for b in np.unique(buckets).tolist()]
        return PartitionIndex.load(counted, rules=rules, pick=RandomBuckets.seeded(seed))

    order = rng.permutation(NEW)
    first = index("first")
    a = first.assign(new)
    # The other batch has the same keys in another order.
    b = np.empty_like(a)
    b[order] = index("second").assign(new[order])
    apart = int((a != b).sum())
    b[order] = first.assign(new[order])
    replanned = int((a != b).sum())
    return [
        Figure(2, "no check at commit", False, f"of {NEW:,} new keys in two buckets", apart, "keys"),
        Figure(
            2, "planned again on the newest snapshot", True, f"of {NEW:,} new keys in two buckets", replanned, "keys"
        ),
    ]


def modulo() -> list[Figure]:
    """Return the fullest bucket after a table grew to ten times what its number of buckets was chosen for."""
    chosen_for, grown = 10 * TARGET, 100 * TARGET
    hashes = (np.arange(grown, dtype=np.int64) * 2654435761 % (1 << 32) - (1 << 31)).astype(np.int32)
    index = PartitionIndex.load([], rules=AssignRules(target_rows=TARGET), pick=RandomBuckets.seeded("x"))
    filled = int(np.bincount(index.assign(hashes)).max())
    fixed = int(np.bincount(buckets_of_hashes(hashes, chosen_for // TARGET)).max())
    what = f"keys of the fullest bucket, target {TARGET:,}, after growth from {chosen_for:,} to {grown:,}"
    return [
        Figure(2, "deterministic buckets (hash modulo their number)", False, what, fixed, "keys"),
        Figure(2, "buckets that are filled up to a target", True, what, filled, "keys"),
    ]


def tries(rng: np.random.Generator, way: str) -> int:
    """Count the tries of a long batch until it commits; MOST_TRIES when it does not."""
    clock, commit = 0.0, 0.0
    for number in range(1, MOST_TRIES + 1):
        if way == "priority" and number > LOST_BEFORE_TURN:
            return number
        while commit <= clock:
            commit += rng.exponential(SHORT)
        if commit > clock + LONG:
            return number
        pause = {"longer pauses": 2.0 ** min(number, 10), "random waits": LONG * rng.random()}.get(way, 0.0)
        clock += LONG + pause
    return MOST_TRIES


def races() -> list[Figure]:
    """Count the tries of the long batch in the ways that were considered."""
    ways: dict[str, tuple[str, bool]] = {
        "none": ("try again at once", False),
        "longer pauses": ("pauses that double", False),
        "random waits": ("random waits up to the time of a try", False),
        "priority": ("priority after two lost races", True),
    }
    out = []
    for way, (words, chosen) in ways.items():
        counts = [tries(np.random.default_rng(seed), way) for seed in range(HISTORIES)]
        for what, value in (("median", int(np.median(counts))), ("worst", max(counts))):
            out.append(
                Figure(3, words, chosen, f"tries until the long batch commits, {what} of {HISTORIES}", value, "tries")
            )
    return out


#: What this module measures, one after another.
PARTS: tuple[Callable[[], list[Figure]], ...] = (two_batches, modulo, races)
