"""Merged streams of keys against sorting and plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.arrays import frozen
from lakeidx.codec.order.normalized_key import NormalizedKeys, normalized_keys
from lakeidx.data.merge.kernels import empty_rows, is_rising, key_buffers, pick_last, starts_of_keys
from lakeidx.data.merge.run_parts import concat_keys, merge_parts, merge_to_last, take_keys
from lakeidx.types import parse_type

KINDS = ("BIGINT NOT NULL", "STRING NOT NULL", "two words")


def keys_of(numbers: Sequence[int], kind: str) -> NormalizedKeys:
    """Keys in the order of the numbers."""
    if kind == "two words":
        columns = [pa.array([n // 5 for n in numbers], pa.int64()), pa.array([n % 5 for n in numbers], pa.int32())]
        return normalized_keys(columns, [parse_type("BIGINT NOT NULL"), parse_type("INT NOT NULL")])
    if kind == "STRING NOT NULL":
        # Many share their first eight bytes.
        return normalized_keys([pa.array([f"{n // 100:09d} {n:06d}" for n in numbers])], [parse_type(kind)])
    return normalized_keys([pa.array(numbers, pa.int64())], [parse_type(kind)])


PART = st.one_of(
    st.lists(st.integers(0, 12), unique=True, max_size=8),
    # Long stretches between the keys of the others.
    st.builds(lambda a, n, step: list(range(a, a + n * step, step)), st.integers(0, 20), st.integers(1, 300), st.integers(1, 3)),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(parts=st.lists(PART.map(sorted), min_size=1, max_size=4), data=st.data())
def test_the_last_row_of_each_key(kind: str, parts: list[list[int]], data: st.DataObject) -> None:
    numbers = [n for part in parts for n in part]
    if not numbers:
        return
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    sequences = rng.integers(0, data.draw(st.sampled_from([1, 3, 10**6])), len(numbers))
    row_kinds = rng.integers(0, 4, len(numbers)).astype(np.int8)
    keys = concat_keys([keys_of(part, kind) for part in parts if part])
    buffers, lengths = key_buffers(keys), [len(part) for part in parts if part]
    order = merge_parts(lengths, buffers)
    assert [numbers[row] for row in order] == sorted(numbers)
    starts = starts_of_keys(buffers, order)
    assert [numbers[order[s]] for s in starts] == sorted(set(numbers))
    wanted = np.empty(len(starts), np.int64)
    pick_last(frozen(order), frozen(starts), frozen(sequences), frozen(row_kinds), wanted)
    found = merge_to_last(lengths, buffers, sequences, row_kinds)
    assert found.tolist() == wanted.tolist()
    # And by a dictionary: of a key's rows the greatest number, an add after a retract, is the last.
    best: dict[int, tuple[int, bool]] = {}
    for n, sequence, row_kind in zip(numbers, sequences.tolist(), row_kinds.tolist(), strict=True):
        best[n] = max(best.get(n, (-1, False)), (sequence, row_kind % 2 == 0))
    assert {numbers[r]: (int(sequences[r]), bool(row_kinds[r] % 2 == 0)) for r in found} == best


def test_rows_of_some_keys() -> None:
    for kind in KINDS:
        some = take_keys(keys_of(range(30), kind), np.array([3, 17, 4]))
        assert np.array_equal(some.words, keys_of([3, 17, 4], kind).words)
        assert (some.rows is None) == (kind != "STRING NOT NULL")
        if some.rows is not None:
            assert some.rows.to_list() == [f"{0:09d} {n:06d}".encode() + b"\0" for n in (3, 17, 4)]


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(1, 3), st.lists(st.integers(0, 40), max_size=12), st.booleans())
def test_rising_keys_of_whole_words(width: int, numbers: list[int], in_order: bool) -> None:
    """One and two words are compared several keys at a time, more of them key by key."""
    if in_order:
        numbers = sorted(set(numbers))
    keys = [tuple(n // 3**k % 3 if k else n % 3 for k in reversed(range(width))) for n in numbers]
    words = np.array(keys, np.uint64).reshape(len(keys), width)
    wanted = all(a < b for a, b in pairwise(keys))
    for check in (is_rising, getattr(is_rising, "py_func", is_rising)):
        assert bool(check(frozen(words), *map(frozen, empty_rows()), True)) is wanted
