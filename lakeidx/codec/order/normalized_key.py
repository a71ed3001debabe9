"""Keys in a form that compares as plain words or bytes, across batches and files of one key type.

=============================  ======================================================================================
key columns                    form
=============================  ======================================================================================
fixed width only               ``words`` uint64[n, w]: the fields one after another from the top bit down (exact)
with strings or binary         ``rows``: big-endian fields, strings escaped (00 -> 01 01, 01 -> 01 02) and ended by 00;
                               ``words`` uint64[n, 1]: the first 8 of those bytes (not exact)
=============================  ======================================================================================

Either way the unsigned lexicographic order is Paimon's key order. Nullable types carry a null bit or byte. The form is for memory
only; it is never written to a file.

Fields of a key column, whose unsigned order is its: a null bit (0 = null, so that null comes first) where requested, then its
value, one or two unsigned words for fixed-width types, or the bytes themselves for strings and binary.

==================  ==================================================================
type                order
==================  ==================================================================
null                before every value
BOOLEAN             false < true
integers            numeric; DATE and TIME too
FLOAT, DOUBLE       numeric, but -0.0 < 0.0 and NaN (any bits) equal to itself, largest
strings, binary     unsigned bytes (UTF-8), a prefix first
DECIMAL             numeric
TIMESTAMP           millis, then nanos of the milli
==================  ==================================================================

source   org.apache.paimon.codegen generated RecordComparator, RowCompactedSerializer.SliceComparator; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import Column, frozen, null_mask, one_array, values_of
from lakeidx.codec.columns import WIDTHS, BytesColumn, bytes_column
from lakeidx.codec.jit import helper, kernel
from lakeidx.codec.kernels import put_fixed
from lakeidx.codec.order.kernels import compare_bytes, escaped_sizes, put_escaped, string_words
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class WordField:
    """values uint64[n], each below ``2**bits``; 0 where the column is null."""

    values: npt.NDArray[np.uint64]
    bits: int


OrderField: TypeAlias = WordField | BytesColumn


def order_fields(
    columns: Sequence[Column], types: Sequence[DataType], *, null_bits_by_type: bool = False
) -> tuple[list[OrderField], int]:
    """Return the fields of the key columns, and the number of rows; nulls are empty strings or 0.

    null_bits_by_type  True: a null bit for every nullable type (comparable across batches);
                       False: only for columns in which something is null (shorter)
    errors             InvalidInputError for types without order, columns of other types or unequal length, no column, and,
                       with `null_bits_by_type`, a null in a NOT NULL column
    """
    if len(columns) != len(types) or not types:
        raise InvalidInputError(f"{len(columns)} columns for {len(types)} types; a key has at least one")
    n = len(columns[0])
    fields: list[OrderField] = []
    for column, t in zip(columns, types, strict=True):
        if t.is_nested or t.root is Root.VARIANT:
            raise InvalidInputError(f"values of {t} have no order")
        if len(column) != n:
            raise InvalidInputError(f"columns of unequal length: {n} and {len(column)}")
        array = one_array(column, t)
        valid = null_mask(array)
        if null_bits_by_type and valid is not None and not t.nullable:
            raise InvalidInputError(f"a key column of {t} has {array.null_count} nulls")
        if valid is not None or (null_bits_by_type and t.nullable):
            marks = np.ones(n, np.uint64) if valid is None else valid.astype(np.uint64)
            fields.append(WordField(marks, 1))
        if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
            part = bytes_column(array)
            if valid is not None:
                part = BytesColumn(part.data, part.starts, frozen(np.maximum(part.lengths, 0)), part.inline_max, None)
            fields.append(part)
        else:
            for words, bits in _ordered_words(array, t):
                fields.append(WordField(words if valid is None else np.where(valid, words, np.uint64(0)), bits))
    return fields, n


def _ordered_words(array: pa.Array, t: DataType) -> list[tuple[npt.NDArray[np.uint64], int]]:
    """Return (uint64[n], bits), most significant first; anything where null."""
    if t.root is Root.BOOLEAN:
        return [(np.asarray(array.fill_null(False)).astype(np.uint64), 1)]
    if t.root is Root.FLOAT:
        return [(_ordered_floats(values_of(array, np.float32), np.uint32).astype(np.uint64), 32)]
    if t.root is Root.DOUBLE:
        return [(_ordered_floats(values_of(array, np.float64), np.uint64), 64)]
    if t.root is Root.DECIMAL:
        pairs = values_of(array, np.uint64, 2)
        if t.is_compact:
            return [(pairs[::2] ^ _SIGN, 64)]
        return [(pairs[1::2] ^ _SIGN, 64), (pairs[::2].copy(), 64)]
    if t.root in TIMESTAMP_ROOTS:
        return [(values_of(array, np.uint64) ^ _SIGN, 64)]
    bits = 8 * WIDTHS[t.root]
    signed = values_of(array, np.dtype(f"<i{bits // 8}"))
    if bits == 64:
        return [(signed.view(np.uint64) ^ _SIGN, 64)]
    return [((signed.astype(np.int64) + (1 << (bits - 1))).view(np.uint64), bits)]


def _ordered_floats(floats: npt.NDArray[Any], unsigned: Any) -> npt.NDArray[Any]:
    """Return IEEE bits so that unsigned order is Java's: negative numbers reversed, every NaN the canonical, greatest one."""
    raw = floats.view(unsigned)
    canonical = np.array(np.nan, floats.dtype).view(unsigned)
    raw = np.where(np.isnan(floats), canonical, raw)
    sign = unsigned(1 << (8 * raw.itemsize - 1))
    found: npt.NDArray[Any] = np.where(raw & sign, ~raw, raw | sign)
    return found


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


