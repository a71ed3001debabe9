"""Readers take back what writers make, and notice every cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.arrays import frozen
from lakeidx.data.parquet import thrift
from lakeidx.data.parquet.thrift import BINARY, I64, LIST, STRUCT, TRUE

VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1).map(lambda n: (I64, thrift.thrift_number(n))),
        st.binary(max_size=20).map(lambda b: (BINARY, thrift.thrift_text(b))),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda fields: (STRUCT, struct_of(fields))),
        inner.flatmap(lambda v: st.integers(0, 3).map(lambda n: (LIST, thrift.list_of([v[1]] * n, v[0])))),
    ),
    max_leaves=8,
)


def struct_of(fields: list[tuple[int, bytes]]) -> bytes:
    return b"".join(thrift.field(1, kind) + data for kind, data in fields) + b"\0"


def array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return frozen(np.frombuffer(data, np.uint8))


@pytest.mark.slow
@settings(deadline=None)
@given(VALUES)
def test_a_value_is_skipped_whole_and_a_cut_one_not_at_all(value: tuple[int, bytes]) -> None:
    kind, data = value
    assert thrift.skip(array(data), 0, kind) == len(data)
    assert [thrift.skip(array(data[:n]), 0, kind) for n in range(len(data))] == [-1] * len(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x15", (4, 5, 1)),  # one on, an I32
        (b"\x05\x08", (4, 5, 2)),  # a field id of its own: zigzag 8 is 4
        (b"\x00", (3, 0, 1)),
        (b"\x10", (3, 0, -1)),  # an end with a delta
        (b"\x05", (0, 5, -1)),
        (b"", (3, 0, -1)),
    ],
)
def test_field_headers_are_read(data: bytes, expected: tuple[int, int, int]) -> None:
    assert thrift.read_field(array(data), 0, 3) == expected


@pytest.mark.slow
def test_numbers_lists_and_sizes_as_bytes() -> None:
    assert [thrift.thrift_number(n) for n in (0, -1, 1, 300)] == [b"\0", b"\1", b"\2", b"\xd8\x04"]
    assert thrift.list_of([b"\2"] * 2, I64) == b"\x26\2\2"
    assert thrift.list_of([b""] * 15, TRUE) == b"\xf1\x0f"
    assert thrift.read_list(array(b"\x26\2\2"), 0) == (2, 6, 1)
    assert thrift.read_list(array(b"\x36\2\2"), 0) == (0, 0, -1)  # more items than bytes
    assert thrift.read_size(array(thrift.thrift_text(b"ab")), 0) == (2, 1)
    assert thrift.read_size(array(b"\3ab"), 0) == (0, -1)
    assert thrift.read_varint(array(b"\xff" * 9 + b"\1"), 0) == (-1, 10)
    assert thrift.read_varint(array(b"\xff" * 10), 0) == (0, -1)
    assert [thrift.zigzag(n) for n in (0, 1, 2, -1)] == [0, -1, 1, -(2**63)]
