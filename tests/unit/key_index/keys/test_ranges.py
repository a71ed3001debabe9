"""Candidate files: tree, list filter and slots against plain comparison of every key with every range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.keys.range_tree import list_spans, tree_spans
from lakeidx.key_index.keys.ranges import Candidates, SlotRanges, bytes_slots, find_candidates, int_slots, text_slots
from tests.scalar_twins import java_order_key

TEXT = st.text(alphabet="ab\ue000\U00010000é", max_size=3)


def _pairs(found: Candidates, files: int) -> set[tuple[int, int]]:
    out = [(f, int(k)) for f in range(files) for k in found.keys_of(f)]
    assert len(out) == len(set(out))
    assert found.counts.tolist() == [len(found.keys_of(f)) for f in range(files)]
    return set(out)


def _both(slots: SlotRanges, files: int, seed: int) -> set[tuple[int, int]]:
    by_tree = _pairs(find_candidates(slots, tree=True, rng=np.random.default_rng(seed)), files)
    assert by_tree == _pairs(find_candidates(slots, tree=False, rng=np.random.default_rng(seed)), files)
    return by_tree


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
    assert _both(slots, len(ranges), seed) == expected


BYTES_RANGE = st.tuples(st.binary(max_size=3), st.binary(max_size=3)).map(lambda p: (min(p), max(p)))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.binary(max_size=4), max_size=20), st.lists(BYTES_RANGE | st.none(), max_size=8), st.integers(0, 9))
def test_files_whose_range_has_a_text_are_found(
    keys: list[bytes], ranges: list[tuple[bytes, bytes] | None], seed: int
) -> None:
    slots = bytes_slots(RowBytes.from_list(keys), [r and r[0] for r in ranges], [r and r[1] for r in ranges])
    expected = {(f, k) for f, r in enumerate(ranges) for k, key in enumerate(keys) if r is None or r[0] <= key <= r[1]}
    assert _both(slots, len(ranges), seed) == expected


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
    pairs = _both(slots, len(files), 0)
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
    assert _both(slots, len(files), 1) == expected


class TreeNode:
    """The sheet's tree, node by node: the slow twin of the kernels."""

    def __init__(self, low: int, high: int, file: int) -> None:
        self.low, self.high, self.files = low, high, [file]
        self.left: TreeNode | None = None
        self.right: TreeNode | None = None
        self.spans: dict[str, tuple[int, int]] = {}

    def insert(self, low: int, high: int, file: int) -> None:
        if (low, high) == (self.low, self.high):
            self.files.append(file)
            return
        side = "right" if (low, high) > (self.low, self.high) else "left"
        old = self.spans.get(side, (low, high))
        self.spans[side] = (min(old[0], low), max(old[1], high))
        below = getattr(self, side)
        if below is None:
            setattr(self, side, TreeNode(low, high, file))
        else:
            below.insert(low, high, file)

    def query(self, key: int) -> set[int]:
        found = set(self.files) if self.low <= key <= self.high else set()
        for side in ("left", "right"):
            span = self.spans.get(side)
            if span is not None and span[0] <= key <= span[1]:
                found |= getattr(self, side).query(key)
        return found


@settings(deadline=None)
@given(st.lists(RANGE, max_size=15), st.randoms(use_true_random=False))
def test_tree_kernel_equals_the_node_by_node_tree(ranges: list[tuple[int, int]], random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(ranges)))
    random.shuffle(order)
    keys = np.arange(-12, 20)
    root: TreeNode | None = None
    for i in order:
        if root is None:
            root = TreeNode(*ranges[i], i)
        else:
            root.insert(*ranges[i], i)
    answers = [root.query(int(k)) if root else set() for k in keys]
    low, high = (np.array([r[e] for r in ranges], np.int64) for e in (0, 1))
    for first, last, met in (tree_spans(keys, low, high, np.array(order, np.int64)), list_spans(keys, low, high)):
        for f in range(len(ranges)):
            hits = [g for g, files in enumerate(answers) if f in files]
            assert met[f] == len(hits)
            if hits:
                assert (first[f], last[f]) == (hits[0], hits[-1])


def test_a_sorted_insert_order_is_deep_but_right() -> None:
    n = 3000
    low = np.arange(n, dtype=np.int64)
    first, last, met = tree_spans(np.arange(n), low, low, np.arange(n))
    assert np.array_equal(first, low)
    assert np.array_equal(last, low)
    assert (met == 1).all()


def test_a_range_that_contradicts_itself_rules_nothing_out() -> None:
    slots = int_slots(np.array([1, 2]), np.array([9]), np.array([0]), np.array([False]))
    assert _both(slots, 1, 0) == {(0, 0), (0, 1)}


@pytest.mark.parametrize("tree", [True, False])
def test_nothing_to_do(tree: bool) -> None:
    none = np.zeros(0, np.int64)
    found = find_candidates(int_slots(none, none, none, none.astype(bool)), tree=tree, rng=np.random.default_rng(0))
    assert len(found.counts) == 0
    some = find_candidates(
        int_slots(np.array([5, 6]), none, none, none.astype(bool)), tree=tree, rng=np.random.default_rng(0)
    )
    assert len(some.counts) == 0