@helper
def _is_before(
    words: Any,
    data: Any,
    offsets: Any,
    i: Any,
    probe_words: Any,
    probe_data: Any,
    probe_offsets: Any,
    j: Any,
    exact: Any,
) -> Any:
    """Return whether key i is less than probe j (2), equal (1) or greater (0)."""
    for k in range(words.shape[1]):
        if words[i, k] != probe_words[j, k]:
            return 2 if words[i, k] < probe_words[j, k] else 0
    if exact:
        return 1
    return 1 - compare_bytes(data, offsets[i], offsets[i + 1], probe_data, probe_offsets[j], probe_offsets[j + 1])


@kernel
def _search_keys(
    words: Any,
    data: Any,
    offsets: Any,
    probe_words: Any,
    probe_data: Any,
    probe_offsets: Any,
    exact: Any,
    or_equal: Any,
    out: Any,
) -> None:
    """Fill out int64[m] with the number of sorted keys less than probe j, with `or_equal` also equal ones.

    words uint64[n, w] decide; where they are equal and not `exact`, the byte strings ``data[offsets[i]:offsets[i + 1]]``.
    Each search starts from the answer before it and doubles its steps: cheap when the probes are sorted too.
    """
    n, at = len(words), 0
    least = 1 if or_equal else 2
    for j in range(len(probe_words)):
        lo, hi = 0, n
        if at < n and _is_before(words, data, offsets, at, probe_words, probe_data, probe_offsets, j, exact) >= least:
            lo, step = at + 1, 1
            while lo + step <= n:
                p = lo + step - 1
                if _is_before(words, data, offsets, p, probe_words, probe_data, probe_offsets, j, exact) < least:
                    hi = p
                    break
                lo = p + 1
                step *= 2
        elif (
            at == 0
            or _is_before(words, data, offsets, at - 1, probe_words, probe_data, probe_offsets, j, exact) >= least
        ):
            lo = hi = at
        else:
            hi = at - 1
        while lo < hi:
            mid = (lo + hi) >> 1
            if _is_before(words, data, offsets, mid, probe_words, probe_data, probe_offsets, j, exact) >= least:
                lo = mid + 1
            else:
                hi = mid
        out[j] = lo
        at = lo


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
    _search_keys(
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
