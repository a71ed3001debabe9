from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import (
    compare_memory,
    copy_bytes,
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
