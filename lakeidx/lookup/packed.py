"""Packed byte strings as kernels see them: the addresses of a `RowBytes`, checked so that no kernel reads outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import kernel
from lakeidx.codec.memory import copy_bytes, load_i64
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError


@kernel
def _offsets_fit(offsets: Any, n: Any, size: Any) -> Any:
    last = load_i64(offsets)
    if last < 0:
        return False
    for i in range(1, n + 1):
        now = load_i64(offsets + 8 * i)
        if now < last:
            return False
        last = now
    return last <= size


def contiguous(rows: RowBytes) -> RowBytes:
    """Return the same strings in contiguous arrays of the promised dtypes, copied only when they are not.

    errors   InvalidInputError when the argument is no RowBytes or its offsets decrease or leave the data
    """
    if not isinstance(rows, RowBytes):
        raise InvalidInputError(f"expected a column of byte strings (RowBytes), not {type(rows).__name__}")
    data, offsets = rows.data, rows.offsets
    if data.dtype != np.uint8 or offsets.dtype != np.int64 or len(offsets) == 0:
        raise InvalidInputError(f"RowBytes holds uint8 data and int64 offsets, not {data.dtype} and {offsets.dtype}")
    if not (data.flags.c_contiguous and offsets.flags.c_contiguous):
        rows = RowBytes(np.ascontiguousarray(data), np.ascontiguousarray(offsets))
    if not _offsets_fit(rows.offsets.ctypes.data, len(rows), len(rows.data)):
        raise InvalidInputError("the offsets of a RowBytes decrease or lie outside its data")
    return rows


def addresses_of(rows: RowBytes) -> tuple[int, int]:
    """Return the addresses of the data and of the offsets of a `contiguous` RowBytes; valid while the caller keeps it alive."""
    return rows.data.ctypes.data, rows.offsets.ctypes.data


@kernel
def _copy_spans(addresses: Any, sizes: Any, target: Any, offsets: Any) -> Any:
    at = np.int64(0)
    for i in range(len(sizes)):
        offsets[i] = at
        copy_bytes(target + at, addresses[i], sizes[i])
        at += sizes[i]
    offsets[len(sizes)] = at


def take_packed(addresses: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> RowBytes:
    """Copy n byte strings at addresses with sizes; the caller keeps their memory alive."""
    data, offsets = np.empty(int(sizes.sum()), np.uint8), np.empty(len(sizes) + 1, np.int64)
    _copy_spans(addresses, sizes, data.ctypes.data, offsets)
    return RowBytes(data, offsets)
