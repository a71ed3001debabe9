"""Arrow columns as values that JSON can write, a whole column at a time.

==========================  =============================================================
Arrow                       JSON
==========================  =============================================================
timestamps, dates, times    ISO text with the fraction digits of the unit; of moments in UTC, with a ``Z``
decimals                    text
binary                      text, hex
NaN and infinities          text
structs                     objects
lists                       lists
maps                        lists of ``[key, value]``, since a key need not be text
==========================  =============================================================

Inside nested values the same. Arrow's own `to_pylist` gives Python objects, which have no nanoseconds (pandas lends them where it
is imported), no years outside of 1 to 9999 and no time of day but 0 to 24 hours: it fails for a value that it only had to show.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.nested_nulls import map_entries


def json_columns(table: pa.Table) -> list[list[Any]]:
    """Return the columns as lists of values."""
    return [json_values(table.column(i)) for i in range(table.num_columns)]


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as dictionaries."""
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*json_columns(table), strict=True)]


def json_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in json_values(chunk)]
    t = column.type
    if isinstance(t, pa.BaseExtensionType):
        return json_values(column.storage)
    if pa.types.is_dictionary(t):
        distinct = json_values(column.dictionary)
        return [None if at is None else distinct[at] for at in column.indices.to_pylist()]
    if pa.types.is_nested(t) and "null>" in str(t).replace(" not null", ""):
        # Of lists of nothing but null Arrow 26 loses some when it flattens what is around them.
        return list(json.loads(json.dumps(column.to_pylist(), default=str)))
    if pa.types.is_run_end_encoded(t):
        return json_values(pc.run_end_decode(column))
    if pa.types.is_struct(t):
        return _objects(column, [f.name for f in t])
    if pa.types.is_map(t):
        entries = map_entries(column)
        pairs = zip(*map(json_values, pc.list_flatten(entries).flatten()), strict=True)
        return _lists(entries, [[key, value] for key, value in pairs])
    if pa.types.is_nested(t):
        return _lists(column, json_values(pc.list_flatten(column)))
    if pa.types.is_timestamp(t):
        # Of moments of a zone Arrow's text is wrong for years beyond 32767: they are shown by the clock of UTC.
        clock = column.cast(pa.int64()).cast(pa.timestamp(t.unit))
        return _days_and_times(clock, t.unit, "" if t.tz is None else "Z")
    if pa.types.is_date(t):
        return _days_and_times(column, "D" if t == pa.date32() else "ms", "")
    if pa.types.is_decimal(t) or pa.types.is_time(t):
        return list(pc.cast(column, pa.string()).to_pylist())
    if "binary" in str(t):
        return [None if v is None else v.hex() for v in column.to_pylist()]
    if pa.types.is_floating(t):
        return [_float(v) for v in column.to_pylist()]
    if pa.types.is_duration(t):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def _days_and_times(column: pa.Array, unit: str, end: str) -> list[Any]:
    """Return ISO texts of dates, or of timestamps without a zone; beyond the year 32767 Arrow has none."""
    text = pc.replace_substring(pc.cast(column, pa.string()), " ", "T", max_replacements=1)
    texts = list((pc.binary_join_element_wise(text, end, "") if end else text).to_pylist())
    for i in np.flatnonzero(pc.fill_null(pc.starts_with(text, "<"), False)).tolist():
        value = column[i].value
        moment = np.array(value).astype(f"M8[{unit}]")
        texts[i] = f"<out of range: {value}>" if np.isnat(moment) else f"{np.datetime_as_string(moment)}{end}"
    return texts


def _objects(column: pa.StructArray, names: Sequence[str]) -> list[Any]:
    children = [json_values(child) for child in column.flatten()]
    rows = zip(*children, strict=True) if children else [()] * len(column)
    there = column.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, there, strict=True)]


def _lists(column: pa.Array, flat: Sequence[Any]) -> list[Any]:
    """Cut what all lists that are there hold, one after another, into the lists."""
    there = column.is_valid().to_pylist()
    lengths = [n or 0 for n in pc.list_value_length(column).to_pylist()]
    bounds = pairwise(accumulate((n if ok else 0 for n, ok in zip(lengths, there, strict=True)), initial=0))
    return [list(flat[a:b]) if ok else None for (a, b), ok in zip(bounds, there, strict=True)]


def _float(value: float | None) -> float | str | None:
    # JSON has no NaN and no infinities.
    if value is None or value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
