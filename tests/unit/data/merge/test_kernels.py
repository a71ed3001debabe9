"""Kernels against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.jit import frozen
from lakeidx.codec.order.normalized_key import normalized_keys
from lakeidx.data.merge.kernels import empty_rows, is_rising, mark_starts, merge_two, pick_last, sort_groups
from lakeidx.types import parse_type

TEXTS = st.sampled_from(["", "a", "aa", "longer than eight", "longer than nine", "é"])


def buffers(values: list[object], kind: str) -> tuple[object, object, object, bool]:
    t = parse_type(kind)
    keys = normalized_keys([pa.array(values, pa.int64() if kind.startswith("BIGINT") else pa.string())], [t])
    data, offsets = (keys.rows.data, keys.rows.offsets) if keys.rows is not None else empty_rows()
    return frozen(keys.words), frozen(data), frozen(offsets), keys.exact


@pytest.mark.parametrize("kind", ["BIGINT NOT NULL", "STRING NOT NULL"])
@settings(deadline=None)
@given(data=st.data())
def test_merged_streams_and_starts(kind: str, data: st.DataObject) -> None:
    one = st.integers(-3, 3) if kind.startswith("BIGINT") else TEXTS
    a, b = (
        sorted(data.draw(st.lists(one, max_size=6)), key=lambda v: v if isinstance(v, int) else v.encode())  # type: ignore[attr-defined]
        for _ in range(2)
    )
    values = [*a, *b]
    if not values:
        return
    words = buffers(values, kind)
    out = np.empty(len(values), np.int64)
    merge_two(*words, frozen(np.arange(len(a))), frozen(np.arange(len(a), len(values))), out)
    order = sorted(
        range(len(values)),
        key=lambda i: (values[i] if isinstance(values[i], int) else values[i].encode(), i),  # type: ignore[attr-defined]
    )
    assert out.tolist() == order
    starts = np.empty(len(values), np.int64)
    count = mark_starts(*words, frozen(out), starts)
    assert starts[:count].tolist() == [
        k for k in range(len(order)) if k == 0 or values[order[k]] != values[order[k - 1]]
    ]
    assert is_rising(*words) == all(order[i] == i for i in range(len(order))) * (len(set(values)) == len(values))


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


GROUPS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5), min_size=1, max_size=5
)


@settings(deadline=None)
@given(GROUPS, st.randoms(use_true_random=False))
def test_groups_are_ordered_by_sequence_and_retracts_first(groups: list[list[tuple[int, int]]], rng: object) -> None:
    rows = [row for g in groups for row in g]
    order = list(range(len(rows)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    starts = np.cumsum([0, *(len(g) for g in groups[:-1])])
    sequences, kinds = np.array([s for s, _ in rows]), np.array([k for _, k in rows], np.int8)
    # Row numbers are shuffled over the places, so that a group's rows lie anywhere.
    place = np.array(order, np.int64)
    wanted = []
    for g, begin in enumerate(starts):
        some = place[begin : begin + len(groups[g])].tolist()
        wanted.append(sorted(some, key=lambda r: (sequences[r], (kinds[r] & 1) == 0)))
    last = np.empty(len(groups), np.int64)
    pick_last(frozen(place), frozen(starts), frozen(sequences), frozen(kinds), last)
    assert last.tolist() == [w[-1] for w in wanted]
    sort_groups(place, frozen(starts), frozen(sequences), frozen(kinds))
    assert place.tolist() == [r for w in wanted for r in w]
