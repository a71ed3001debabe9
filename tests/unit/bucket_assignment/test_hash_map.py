"""The open-addressing map against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_map import ABSENT, HashMap

RNG_SEED = 20240501


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def fill(hash_map: HashMap, hashes: NDArray[np.int32], *, bucket: int, room: int) -> tuple[int, list[int], list[bool]]:
    out, is_new = np.full(len(hashes), -9, np.int32), np.zeros(len(hashes), np.bool_)
    stop = hash_map.assign(hashes, out, is_new, start=0, bucket=bucket, room=room)
    return stop, out[:stop].tolist(), is_new[:stop].tolist()


# Columns whose mixed or plain values could crowd a table: runs, steps of powers of two, one value, the rims of int32.
PATTERNS = {
    "consecutive": np.arange(-5000, 5000, dtype=np.int32),
    "steps of 65536": (np.arange(5000, dtype=np.int64) * 65536).astype(np.int32),
    "steps of 2^20": (np.arange(4096, dtype=np.int64) << 20).astype(np.int32),
    "one residue of 7": (np.arange(9000, dtype=np.int64) * 7 * 50021 + 3).astype(np.int32),
    "one value": np.full(3000, 77, np.int32),
    "rims": column([2**31 - 1, -(2**31), 0, -1] * 50),
    "random, many repeats": np.random.default_rng(RNG_SEED).integers(-300, 300, 20_000).astype(np.int32),
    "random": np.random.default_rng(RNG_SEED).integers(-(2**31), 2**31, 30_000).astype(np.int32),
}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_is_kept_as_a_dict_keeps_it(pattern: str) -> None:
    hashes, hash_map, model = PATTERNS[pattern], HashMap(), dict[int, int]()
    for bucket, part in enumerate(np.array_split(hashes, 7)):
        expected_new = []
        for h in part.tolist():
            expected_new.append(h not in model)
            model.setdefault(h, bucket)
        stop, buckets, is_new = fill(hash_map, part, bucket=bucket, room=len(part) + 1)
        assert stop == len(part)
        assert buckets == [model[h] for h in part.tolist()]
        assert is_new == expected_new
    assert len(hash_map) == len(model)
    assert hash_map.lookup(hashes).tolist() == [model[h] for h in hashes.tolist()]
    strangers = np.setdiff1d(np.arange(-20_000, 20_000, dtype=np.int32), hashes)
    assert (hash_map.lookup(strangers) == ABSENT).all()


def test_store_overwrites_and_counts_what_was_unknown() -> None:
    hash_map = HashMap()
    assert hash_map.store(column([1, 2, 3]), 32766) == 3
    assert hash_map.store(column([3, 4, 4]), 0) == 1
    assert hash_map.lookup(column([1, 2, 3, 4, 5])).tolist() == [32766, 32766, 0, 0, ABSENT]
    assert len(hash_map) == 4


def test_assign_stops_before_the_first_new_hash_without_room() -> None:
    hash_map = HashMap()
    hash_map.store(column([5, 6]), 3)
    # Known hashes after the room is used up still get their bucket; the repeat of a new one, too.
    assert fill(hash_map, column([5, 10, 6, 11, 10, 5, 12, 5]), bucket=8, room=2) == (
        6,
        [3, 8, 3, 8, 8, 3],
        [False, True, False, True, False, False],
    )
    assert hash_map.lookup(column([12])).tolist() == [ABSENT]
    assert fill(hash_map, column([5, 6, 12]), bucket=8, room=0) == (2, [3, 3], [False, False])


def test_memory_is_8_to_10_bytes_per_hash() -> None:
    hashes = np.random.default_rng(RNG_SEED).permutation(np.arange(300_000, dtype=np.int32))
    loaded = HashMap()
    loaded.store(hashes, 1)
    assert 8 * len(hashes) <= loaded.memory_bytes <= 8.1 * len(hashes)
    grown = HashMap()
    fill(grown, hashes, bucket=1, room=len(hashes))
    assert 8 * len(hashes) <= grown.memory_bytes <= 10.1 * len(hashes)
    step = HashMap()
    for part in np.array_split(hashes, 100):
        fill(step, part, bucket=1, room=len(part))
        # Small columns cannot tell much about what comes: never more than a quarter above what is needed.
        assert step.memory_bytes <= 10.1 * max(len(step), 64)


def test_a_column_that_turns_known_reserves_at_most_double() -> None:
    fresh = np.arange(100_000, dtype=np.int32)
    hash_map = HashMap()
    fill(hash_map, np.concatenate([fresh, np.tile(fresh, 10)]), bucket=1, room=10**6)
    assert len(hash_map) == len(fresh)
    assert hash_map.memory_bytes <= 16.1 * len(fresh)


def test_store_gives_each_hash_a_bucket_of_its_own() -> None:
    hash_map = HashMap()
    assert hash_map.store(column([2, 1, 3]), column([7, 4, 9])) == 3
    assert hash_map.lookup(column([1, 2, 3])).tolist() == [4, 7, 9]
