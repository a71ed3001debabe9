from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.jit import kernel
from lakeidx.codec.varint import (
    MAX_INT,
    decode_varint,
    encode_varint,
    load_varint,
    load_varint_unchecked,
    store_varint,
    varint_size,
)
from lakeidx.errors import CorruptFileError, InvalidInputError


# Known forms of unsigned LEB128.
@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (624485, "e58e26"), (MAX_INT, "ffffffff07")],
)
def test_known_values_have_known_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@kernel
def _kernels(value, room):  # type: ignore[no-untyped-def]
    address = room.ctypes.data
    end = store_varint(np.int64(address), value)
    checked, after = load_varint(np.int64(address), end)
    unchecked, after_unchecked = load_varint_unchecked(np.int64(address))
    return end - address, varint_size(value), checked, after - address, unchecked, after_unchecked - address


@settings(deadline=None)
@given(st.integers(0, (1 << 62) - 1) | st.integers(0, 300))
def test_kernels_do_what_the_scalar_form_does(value: int) -> None:
    room = np.zeros(16, np.uint8)
    written, size, checked, after, unchecked, after_unchecked = _kernels(value, room)
    encoded = encode_varint(value)
    assert room[:written].tobytes() == encoded
    assert size == after == after_unchecked == len(encoded)
    assert checked == unchecked == value
    assert decode_varint(encoded, 0, limit=1 << 62) == (value, len(encoded))


@kernel
def _load(data, start, end):  # type: ignore[no-untyped-def]
    address = np.int64(data.ctypes.data)
    value, after = load_varint(address + start, address + end)
    return value, after - address if after else -1


@settings(deadline=None)
@given(st.binary(max_size=12), st.integers(0, 12))
def test_any_bytes_are_read_the_same_or_refused_by_both(data: bytes, start: int) -> None:
    start = min(start, len(data))
    value, after = _load(np.frombuffer(data + b"\0", np.uint8), start, len(data))
    if after == -1:
        with pytest.raises(CorruptFileError):
            decode_varint(data, start, limit=(1 << 63) - 1)
    else:
        assert (value, after) == decode_varint(data, start, limit=(1 << 63) - 1)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\x08", b"\x80" * 11])
def test_bytes_that_are_no_int(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_varint(data, 0, path="f", base=100)
    assert (caught.value.path, caught.value.offset) == ("f", 100)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_values_that_have_no_form(value: int) -> None:
    with pytest.raises(InvalidInputError):
        encode_varint(value)
