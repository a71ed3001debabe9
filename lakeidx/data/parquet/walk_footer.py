"""The kernel that finds what a Parquet footer says of its column chunks; `chunks` has the fields and the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, kernel
from lakeidx.data.parquet.thrift import read_field, read_list, read_size, read_varint, skip, zigzag


@helper
def _statistics(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 3 and kind == 6:
            value, at = read_varint(data, at)
            out[2] = zigzag(value)
        elif (last == 5 or last == 6) and kind == 8:
            size, after = read_size(data, at)
            if after < 0:
                return after
            place = 5 if last == 5 else 3
            out[place] = after
            out[place + 1] = size
            at = after + size
        else:
            at = skip(data, at, kind)


@helper
def _column_meta(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 2 and kind == 9:
            count, inner, at = read_list(data, at)
            if at < 0 or inner != 5:
                return np.int64(-1)
            used = np.int64(0)
            for _ in range(count):
                value, at = read_varint(data, at)
                if at < 0:
                    return np.int64(-1)
                # Encodings beyond those known count as one that is not a dictionary.
                number = zigzag(value)
                used |= np.int64(1) << (number if 0 <= number < 32 else np.int64(0))
            out[7] = used
        elif (last == 5 or last == 6 or last == 7 or last == 9 or last == 11) and kind == 6:
            value, at = read_varint(data, at)
            out[0 if last == 5 else 14 if last == 6 else 1 if last == 7 else 10 if last == 9 else 11] = zigzag(value)
        elif (last == 1 or last == 4) and kind == 5:
            value, at = read_varint(data, at)
            out[8 if last == 1 else 9] = zigzag(value)
        elif last == 12 and kind == 12:
            at = _statistics(data, at, out)
        else:
            at = skip(data, at, kind)


@helper
def _column_chunk(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 3 and kind == 12:
            at = _column_meta(data, at, out)
        elif ((last == 4 or last == 6) and kind == 6) or ((last == 5 or last == 7) and kind == 5):
            value, at = read_varint(data, at)
            out[12 if last == 4 else 13 if last == 5 else 15 if last == 6 else 16] = zigzag(value)
        else:
            at = skip(data, at, kind)


@helper
def _row_group(data: Any, at: Any, out: Any) -> Any:
    last = np.int64(0)
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if last == 1 and kind == 9:
            count, inner, at = read_list(data, at)
            if at < 0 or inner != 12 or count != out.shape[0]:
                return np.int64(-1)
            for c in range(count):
                at = _column_chunk(data, at, out[c])
                if at < 0:
                    return at
        else:
            at = skip(data, at, kind)


@kernel
def walk_footer(data: Any, out: Any) -> Any:
    """Fill out int64[groups, columns, 17] of a FileMetaData.

    returns   the position near which the footer is damaged; or -1 less the position where the schema ends
    """
    out[:] = -1
    at, last, schema = np.int64(0), np.int64(0), np.int64(0)
    while True:
        begin = at
        last, kind, at = read_field(data, at, last)
        if at < 0:
            return begin
        if kind == 0:
            return -1 - schema
        if last == 4 and kind == 9:
            count, inner, at = read_list(data, at)
            if at < 0 or inner != 12 or count != out.shape[0]:
                return begin
            for g in range(count):
                at = _row_group(data, at, out[g])
                if at < 0:
                    return begin
        else:
            at = skip(data, at, kind)
            if at < 0:
                return begin
            if last == 2:
                schema = at
