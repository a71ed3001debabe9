"""Laying out sorted keys in blocks, against a plain loop."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.file_index.kinds.blocks import find_entry, split_blocks, with_tails


@given(
    st.lists(st.integers(1, 20), max_size=40), st.integers(0, 50), st.integers(0, 4), st.booleans(), st.integers(-1, 5)
)
def test_blocks_take_what_fits(sizes: list[int], limit: int, taken: int, free_first: bool, most: int) -> None:
    starts, used, members = [], 0, 0  # type: ignore[var-annotated]
    for i, size in enumerate(sizes):
        if not starts or used + size > limit or (most >= 0 and members >= most):
            starts.append(i)
            used, members = taken, 0
            if free_first:
                continue
        used += size
        members += 1
    made = split_blocks(np.array(sizes, np.int64), limit, taken=taken, free_first=free_first, most=most)
    assert made.tolist() == [*starts, len(sizes)]


@given(st.lists(st.tuples(st.binary(max_size=6), st.integers(-(2**31), 2**31 - 1)), max_size=10))
def test_tails_follow_their_keys(entries: list[tuple[bytes, int]]) -> None:
    keys = RowBytes.from_list([k for k, _ in entries])
    numbers = np.array([n for _, n in entries], np.int64)
    made = with_tails(keys, numbers, -1 - numbers)
    assert made.to_list() == [k + struct.pack(">ii", n, -1 - n) for k, n in entries]


@given(st.lists(st.binary(max_size=4), max_size=8, unique=True), st.binary(max_size=4))
def test_finding_an_entry(keys: list[bytes], key: bytes) -> None:
    data = b"xx" + b"".join(struct.pack(">i", len(k)) + k + bytes([i]) for i, k in enumerate(keys)) + b"body"
    at, end = find_entry(data, 2, len(keys), 1, key)
    assert end == len(data) - 4
    assert (data[at] if at >= 0 else None) == (keys.index(key) if key in keys else None)
    assert find_entry(data, 2, len(keys), 1, None) == (-1, end)
    assert find_entry(data[: end - 1], 2, len(keys), 1, key)[1] == (-1 if keys else end)
