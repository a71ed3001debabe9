"""Keys, and the layouts in which Arrow and others have values."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

import lakeidx
from lakeidx import Table
from lakeidx.cli.main import app
from lakeidx.data.json_values import json_values
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import cast_column
from lakeidx.landing.cast_rows import AS_STORED, cast_piece
from lakeidx.landing.types import Piece
from lakeidx.types import Field, parse_type, to_arrow

# A key that is no value of the key column's type was rounded to one: a lookup found, and a delete took, another row.

NOON = datetime(2026, 1, 1, 12)
#: Type of the key column, its value; keys that mean it, keys that do not.
CASES: list[tuple[str, Any, list[pa.Array], list[pa.Array]]] = [
    ("DECIMAL(9, 2)", Decimal("0.12"), [pa.array([0.12])], [pa.array([0.123]), pa.array([None, 0.1199])]),
    ("DECIMAL(38, 2)", Decimal("5.00"), [pa.array([5.0]), pa.array([5])], [pa.array([5.001]).dictionary_encode()]),
    ("DATE", date(2026, 1, 1), [pa.array([datetime(2026, 1, 1)])],
     [pa.array([NOON]), pa.array([NOON.replace(tzinfo=UTC)])]),
    ("TIME(3)", NOON.time(), [pa.array([NOON.time()])], [pa.array([NOON])]),
    ("BOOLEAN", True, [pa.array([1])], [pa.array([5]), pa.array([0.5])]),
    ("BYTES", b"ab", [pa.array([b"ab"])], [pa.array(["ab"]), pa.array(["6162"], pa.large_string())]),
    ("INT", 1, [pa.array([1.0]), pa.array(["1"]).dictionary_encode()], [pa.array([1.5])]),
]  # fmt: skip


@pytest.mark.parametrize(("type_text", "value", "same", "others"), CASES, ids=[c[0] for c in CASES])
def test_a_key_is_never_rounded(
    tmp_path: Path, type_text: str, value: Any, same: list[pa.Array], others: list[pa.Array]
) -> None:
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        {"fields": [{"name": "k", "type": type_text}], "primaryKeys": ["k"], "options": {"bucket": "1"}},
    )
    table.upsert(pa.table({"k": pa.array([value], to_arrow(parse_type(type_text)))}))
    for keys in same:
        assert table.lookup(pa.table({"k": keys})).column("_FOUND").to_pylist() == [True]
    for keys in others:
        with pytest.raises(InvalidInputError, match=r"key column 'k'"):
            table.lookup(pa.table({"k": keys}))
        with pytest.raises(InvalidInputError):
            table.delete(pa.table({"k": keys}))
    assert table.scan().to_arrow().num_rows == 1


# A NaN in a key column went in, and merges (Java's, too) lost or doubled such keys.

_NAN = float("nan")


def _table(folder: Path, root: str = "DOUBLE", **more: object) -> lakeidx.Table:
    fields = [{"name": "k", "type": root}, {"name": "v", "type": "DOUBLE"}, {"name": "id", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k", "id"], "options": {"bucket": "1"}, **more}
    return lakeidx.Table.create(f"{folder}/d.db/t", spec)


@pytest.mark.slow
@pytest.mark.parametrize("root", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "csv.gz", "jsonl.zst", "parquet", "arrow"])
def test_rows_with_a_nan_key_are_rejected_with_the_reason(tmp_path: Path, root: str, form: str) -> None:
    """NaN stays possible in columns that are no keys; a Parquet file is looked at although its types fit."""
    table = _table(tmp_path, root)
    landing = tmp_path / f"rows.{form}"
    if form in ("parquet", "arrow"):
        arrow = pa.float32() if root == "FLOAT" else pa.float64()
        columns = {"k": pa.array([_NAN, 1.5], arrow), "v": [1.0, _NAN], "id": pa.array([1, 2], pa.int32())}
        schema = pa.schema(
            [pa.field("k", arrow, False), pa.field("v", pa.float64()), pa.field("id", pa.int32(), False)]
        )
        rows = pa.table(columns, schema=schema)
        if form == "parquet":
            pq.write_table(rows, landing)
        else:
            feather.write_feather(rows, str(landing))
    else:
        csv, jsonl = "k,v,id\nNaN,1.0,1\n1.5,nan,2\n", '{"k":"NaN","v":1.0,"id":1}\n{"k":1.5,"v":"NaN","id":2}\n'
        text = (csv if form.startswith("csv") else jsonl).encode()
        pack = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}
        landing.write_bytes(pack.get(form.rpartition(".")[2], bytes)(text))
    result = table.upsert_files([str(landing)])
    assert (result.ingest.rows_in, result.ingest.rows_rejected) == (2, 1)
    assert result.ingest.reject_reasons == {"key": 1}
    assert result.ingest.rejected_path is not None
    rejected = pq.read_table(result.ingest.rejected_path).to_pylist()
    assert [r["reason"] for r in rejected] == ["key: column k is NaN, which no key column may be"]
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == [2]


def test_rows_in_memory_and_partition_columns(tmp_path: Path) -> None:
    """The whole upsert is refused, as for any other bad row in memory."""
    table = _table(tmp_path, partitionKeys=["k"])
    with pytest.raises(InvalidInputError, match="row 2: key: column k is NaN"):
        table.upsert(pa.table({"k": [1.0, _NAN], "v": [0.0, 0.0], "id": [1, 2]}))
    assert table.snapshot is None


def test_deletes_and_lookups_find_no_such_row(tmp_path: Path) -> None:
    """A question is no row: it has an answer."""
    table = _table(tmp_path)
    table.upsert(pa.table({"k": [1.0, -0.0], "v": [0.0, 0.0], "id": [1, 1]}))
    asked = pa.table({"k": [_NAN, 1.0], "id": [1, 1]})
    assert table.lookup(asked).column("_FOUND").to_pylist() == [False, True]
    assert table.delete(asked.slice(0, 1)) is None
    table.compact(full=True)
    table.build_lookup_store()
    assert lakeidx.Table.open(table.uri).lookup(asked).column("_FOUND").to_pylist() == [False, True]
    assert table.scan(where="k > 100").to_arrow().num_rows == 0


def test_a_delete_of_such_a_row_is_refused(tmp_path: Path) -> None:
    """Rows with row kinds come by the same way."""
    table = _table(tmp_path)
    with pytest.raises(InvalidInputError, match="column k is NaN"):
        table.upsert(pa.table({"k": [_NAN], "v": [0.0], "id": [1], "_kind": ["-D"]}))
    landing = tmp_path / "rows.csv"
    landing.write_text("k,v,id,_kind\nNaN,1.0,1,-D\n")
    result = CliRunner().invoke(app, ["upsert", table.uri, str(landing)])
    assert result.exit_code == 1
    assert "column k is NaN, which no key column may be" in result.output
    assert "Traceback" not in result.output
    assert table.snapshot is None


def test_spark_writes_none(tmp_path: Path) -> None:
    """What a task of a data frame stages."""
    from lakeidx.spark.read_options import ReadOptions
    from lakeidx.spark.table_writer import TableWriter

    table = _table(tmp_path)
    batch = pa.RecordBatch.from_pydict({"k": [1.0, _NAN], "v": [0.0, 0.0], "id": pa.array([1, 2], pa.int32())})
    writer = TableWriter(ReadOptions.parse({"path": table.uri}), batch.schema, overwrite=False)
    with pytest.raises(InvalidInputError, match="row 2 of task 0: key: column k is NaN"):
        writer.write(iter([batch]))


# Values came in as they were, whatever length their column declares: Spark pads CHAR keys, so that one key was two rows.

#: Type, values as given, as stored; None is a row that is rejected. Text as Spark 4.0 with Paimon's connector of 2.1 stores it.
CASES_CHAR: list[tuple[str, list[Any], list[Any]]] = [
    ("CHAR(3)", ["a", "ab ", "abc", "abc  ", "abcd", "", "ü😀", None],
     ["a  ", "ab ", "abc", "abc", None, "   ", "ü😀 ", "null"]),
    ("VARCHAR(3)", ["a", "ab ", "abc  ", "abcd", "abc d", "", None], ["a", "ab ", "abc", None, None, "", "null"]),
    ("STRING", ["a  ", "abcd"], ["a  ", "abcd"]),
    ("BINARY(2)", [b"a", b"ab", b"abc"], [b"a", b"ab", None]),
    ("VARBINARY(2)", [b"", b"ab", b"abc"], [b"", b"ab", None]),
    ("TIMESTAMP(0)", [datetime(1969, 12, 31, 23, 59, 58), datetime(2024, 1, 1, 0, 0, 0, 1000), None],
     [datetime(1969, 12, 31, 23, 59, 58), None, "null"]),
    ("TIMESTAMP(5)", [datetime(1969, 1, 1, 0, 0, 0, 10), datetime(1969, 1, 1, 0, 0, 0, 11)],
     [datetime(1969, 1, 1, 0, 0, 0, 10), None]),
]  # fmt: skip


def _table_char(folder: Path, type_text: str, *, key: bool = False, **options: str) -> lakeidx.Table:
    fields = [{"name": "k", "type": type_text if key else "INT"}, {"name": "v", "type": "INT" if key else type_text}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}}
    )


@pytest.mark.parametrize("form", ["memory", "parquet", "csv"])
@pytest.mark.parametrize(("type_text", "given", "stored"), CASES_CHAR, ids=[c[0] for c in CASES_CHAR])
def test_values_are_fitted_to_what_their_column_declares(
    tmp_path: Path, type_text: str, given: list[Any], stored: list[Any], form: str
) -> None:
    """Also those of a Parquet file whose types fit, which is not copied otherwise."""
    table = _table_char(tmp_path, type_text)
    kind = table.scan().to_arrow().schema.field("v").type
    rows = pa.table({"k": pa.array(range(len(given)), pa.int32()), "v": pa.array(given, kind)})
    wanted = {i: None if v == "null" else v for i, v in enumerate(stored) if v is not None}
    bad = [i for i, v in enumerate(stored) if v is None]
    if form == "memory":
        for i in bad:
            with pytest.raises(InvalidInputError, match=r"cast: column v is not "):
                table.upsert(rows.slice(i, 1))
        table.upsert(rows.filter(pa.array([v is not None for v in stored])))
    else:
        path = tmp_path / f"rows.{form}"
        if form == "parquet":
            pq.write_table(rows, path)
        else:
            shown = [v.hex() if isinstance(v, bytes) else "" if v is None else f'"{v}"' for v in given]
            path.write_text("k,v\n" + "".join(f"{i},{v}\n" for i, v in enumerate(shown)), encoding="utf-8")
        result = table.upsert_files([path])
        assert result.ingest.reject_reasons == ({"cast": len(bad)} if bad else {})
    found = {r["k"]: r["v"] for r in table.scan().to_arrow().to_pylist()}
    if form == "csv" and "BINARY" in type_text:
        wanted = {i: v or None for i, v in wanted.items()}  # nothing between commas is null
    assert found == wanted


@pytest.mark.parametrize("bucket", ["-1", "4"])
def test_a_key_is_one_row_however_it_is_written_and_asked_for(tmp_path: Path, bucket: str) -> None:
    table = _table_char(tmp_path, "CHAR(3) NOT NULL", key=True, bucket=bucket)
    table.upsert(pa.table({"k": ["a", "ab"], "v": [1, 2]}))
    table.upsert(pa.table({"k": ["a  ", "ab "], "v": [3, 4]}))
    assert table.scan().to_arrow().to_pylist() == [{"k": "a  ", "v": 3}, {"k": "ab ", "v": 4}]
    for asked in ("a", "a ", "a  "):
        assert table.lookup(pa.table({"k": [asked]})).column("v").to_pylist() == [3]
        assert table.scan(where=f"k = '{asked}'").to_arrow().num_rows == 1
    file = tmp_path / "keys.jsonl"
    file.write_text('{"k": "a"}\n{"k": "much too long"}\n')
    answers = CliRunner().invoke(app, ["lookup", table.uri, "--keys", str(file)]).stdout.splitlines()
    assert [json.loads(a) for a in answers] == [{"k": "a  ", "v": 3}, None]
    assert table.delete(pa.table({"k": ["ab"]})) is not None
    assert table.scan(columns=["k"]).to_arrow().column("k").to_pylist() == ["a  "]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("k = 'b'", "b"), ("k <> 'b'", "ac"), ("k < 'b'", "a"), ("k <= 'b'", "ab"), ("k > 'b'", "c"), ("k >= 'b'", "bc"),
        ("k IN ('a ', 'c')", "ac"), ("k NOT IN ('a', 'c')", "b"), ("k BETWEEN 'a' AND 'b'", "ab"), ("k LIKE 'b%'", "b"),
        ("NOT k < 'b'", "bc"), ("k = 'bb'", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("padded", [True, False])
def test_conditions_hold_for_both_forms(tmp_path: Path, where: str, keys: str, padded: bool) -> None:
    """Java's API, and lakeidx 0.1.0, store CHAR without blanks."""
    table = _table_char(tmp_path, "CHAR(3) NOT NULL", key=True)
    rows = pa.table({"k": ["a", "b", "c"], "v": pa.array([1, 2, 3], pa.int32())})
    table.upsert(rows if padded else rows.replace_schema_metadata(AS_STORED))
    found = table.scan(where=where).to_arrow().column("k").to_pylist()
    assert found == [k + "  " * padded for k in keys]


