"""Timestamps that Parquet keeps as INT96: refused where Arrow would wrap them around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.errors import UnsupportedError

# INT96 as milliseconds. timestamp[ns] ends at +-2**63 ns. Java writes an instant before 1970 with negative nanoseconds of
# the day, which Arrow takes for unsigned: such a value comes out 2**64 ns too great, and below 2**64 ns it is taken for one.
_LEAST_MILLIS = -9_223_372_036_855
_MOST_MILLIS = 18_446_744_073_710


def refuse_int96(stream: pa.NativeFile, group: int, names: Sequence[str], path: str) -> None:
    """Refuse INT96 values outside 1677 to 2262, which Arrow would silently wrap around in ``timestamp[ns]``.

    Years 2262 to 2554 cannot be distinguished from 1677 to 1970 in what Arrow gives; all beyond is found.

    group, names   row group, and its columns with INT96 values
    errors         UnsupportedError
    """
    coarse = pq.ParquetFile(stream, coerce_int96_timestamp_unit="ms", page_checksum_verification=True)
    table = coarse.read_row_group(group, columns=list(names), use_threads=False)
    for name in names:
        for leaf in _timestamp_leaves(table.column(name).combine_chunks()):
            bounds = pc.min_max(leaf.cast(pa.int64())).as_py()
            low, high = bounds["min"], bounds["max"]
            if low is not None and not _LEAST_MILLIS <= low <= high < _MOST_MILLIS:
                raise UnsupportedError(
                    f"column {name!r} holds a TIMESTAMP beyond the years 1677 to 2262, which lakeidx cannot hold at"
                    " a precision above 6; leave the column out to read the others",
                    path=path,
                )


def _timestamp_leaves(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _timestamp_leaves(child)
    elif pa.types.is_map(array.type):
        yield from _timestamp_leaves(array.keys)
        yield from _timestamp_leaves(array.items)
    elif pa.types.is_list(array.type):
        yield from _timestamp_leaves(array.values)
