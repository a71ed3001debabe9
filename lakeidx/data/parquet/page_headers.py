"""Headers of data pages and dictionary pages, which describe the bytes that follow.

PageHeader, Thrift compact: 1 type, 2 size before compression, 3 size in the file, 4 CRC-32 of the page as it lies there (optional),
5 DataPageHeader (1 values, 2 encoding, 3 encoding of definition levels), 7 DictionaryPageHeader (1 values, 2 encoding),
8 DataPageHeaderV2 (1 values, 4 encoding, 5 bytes of definition levels, 6 of repetition levels, 7 whether values are compressed).

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakeidx.codec.jit import helper, kernel
from lakeidx.data.parquet.thrift import FALSE, I32, STRUCT, TRUE, read_field, read_varint, skip, zigzag

#: Fields of a page header: its size, the page's type, bytes before and after compression, checksum (and whether there is one),
#: values, encoding, bytes of repetition and definition levels in front (version 2), whether the values are compressed, encoding
#: of the definition levels (version 1).
SIZE, KIND, PLAIN_BYTES, BYTES, CRC, HAS_CRC, VALUES, ENCODING, REPETITION, DEFINITION, COMPRESSED, LEVELS, HEADER = (
    range(13)
)
#: Encoding of levels that are read here: runs.
RUNS = 3
#: Types of pages.
DATA, DICTIONARY_PAGE, DATA_2 = 0, 2, 3


#: What is wrong with a page: its header cannot be read, it is of another type, it has other rows than the page index says.
UNREADABLE, OTHER_TYPE, OTHER_ROWS = 0, 1, 2


@kernel
def page_headers(data: Any, starts: Any, rows: Any, out: Any) -> Any:
    """Fill out int64[p, HEADER] with the headers of consecutive pages in uint8[n].

    starts    int64[p + 1], where each begins
    rows      int64[p], how many rows a data page must have; -1 of a dictionary page
    returns   4 times the number of the first bad page, and what is wrong with it; -1 for none
    """
    for page in range(len(starts) - 1):
        if _page_header(data[: starts[page + 1]], starts[page], out[page]) < 0:
            return 4 * page + UNREADABLE
        kind = out[page, KIND]
        if (kind != DATA and kind != DATA_2) if rows[page] >= 0 else kind != DICTIONARY_PAGE:
            return 4 * page + OTHER_TYPE
        if rows[page] >= 0 and out[page, VALUES] != rows[page]:
            return 4 * page + OTHER_ROWS
    return -1


@helper
def _page_header(data: Any, at: Any, out: Any) -> Any:
    begin, last = at, np.int64(0)
    out[:] = -1
    out[HAS_CRC] = 0
    out[COMPRESSED] = 1
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0:
            return -1
        if kind == 0:
            break
        if kind == I32 and 1 <= last <= 4:
            value, at = read_varint(data, at)
            out[last] = zigzag(value)
            if last == 4:
                out[HAS_CRC] = 1
        elif kind == STRUCT and (last == 5 or last == 7 or last == 8):
            at = _values_header(data, at, last, out)
        else:
            at = skip(data, at, kind)
        if at < 0:
            return -1
    out[SIZE] = at - begin
    if out[BYTES] < 0 or out[PLAIN_BYTES] < 0 or out[VALUES] < 0 or out[BYTES] > len(data) - at:
        return -1
    return 0


@helper
def _values_header(data: Any, at: Any, which: Any, out: Any) -> Any:
    """Read the struct of a data page (5), a dictionary page (7) or a data page of version 2 (8); the position after it."""
    last = np.int64(0)
    while True:
        last, kind, at = read_field(data, at, last)
        if at < 0 or kind == 0:
            return at
        if which == 8 and last == 7 and kind in (TRUE, FALSE):
            out[COMPRESSED] = 1 if kind == TRUE else 0
        elif kind == I32 and (
            last == 1 or (last == 2 and which != 8) or (last == 3 and which == 5) or (4 <= last <= 6 and which == 8)
        ):
            value, at = read_varint(data, at)
            if last == 1:
                out[VALUES] = zigzag(value)
            elif last == 3:
                out[LEVELS] = zigzag(value)
            elif last == 2 or last == 4:
                out[ENCODING] = zigzag(value)
            else:
                out[DEFINITION if last == 5 else REPETITION] = zigzag(value)
        else:
            at = skip(data, at, kind)
        if at < 0:
            return at
