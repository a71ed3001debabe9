"""Kernels that lay out sorted keys in blocks of limited size, and find keys of varying length among packed entries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.codec.rows.rowbytes import RowBytes


def split_blocks(
    sizes: npt.NDArray[np.int64], limit: int, *, taken: int = 0, free_first: bool = False, most: int = -1
) -> npt.NDArray[np.int64]:
    """Compute block starts when entries fill blocks in order.

    sizes       int64[n] bytes of each entry
    limit       bytes of a block; an entry that does not fit an empty block stands alone in one
    taken       bytes of a block before its entries
    free_first  the first entry of a block does not count
    most        entries of a block that count, at most; negative = no limit
    returns     int64[blocks + 1]: first entry of each block, then n
    """
    starts = np.empty(len(sizes) + 1, np.int64)
    count = _split(frozen(sizes), limit, taken, free_first, most if most >= 0 else len(sizes), starts)
    starts[count] = len(sizes)
    return starts[: count + 1].copy()


def with_tails(keys: RowBytes, *columns: npt.NDArray[np.int64]) -> RowBytes:
    """Append to each key one i32 big endian of every column (int64[n], values of 32 bits)."""
    tails = np.empty((len(keys), len(columns)), ">i4")
    for i, column in enumerate(columns):
        tails[:, i] = column
    return side_by_side(keys, tails)


def side_by_side(*parts: RowBytes | npt.NDArray[np.signedinteger]) -> RowBytes:
    """Join n byte strings each, or the bytes of the rows of a matrix, side by side."""
    columns = [
        part
        if isinstance(part, RowBytes)
        else RowBytes(part.view(np.uint8).reshape(-1), np.arange(len(part) + 1, dtype=np.int64) * part.strides[0])
        for part in parts
    ]
    return RowBytes.from_arrow(
        pc.binary_join_element_wise(
            *(c.to_arrow().cast(pa.large_binary()) for c in columns), pa.scalar(b"", pa.large_binary())
        )
    )


def find_entry(data: bytes | memoryview, at: int, count: int, tail: int, key: bytes | None) -> tuple[int, int]:
    """Scan entries (i32 big endian length, key, `tail` bytes) from `at`.

    key      what to look for
    returns  position of the tail of the entry with that key (-1: none), and the end of the entries;
             the end is -1 when an entry passes the end of the data
    """
    wanted = np.frombuffer(key or b"", np.uint8)
    found, end = _find(frozen(np.frombuffer(data, np.uint8)), at, count, tail, frozen(wanted), key is not None)
    return int(found), int(end)


@kernel
def _split(sizes, limit, taken, free_first, most, starts):  # type: ignore[no-untyped-def]
    blocks, used, members = 0, 0, 0
    for i in range(len(sizes)):
        if i == 0 or used + sizes[i] > limit or members >= most:
            starts[blocks] = i
            blocks += 1
            used, members = taken, 0
            if free_first:
                continue
        used += sizes[i]
        members += 1
    return blocks


@kernel
def _find(data, at, count, tail, key, wanted):  # type: ignore[no-untyped-def]
    found = -1
    for _ in range(count):
        if at + 4 > len(data):
            return -1, -1
        length = (
            (np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16) | (np.int64(data[at + 2]) << 8) | data[at + 3]
        )
        if at + 4 + length + tail > len(data):
            return -1, -1
        if wanted and found < 0 and length == len(key):
            same = True
            for b in range(length):
                if data[at + 4 + b] != key[b]:
                    same = False
                    break
            if same:
                found = at + 4 + length
        at += 4 + length + tail
    return found, at
