"""Columns as int64 keys that sort like Java compares their values.

source   org.apache.paimon.utils.InternalRowUtils#compare, org.apache.paimon.codegen.SortCodeGenerator, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.engines.functions.fixed_width import decimal_words, fixed_values
from lakeidx.data.engines.runs import Int64s
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_SIMPLE_ROOTS = INT_ROOTS | TIMESTAMP_ROOTS | {Root.DATE, Root.TIME, Root.BOOLEAN}


def order_keys(column: pa.Array, t: DataType) -> Int64s | None:
    """Keys in the order of the values, equal only for equal values; None for types without order.

    column    of ``to_arrow(t)``
    returns   int64[n]; whatever for nulls
    order     strings by UTF-8 bytes; floats with -0.0 < 0.0 and NaN on top; decimals by value
    cost      one pass; strings, bytes and decimals of more than 18 digits sort their distinct values
    """
    if t.root in _SIMPLE_ROOTS:
        return fixed_values(column, t).astype(np.int64, copy=False)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return _float_keys(fixed_values(column, t).astype(np.float64))
    if t.root is Root.DECIMAL:
        high, low = decimal_words(column)
        if t.precision <= 18:
            return low.view(np.int64)
        distinct, codes = np.unique(np.rec.fromarrays([high, low]), return_inverse=True)
        del distinct
        return codes.astype(np.int64).reshape(-1)
    if t.root in STRING_ROOTS or t.root in BYTES_ROOTS:
        return _text_keys(column)
    return None


def _float_keys(values: npt.NDArray[np.float64]) -> Int64s:
    bits = values.view(np.int64)
    keys = np.where(bits >= 0, bits, bits ^ np.int64(0x7FFFFFFFFFFFFFFF))
    return np.where(np.isnan(values), np.iinfo(np.int64).max, keys)


def _text_keys(column: pa.Array) -> Int64s:
    """Rank of each string among the distinct ones, by bytes."""
    plain = column.cast(pa.large_binary())
    encoded = plain.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return ranks[codes] if len(ranks) else np.zeros(len(column), np.int64)
