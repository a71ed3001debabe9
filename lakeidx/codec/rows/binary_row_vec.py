"""BinaryRow bytes and row hashes of whole Arrow columns; must equal ``binary_row`` (layout there) value by value.

source   org.apache.paimon.data.BinaryRowWriter, BinaryRow.hashCode; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import Column, frozen
from lakeidx.codec.columns import AnyColumn, BytesColumn, FixedColumn, TailColumn, split_columns
from lakeidx.codec.rows.binary_row import header_size
from lakeidx.codec.rows.binary_row_write import encode_piece
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.types import DataType

# Rows hashed per round: state and cursor stay in the second-level cache.
_BLOCK_ROWS = 32_768


def encode_rows(columns: Sequence[Column], types: Sequence[DataType], num_rows: int | None = None) -> RowBytes:
    """Encode each row of the columns as BinaryRow bytes, kind 0, without arity prefix.

    columns   any chunking and slicing; of ``to_arrow(type)`` or what casts to it
    num_rows  only needed when there are no columns
    errors    InvalidInputError when a column is not of its type
    cost      one pass per column; VARIANT and nested values one by one
    """
    from lakeidx.codec.kernels import store_bytes, store_words

    parts, n = split_columns(columns, types, num_rows, encode_piece)
    header = header_size(len(types))
    fixed_size = header + 8 * len(types)
    sizes = np.full(n, fixed_size + sum(p.tail_size for p in parts if isinstance(p, TailColumn)), np.int64)
    for part in parts:
        if isinstance(part, BytesColumn):
            sizes += np.where(part.lengths > part.inline_max, part.lengths + 7 & ~7, 0)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.zeros(int(offsets[-1]), np.uint8)
    rows = frozen(offsets[:-1])
    for at, words in _header_words(parts, n):
        store_words(out, rows, at, words)
    cursor = offsets[:-1] + fixed_size
    for i, part in enumerate(parts):
        at = header + 8 * i
        if isinstance(part, FixedColumn):
            store_words(out, rows, at, frozen(part.words.astype(np.uint64, copy=False)))
        elif isinstance(part, BytesColumn):
            store_bytes(out, rows, at, cursor, part.data, part.starts, part.lengths, part.inline_max)
        else:
            slots = (cursor - rows).astype(np.uint64) << np.uint64(32) | part.low
            store_words(out, rows, at, frozen(slots))
            for tail in part.tails:
                store_words(out, frozen(cursor), 0, tail)
                cursor += 8
    return RowBytes(out, offsets)


def _header_words(parts: Sequence[AnyColumn], n: int) -> list[tuple[int, npt.NDArray[np.uint64]]]:
    """Return (position, uint64[n]) of each header word in which some row has a null bit."""
    words: dict[int, npt.NDArray[np.uint64]] = {}
    for i, part in enumerate(parts):
        if part.valid is not None:
            at, bit = (i + 8) // 64 * 8, (i + 8) % 64
            nulls = (~part.valid).astype(np.uint64) << np.uint64(bit)
            words[at] = words[at] | nulls if at in words else nulls
    return [(at, frozen(w)) for at, w in sorted(words.items())]


def hash_columns(
    columns: Sequence[Column], types: Sequence[DataType], num_rows: int | None = None
) -> npt.NDArray[np.int32]:
    """Hash each row's BinaryRow, without building the rows.

    columns   any chunking and slicing; of ``to_arrow(type)`` or what casts to it
    num_rows  only needed when there are no columns
    returns   int32[n], as ``BinaryRow.hashCode`` of the projection to these columns
    errors    InvalidInputError when a column is not of its type
    cost      one pass per column and 32,768 rows; VARIANT and nested values are encoded one by one
    """
    parts, n = split_columns(columns, types, num_rows, encode_piece)
    header = dict(_header_words(parts, n))
    state = np.empty(n, np.uint32)
    for start in range(0, n, _BLOCK_ROWS):
        block = slice(start, min(n, start + _BLOCK_ROWS))
        _hash_block(state[block], parts, header, block)
    return state.view(np.int32)


def _hash_block(state: Any, parts: Sequence[AnyColumn], header: dict[int, Any], block: slice) -> None:
    from lakeidx.codec.hashes.murmur import (
        SEED,
        finalize,
        mix_bytes_slots,
        mix_bytes_tails,
        mix_slots32,
        mix_u32,
        mix_u64,
    )

    state.fill(SEED)
    fixed_at = header_size(len(parts))
    no_nulls = frozen(np.zeros(len(state), np.uint64))
    for at in range(0, fixed_at, 8):
        mix_u64(state, header[at][block] if at in header else no_nulls)
    has_tails = any(not isinstance(p, FixedColumn) for p in parts)
    cursor = np.empty(len(state) if has_tails else 1, np.int64)
    cursor.fill(fixed_at + 8 * len(parts))
    for part in parts:
        if isinstance(part, FixedColumn):
            words = part.words[block]
            (mix_slots32 if words.dtype == np.uint32 else mix_u64)(state, words)
        elif isinstance(part, BytesColumn):
            mix_bytes_slots(state, cursor, part.data, part.starts[block], part.lengths[block], part.inline_max)
        else:
            mix_u32(state, part.low[block])
            mix_u32(state, frozen(cursor.astype(np.uint32)))
            cursor += part.tail_size
    for part in parts:
        if isinstance(part, BytesColumn):
            mix_bytes_tails(state, part.data, part.starts[block], part.lengths[block], part.inline_max)
        elif isinstance(part, TailColumn):
            for tail in part.tails:
                mix_u64(state, tail[block])
    state ^= cursor.astype(np.uint32)
    finalize(state)
