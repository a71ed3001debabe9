"""Keys in a form that compares as plain words or bytes, across batches and files of one key type.

=============================  ======================================================================================
key columns                    form
=============================  ======================================================================================
fixed width only               ``words`` uint64[n, w]: the fields one after another from the top bit down (exact)
with strings or binary         ``rows``: big-endian fields, strings escaped (00 -> 01 01, 01 -> 01 02) and ended by 00;
                               ``words`` uint64[n, 1]: the first 8 of those bytes (not exact)
=============================  ======================================================================================

Either way the unsigned lexicographic order is Paimon's key order (the table in ``fields``). Nullable types carry a null bit or
byte. The form is for memory only; it is never written to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import Column, frozen
from lakeidx.codec.columns import BytesColumn
from lakeidx.codec.kernels import put_fixed
from lakeidx.codec.order.fields import OrderField, WordField, order_fields
from lakeidx.codec.order.kernels import escaped_sizes, put_escaped, search_keys, string_words
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType


@dataclass(frozen=True, slots=True)
class NormalizedKeys:
    """n keys; compare ``words[i]`` first and, where they are equal and ``rows`` is not None, ``rows[i]``."""

    words: npt.NDArray[np.uint64]
    rows: RowBytes | None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def exact(self) -> bool:
        """True when the words alone decide."""
        return self.rows is None

    def slice(self, start: int, stop: int) -> NormalizedKeys:
        """Return the keys start..stop-1, sharing memory."""
        return NormalizedKeys(self.words[start:stop], None if self.rows is None else self.rows.slice(start, stop))


def normalized_keys(columns: Sequence[Column], types: Sequence[DataType]) -> NormalizedKeys:
    """Build the keys of n rows.

    errors   InvalidInputError for types without order, or a null in a NOT NULL column
    cost     one pass per column
    """
    fields, n = order_fields(columns, types, null_bits_by_type=True)
    if all(isinstance(f, WordField) for f in fields):
        return NormalizedKeys(_pack_words(fields, n), None)
    rows = _pack_rows(fields, n)
    words = np.empty((n, 1), np.uint64)
    starts, lengths = frozen(rows.offsets[:-1]), frozen(rows.lengths)
    string_words(frozen(rows.data), starts, lengths, frozen(np.arange(n)), 0, words.reshape(-1))
    return NormalizedKeys(words, rows)


def _pack_words(fields: Sequence[OrderField], n: int) -> npt.NDArray[np.uint64]:
    """Pack the fields next to each other from the top bit of word 0 down; a field may span two words."""
    width = (sum(f.bits for f in fields if isinstance(f, WordField)) + 63) // 64
    words = np.empty((n, width), np.uint64)
    at = 0
    for f in fields:
        assert isinstance(f, WordField)
        word, used = divmod(at, 64)
        room = 64 - used
        # The first field that reaches a word fills it, the others add their bits.
        if f.bits > room:
            words[:, word] |= f.values >> np.uint64(f.bits - room)
            words[:, word + 1] = f.values << np.uint64(64 - f.bits + room)
        elif used:
            words[:, word] |= f.values << np.uint64(room - f.bits)
        else:
            words[:, word] = f.values << np.uint64(room - f.bits) if f.bits < room else f.values
        at += f.bits
    return words


def _pack_rows(fields: Sequence[OrderField], n: int) -> RowBytes:
    sizes = np.zeros(n, np.int64)
    for f in fields:
        if isinstance(f, BytesColumn):
            escaped_sizes(f.data, f.starts, f.lengths, sizes)
        else:
            sizes += (f.bits + 7) // 8
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    cursor = offsets[:-1].copy()
    all_valid = frozen(np.ones(n, np.bool_))
    for f in fields:
        if isinstance(f, BytesColumn):
            put_escaped(out, cursor, f.data, f.starts, f.lengths)
        else:
            size = (f.bits + 7) // 8
            big_endian = f.values.byteswap() >> np.uint64(64 - 8 * size)
            put_fixed(out, cursor, frozen(big_endian), all_valid, size)
    return RowBytes(out, offsets)


def search_sorted(keys: NormalizedKeys, probe: NormalizedKeys, *, side: str = "left") -> npt.NDArray[np.int64]:
    """Find the insert position of each probe among sorted keys.

    keys     n keys in order
    probe    m keys in any order, of the same types; cheapest when they are in order too
    side     "left": before equal keys; "right": after them
    returns  int64[m], 0 to n
    errors   InvalidInputError when the two are of different key types, or for another side
    """
    if side not in ("left", "right"):
        raise InvalidInputError(f"side is left or right, not {side!r}")
    if keys.words.shape[1] != probe.words.shape[1] or keys.exact != probe.exact:
        raise InvalidInputError("the two sets of keys are of different types")
    out = np.empty(len(probe), np.int64)
    data, offsets = _row_buffers(keys)
    probe_data, probe_offsets = _row_buffers(probe)
    search_keys(
        frozen(keys.words),
        data,
        offsets,
        frozen(probe.words),
        probe_data,
        probe_offsets,
        keys.exact,
        side == "right",
        out,
    )
    return out


def find_sorted(keys: NormalizedKeys, probe: NormalizedKeys) -> npt.NDArray[np.int64]:
    """Find the first position of each probe among sorted keys, or -1 where it is not.

    keys, probe, errors   as for `search_sorted`
    returns               int64[m]
    """
    left = search_sorted(keys, probe)
    return np.where(search_sorted(keys, probe, side="right") > left, left, -1)


def _row_buffers(keys: NormalizedKeys) -> tuple[Any, Any]:
    if keys.rows is None:
        return frozen(np.zeros(0, np.uint8)), frozen(np.zeros(1, np.int64))
    return frozen(keys.rows.data), frozen(keys.rows.offsets)
