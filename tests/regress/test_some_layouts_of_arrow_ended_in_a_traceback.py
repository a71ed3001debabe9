"""Arrow's newer layouts (views, as Polars exports text, short decimals, run ends, extensions) and Python's own rows: a value that
does not fit is a rejected row or one line, as with the plain layouts. Arrow has few functions for them, and a traceback came.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.data.json_values import json_values
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import cast_column
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.types import Piece
from lakeidx.types import Field, parse_type, to_arrow

TEXTS = [None, "", "a", "1", "1.5", "2024-01-01", "true", "[1]", '{"a": 1}', "é"]
ROW = {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}
TYPES: list[Any] = [
    "BOOLEAN", "INT", "BIGINT", "FLOAT", "DECIMAL(5, 2)", "CHAR(2)", "STRING", "BINARY(1)", "DATE", "TIME(3)", "TIMESTAMP(0)",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE", "VARIANT", {"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "DATE"},
    {"type": "MAP", "key": "STRING", "value": "INT"}, {"type": "MULTISET", "element": "STRING"}, ROW,
]  # fmt: skip


def plain_arrays() -> dict[str, pa.Array]:
    ints = [None, 0, 1, -1, 86_400, 2**31 - 1, -(2**31)]
    long = [*ints, 2**63 - 1, -(2**63)]
    out = {str(t): pa.array(ints, t) for t in (pa.int32(), pa.float64())}
    out |= {str(t): pa.array(long, pa.int64()).cast(t) for t in (pa.int64(), pa.date64(), pa.time64("us"))}
    out |= {str(t): pa.array(ints, pa.int32()).cast(t) for t in (pa.date32(), pa.time32("s"), pa.time32("ms"))}
    out |= {str(t): pa.array(long, pa.int64()).cast(t) for u, z in product(("s", "ns"), (None, "Asia/Tokyo"))
            for t in (pa.timestamp(u, z),)}  # fmt: skip
    out |= {str(t): pa.array(TEXTS, t) for t in (pa.string(), pa.large_string(), pa.string_view())}
    out |= {str(t): pa.array([None, b"", b"\xff", b"12"], t) for t in (pa.binary(), pa.binary_view())}
    out |= {str(t): pa.array([None, Decimal("1.5"), Decimal(-1)], t)
            for t in (pa.decimal32(5, 1), pa.decimal64(9, 2), pa.decimal128(38, 3), pa.decimal256(70, 2))}  # fmt: skip
    out |= {"uuid": pa.array([None, b"0" * 16], pa.uuid()), "json": pa.array([*TEXTS[:2], '{"a": 1}'], pa.json_())}
    out |= {"bool": pa.array([None, True]), "half": pa.array([None, 0.0, 1.5, float("inf")], pa.float16())}
    out |= {"duration": pa.array([None, 1], pa.duration("s")), "null": pa.nulls(2)}
    return out


def layouts(a: pa.Array) -> dict[str, pa.Array]:
    """The array, and arrays of other layouts that hold it: those that Arrow makes of it."""
    n, ends = len(a), pa.array(range(1, len(a) + 1), pa.int32())
    offsets, keys = pa.array(range(n + 1), pa.int32()), pa.array(["k"] * n, pa.string_view())
    gone = pa.array([i == 1 for i in range(n)])
    make: dict[str, Callable[[], pa.Array]] = {
        "plain": lambda: a,
        "list": lambda: pa.ListArray.from_arrays(offsets, a),
        "large list": lambda: pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), a),
        "list view": lambda: pa.ListViewArray.from_arrays(offsets[:-1], pa.array([1] * n, pa.int32()), a, mask=gone),
        "fixed list": lambda: pa.FixedSizeListArray.from_arrays(a, 1),
        "map": lambda: pa.MapArray.from_arrays(offsets, keys, a),
        "pairs": lambda: pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([keys, a], ["key", "value"])),
        "struct": lambda: pa.StructArray.from_arrays([a], ["a"], mask=gone),
        "run ends": lambda: pa.RunEndEncodedArray.from_arrays(ends, a),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array(range(n), pa.int32()), a),
    }
    out = {}
    for name, build in make.items():
        with suppress(pa.ArrowException):
            out[name] = build()
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", list(plain_arrays()))
def test_every_layout_into_every_type(name: str) -> None:
    for (how, array), text in product(layouts(plain_arrays()[name]).items(), TYPES):
        t = parse_type(text)
        for values in (array, array.slice(1)):
            try:
                cast = cast_column(values, t)
                kept, rejected = cast_piece(Piece(pa.table({"x": values}), 1), [Field(0, "x", t)], "f")
            except InvalidInputError:
                continue
            cast.values.validate(full=True)
            failed = np.zeros(len(values), bool) if cast.failed is None else cast.failed
            assert cast.values.type == to_arrow(t), (how, text)
            assert not np.asarray(cast.values.is_valid())[failed].any(), (how, text)
            assert (rejected.num_rows, kept.num_rows) == (failed.sum(), (~failed).sum()), (how, text)
            assert len(json_values(values)) == len(values)


SPEC: dict[str, Any] = {
    "fields": [
        {"name": "id", "type": "INT"},
        {"name": "d", "type": "DATE"},
        {"name": "l", "type": {"type": "ARRAY", "element": "STRING"}},
        {"name": "m", "type": {"type": "MAP", "key": "STRING", "value": "INT"}},
    ],
    "primaryKeys": ["id"],
    "partitionKeys": [],
    "options": {"bucket": "1"},
}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (pl.DataFrame({"id": [5], "d": ["2024-13-01"]}), "row 1: cast: column d is not DATE: '2024-13-01'"),
        (pl.DataFrame({"id": pl.Series([5], dtype=pl.Int128)}), "DataFrame does not become Arrow data"),
        ([{"id": 1}, {"id": "x"}], "column 'id': the values do not become one Arrow column"),
        ([{"id": 2**80}], "column 'id': the values do not become one Arrow column"),
        ([{"id": 1, "m": {"a": "x"}}], "row 1: cast: column m is not MAP<STRING, INT>"),
        (pa.table({"id": [9], "m": [{"a": 1}]}), "column m: struct<a: int64> does not cast to MAP<STRING, INT>"),
    ],
)
def test_rows_in_memory(rows: Any, words: str, tmp_path: Any) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    with pytest.raises(InvalidInputError) as caught:
        table.upsert(rows, missing="null")
    assert words in str(caught.value)


def test_maps_of_python_have_the_keys_of_their_row(tmp_path: Any) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    given = [{"id": 1, "m": {"a": 1}}, {"id": 2, "m": {"b": 2}}, {"id": 3, "m": [("c", None)]}, {"id": 4, "m": None}]
    table.upsert(given, missing="null")
    wanted = [[("a", 1)], [("b", 2)], [("c", None)], None]
    assert table.scan().to_arrow().sort_by("id").column("m").to_pylist() == wanted
    # As Polars has them, which knows no maps.
    table.upsert(pl.from_arrow(table.scan().to_arrow()))
    assert table.scan().to_arrow().sort_by("id").column("m").to_pylist() == wanted


def test_lists_of_nothing_but_null(tmp_path: Any) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    table.upsert([{"id": 1, "l": [None, None]}, {"id": 2, "l": []}, {"id": 3, "l": None}], missing="null")
    assert table.scan().to_arrow().sort_by("id").column("l").to_pylist() == [[None, None], [], None]
    inner = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pa.nulls(2))
    column = pa.MapArray.from_arrays(pa.array([0, 1, 1], pa.int32()), pa.array(["k"]), inner)
    wanted = parse_type({"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "DATE"}})
    assert cast_column(column, wanted).values.to_pylist() == [[("k", [None, None])], []]
    assert json_values(column) == [[["k", [None, None]]], []]
