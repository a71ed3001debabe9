from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import (
    compare_memory,
    copy_bytes,
    load_be32,
    load_be64,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    store_i64,
    store_u8,
    store_u32,
)


@kernel
def _compare(a, b):  # type: ignore[no-untyped-def]
    return compare_memory(a.ctypes.data, len(a), b.ctypes.data, len(b))


def _array(data: bytes) -> npt.NDArray[np.uint8]:
    # A copy: there is no array over no bytes.
    return np.array(bytearray(data), np.uint8)


few = st.lists(st.sampled_from([0, 1, 127, 128, 255]), max_size=20).map(bytes)


@settings(deadline=None)
@given(few, few)
def test_order_of_bytes_is_pythons(a: bytes, b: bytes) -> None:
    assert _compare(_array(a), _array(b)) == (a > b) - (a < b)
    assert _compare(_array(a), _array(a + b)) == (0 if not b else -1)


@kernel
def _copy(source, target, at, start, length):  # type: ignore[no-untyped-def]
    copy_bytes(target.ctypes.data + at, source.ctypes.data + start, length)


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=50), st.data())
def test_copy_writes_exactly_its_bytes(source: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(source)))
    length = data.draw(st.integers(0, len(source) - start))
    target = np.full(80, 0xEE, np.uint8)
    _copy(_array(source), target, 9, start, length)
    assert target.tobytes() == b"\xee" * 9 + source[start : start + length] + b"\xee" * (71 - length)


@kernel
def _loads(data):  # type: ignore[no-untyped-def]
    at = data.ctypes.data
    return load_u8(at), load_u16(at), load_u32(at), load_be32(at), load_i64(at), load_be64(at)


@settings(deadline=None)
@given(st.binary(min_size=8, max_size=8))
def test_loads_read_numbers_of_each_width_and_order(data: bytes) -> None:
    assert _loads(_array(data)) == (
        data[0],
        int.from_bytes(data[:2], "little"),
        int.from_bytes(data[:4], "little"),
        int.from_bytes(data[:4], "big"),
        int.from_bytes(data, "little", signed=True),
        int.from_bytes(data, "big"),
    )


@kernel
def _stores(room, value):  # type: ignore[no-untyped-def]
    at = room.ctypes.data
    store_u8(at + 1, value)
    store_u32(at + 3, value)
    store_i64(at + 9, value)


@settings(deadline=None)
@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_stores_write_their_bytes_and_no_others(value: int) -> None:
    room = np.zeros(18, np.uint8)
    _stores(room, value)
    low = (value & (1 << 64) - 1).to_bytes(8, "little")
    assert room.tobytes() == b"\0" + low[:1] + b"\0" + low[:4] + b"\0\0" + low + b"\0"