def test_rows_that_do_not_fit_can_be_deleted(tmp_path: Path) -> None:
    """What another writer stored goes under the key that it has."""
    table = _table_char(tmp_path, "CHAR(3) NOT NULL", key=True)
    rows = pa.table({"k": ["a", "b", "long as Java stores it"], "v": pa.array([1, 2, 3], pa.int32())})
    table.upsert(rows.replace_schema_metadata(AS_STORED))
    assert table.delete(where="k = 'a' OR v = 3") is not None
    assert table.scan().to_arrow().to_pylist() == [{"k": "b", "v": 2}]


# Arrow's newer layouts (views, as Polars exports text, short decimals, run ends, extensions) and Python's own rows: a value that
# does not fit is a rejected row or one line, as with the plain layouts. Arrow has few functions for them, and a traceback came.

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


# A lookup kept its answer's columns under the name of the table's: after it they all were nullable, or the answer's were not.

FIELDS = [{"name": "k", "type": "BIGINT NOT NULL"}, {"name": "v", "type": "STRING NOT NULL"}]


@pytest.mark.parametrize("first", ["lookup", "schema"])
def test_each_has_its_own(tmp_path: Path, first: str) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    table.upsert([{"k": 1, "v": "a"}])
    table = Table.open(table.uri)
    if first == "schema":
        assert not table.schema.arrow_schema.field("v").nullable
    answer = table.lookup(pa.table({"k": [2]}))
    assert answer.to_pylist() == [{"_FOUND": False, "k": None, "v": None}]
    assert all(answer.schema.field(name).nullable for name in ("k", "v"))
    assert not any(f.nullable for f in table.schema.arrow_schema)
    assert not any(f.nullable for f in table.schema.kv_arrow_schema)
