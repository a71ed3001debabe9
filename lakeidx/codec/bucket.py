"""Bucket of each row of a table with a fixed number of buckets.

============  ====================================================================================================
function      rule (n = number of buckets, input = the bucket keys in their listed order)
============  ====================================================================================================
default       ``abs(hash % n)``, hash of the keys' BinaryRow, ``%`` truncated as in Java
mod           one INT or BIGINT key: floor modulo; null counts as 0
hive          ``h = 31 * h + hash(field)`` over the keys, ``(h & 0x7fffffff) % n``; no TIMESTAMP or nested value
============  ====================================================================================================

source   org.apache.paimon.bucket.DefaultBucketFunction, ModBucketFunction, HiveBucketFunction; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import Column, frozen, null_mask, one_array, values_of
from lakeidx.codec.columns import bytes_column, fixed_words
from lakeidx.codec.jit import kernel
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, Root

FUNCTIONS = ("default", "mod", "hive")
_HIVE_INTS = frozenset({Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.DATE, Root.TIME})


def fixed_buckets(
    columns: Sequence[Column],
    types: Sequence[DataType],
    num_buckets: int,
    function: str = "default",
    *,
    num_rows: int | None = None,
) -> npt.NDArray[np.int32]:
    """Return the bucket of each row.

    columns   the bucket keys in their listed order
    num_rows  only needed when there are no columns
    returns   int32[n], 0 to num_buckets - 1
    errors    InvalidInputError for an unknown function, num_buckets < 1, or keys the function refuses
    """
    if num_buckets < 1:
        raise InvalidInputError(f"the number of buckets must be positive, not {num_buckets}")
    if function == "default":
        return buckets_of_hashes(hash_columns(columns, types, num_rows), num_buckets)
    if function == "mod":
        return _mod_buckets(columns, types, num_buckets)
    if function == "hive":
        positive = _hive_hashes(columns, types, num_rows) & np.uint32(0x7FFFFFFF)
        return (positive % np.uint32(num_buckets)).astype(np.int32)
    raise InvalidInputError(f"unknown bucket function {function!r}; use one of {', '.join(FUNCTIONS)}")


def buckets_of_hashes(hashes: npt.NDArray[np.int32], num_buckets: int) -> npt.NDArray[np.int32]:
    """Return ``abs(hash % num_buckets)`` with Java's truncated remainder, for hashes int32[n]."""
    # |INT_MIN| is 2**31, right as an unsigned number; |h % n| equals |h| % n.
    magnitude = np.abs(hashes).view(np.uint32)
    return (magnitude % np.uint32(num_buckets)).astype(np.int32)


def _mod_buckets(columns: Sequence[Column], types: Sequence[DataType], num_buckets: int) -> npt.NDArray[np.int32]:
    if len(types) != 1 or types[0].root not in (Root.INT, Root.BIGINT):
        names = ", ".join(str(t) for t in types)
        raise InvalidInputError(f"the mod bucket function needs exactly one INT or BIGINT bucket key, not ({names})")
    array = one_array(columns[0], types[0])
    values = values_of(array, np.int32 if types[0].root is Root.INT else np.int64)
    valid = null_mask(array)
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))
    return (values.astype(np.int64, copy=False) % num_buckets).astype(np.int32)


def _hive_hashes(
    columns: Sequence[Column], types: Sequence[DataType], num_rows: int | None = None
) -> npt.NDArray[np.uint32]:
    """Return Hive's hash of each row, as uint32[n].

    errors   InvalidInputError when a TIMESTAMP, VARIANT or nested value is not null
    """
    if len(columns) != len(types):
        raise InvalidInputError(f"{len(columns)} columns for {len(types)} types")
    out = np.zeros(len(columns[0]) if columns else num_rows or 0, np.uint32)
    for column, t in zip(columns, types, strict=True):
        array = one_array(column, t)
        if len(array) != len(out):
            raise InvalidInputError(f"columns of unequal length: {len(out)} and {len(array)}")
        valid = null_mask(array)
        hashes = _hive_field_hashes(array, t)
        out *= np.uint32(31)
        out += hashes if valid is None else np.where(valid, hashes, np.uint32(0))
    return out


def _hive_field_hashes(array: pa.Array, t: DataType) -> npt.NDArray[np.uint32]:
    """Return uint32[n]; anything where null."""
    if t.root in _HIVE_INTS:
        words: npt.NDArray[np.uint32] = fixed_words(array, t)
        bits = {Root.TINYINT: 24, Root.SMALLINT: 16}.get(t.root, 0)
        return (words.view(np.int32) << bits >> bits).view(np.uint32)
    if t.root is Root.BIGINT:
        return _fold(values_of(array, np.uint64))
    if t.root in (Root.FLOAT, Root.DOUBLE):
        dtype = np.float32 if t.root is Root.FLOAT else np.float64
        # Both zeros count as 0 and every NaN as the canonical one.
        floats = values_of(array, dtype) + dtype(0)
        floats[np.isnan(floats)] = np.nan
        return floats.view(np.uint32) if t.root is Root.FLOAT else _fold(floats.view(np.uint64))
    hashes = np.zeros(len(array), np.uint32)
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        part = bytes_column(array)
        _hash_bytes(hashes, part.data, part.starts, part.lengths)
    elif t.root is Root.DECIMAL:
        pairs = values_of(array, np.uint64, 2)
        _hash_decimals(hashes, frozen(pairs[::2]), frozen(pairs[1::2]), t.scale)
    elif array.null_count < len(array):
        raise InvalidInputError(f"the hive bucket function does not support values of {t}")
    return hashes


def _fold(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    return (words ^ (words >> np.uint64(32))).astype(np.uint32)


@kernel
def _hash_bytes(out: Any, data: Any, starts: Any, lengths: Any) -> None:
    for i in range(len(out)):
        h = np.uint32(0)
        for at in range(starts[i], starts[i] + lengths[i]):
            h = np.uint32(h * np.uint32(31) + np.uint32(np.int32(np.int8(data[at]))))
        out[i] = h


@kernel
def _hash_decimals(out: Any, low: Any, high: Any, scale: Any) -> None:
    """Return BigDecimal.hashCode without trailing zeros: 31 * signed hash of the magnitude's words + scale."""
    limbs = np.empty(4, np.uint64)
    quotient = np.empty(4, np.uint64)
    for i in range(len(out)):
        lo, hi = low[i], high[i]
        negative = hi >> np.uint64(63) != 0
        if negative:
            lo, hi = ~lo + np.uint64(1), ~hi + np.uint64(low[i] == 0)
        if lo == 0 and hi == 0:
            out[i] = 0
            continue
        limbs[0], limbs[1] = hi >> np.uint64(32), hi & np.uint64(0xFFFFFFFF)
        limbs[2], limbs[3] = lo >> np.uint64(32), lo & np.uint64(0xFFFFFFFF)
        digits = scale
        while digits > 0:
            rest = np.uint64(0)
            for k in range(4):
                part = rest << np.uint64(32) | limbs[k]
                quotient[k] = part // np.uint64(10)
                rest = part - quotient[k] * np.uint64(10)
            if rest != 0:
                break
            for k in range(4):
                limbs[k] = quotient[k]
            digits -= 1
        h = np.uint32(0)
        for k in range(4):
            h = np.uint32(h * np.uint32(31) + np.uint32(limbs[k]))
        if negative:
            h = np.uint32(-np.int64(h))
        out[i] = np.uint32(h * np.uint32(31) + np.uint32(digits))
