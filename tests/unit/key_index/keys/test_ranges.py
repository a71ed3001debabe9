"""Candidate files: slots against plain comparison of every key with every range."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.keys.ranges import Candidates, bytes_slots, find_candidates, int_slots, text_slots
from tests.kit.scalar_twins import java_order_key

TEXT = st.text(alphabet="ab\ue000\U00010000é", max_size=3)


def _pairs(found: Candidates, files: int) -> set[tuple[int, int]]:
    out = [(f, int(k)) for f in range(files) for k in found.keys_of(f)]
    assert len(out) == len(set(out))
    assert found.counts.tolist() == [len(found.keys_of(f)) for f in range(files)]
    return set(out)


RANGE = st.tuples(st.integers(-9, 9), st.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1]))


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(-12, 18), max_size=30), st.lists(st.one_of(st.none(), RANGE), max_size=12), st.integers(0, 99)
)
@example([-(2**63), 2**63 - 1], [(-(2**63), 2**63 - 1), None], 0)
def test_files_whose_range_has_a_number_are_found(
    keys: list[int], ranges: list[tuple[int, int] | None], seed: int
) -> None:
    always = np.array([r is None for r in ranges], bool)
    low = np.array([r[0] if r else 5 for r in ranges], np.int64)
    high = np.array([r[1] if r else -5 for r in ranges], np.int64)
    slots = int_slots(np.array(keys, np.int64), low, high, always)
    expected = {(f, k) for f, r in enumerate(ranges) for k, key in enumerate(keys) if r is None or r[0] <= key <= r[1]}
    assert _pairs(find_candidates(slots), len(ranges)) == expected


BYTES_RANGE = st.tuples(st.binary(max_size=3), st.binary(max_size=3)).map(lambda p: (min(p), max(p)))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.binary(max_size=4), max_size=20), st.lists(BYTES_RANGE | st.none(), max_size=8), st.integers(0, 9))
def test_files_whose_range_has_a_text_are_found(
    keys: list[bytes], ranges: list[tuple[bytes, bytes] | None], seed: int
) -> None:
    slots = bytes_slots(RowBytes.from_list(keys), [r and r[0] for r in ranges], [r and r[1] for r in ranges])
    expected = {(f, k) for f, r in enumerate(ranges) for k, key in enumerate(keys) if r is None or r[0] <= key <= r[1]}
    assert _pairs(find_candidates(slots), len(ranges)) == expected


@settings(deadline=None, max_examples=300)
@given(st.lists(st.lists(TEXT, min_size=1, max_size=6), max_size=6), st.booleans(), st.lists(TEXT, max_size=6))
def test_no_key_is_lost_whatever_order_the_range_was_taken_in(
    files: list[list[str]], java: bool, others: list[str]
) -> None:
    """The range of a file's own keys, by Java's or by UTF-8 order, must let every one of them through."""
    order = java_order_key if java else str.encode
    low = [min(keys, key=order).encode() for keys in files]
    high = [max(keys, key=order).encode() for keys in files]
    keys = [k for f in files for k in f] + others
    slots = text_slots(RowBytes.from_list([k.encode() for k in keys]), low, high)
    pairs = _pairs(find_candidates(slots), len(files))
    for f, own in enumerate(files):
        for k, key in enumerate(keys):
            if key in own:
                assert (f, k) in pairs


@settings(deadline=None)
@given(st.lists(st.lists(st.text(alphabet="abé中", max_size=3), min_size=1, max_size=5), max_size=6), st.data())
def test_text_below_the_moved_bytes_is_pruned_exactly(files: list[list[str]], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.text(alphabet="abcé中文", max_size=3), max_size=20))
    low, high = [min(f).encode() for f in files], [max(f).encode() for f in files]
    slots = text_slots(RowBytes.from_list([k.encode() for k in keys]), low, high)
    expected = {(f, k) for f, own in enumerate(files) for k, key in enumerate(keys) if min(own) <= key <= max(own)}
    assert _pairs(find_candidates(slots), len(files)) == expected


def test_a_range_that_contradicts_itself_rules_nothing_out() -> None:
    slots = int_slots(np.array([1, 2]), np.array([9]), np.array([0]), np.array([False]))
    assert _pairs(find_candidates(slots), 1) == {(0, 0), (0, 1)}
