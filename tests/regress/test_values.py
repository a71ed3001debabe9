"""Values at the ends of their types, and types that few have met."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx import Table
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.compaction.record_expiry import record_expiry
from lakeidx.data.cast import floor_moments
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.landing.cast import cast_column
from lakeidx.landing.read import LandingOptions
from lakeidx.spark.values import arrow_schema, spark_schema, to_spark
from lakeidx.types import parse_type
from tests.kit.small_tables import table_spec

# Values at the ends of their types and beyond: each is stored as it is, or its row is rejected with the reason, at every door.
#
# Nanoseconds without pandas and years that Python does not have ended in a traceback where the row was to be shown; times of day of
# 24 hours and more, or below zero, were stored. Days with a time of day, and times beyond a day: tests/unit/landing/test_cast.py.

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LTZ = " WITH LOCAL TIME ZONE"
#: Seconds since the epoch of 0001-01-01 00:00:00 and of the end of 9999-12-31.
FIRST, END, DAY = -62_135_596_800, 253_402_300_800, 86_400


def expected(value: int, unit: str, precision: int, more: int) -> int | None:
    """What becomes of a moment in the unit of TIMESTAMP(precision), None where it does not fit; `more`: days on either side."""
    nanos = value * 10**9 // PER_SECOND[unit]
    per = 10**6 if precision <= 3 else 10**3 if precision <= 6 else 1
    if nanos % 10 ** (9 - precision) or not (FIRST - more * DAY) * 10**9 <= nanos < (END + more * DAY) * 10**9:
        return None
    return nanos // per if -(2**63) <= nanos // per < 2**63 else None


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("unit", list(PER_SECOND))
def test_every_unit_into_every_precision(unit: str, zone: str | None) -> None:
    per = PER_SECOND[unit]
    seconds = [0, 1, -1, FIRST, FIRST - DAY, END, END + DAY, 9_223_372_036, -9_223_372_037]
    values = [s * per + d for s in seconds for d in (-1, 0, 1)]
    values += [-(2**63), 2**63 - 1, 1_785_000_000_123_456_789, 1_785_000_000_123_456_000, 1_785_000_000_120_000_000]
    values = [v for v in values if -(2**63) <= v < 2**63]
    column = pa.array([*values, None], pa.int64()).cast(pa.timestamp(unit, zone))
    for precision in range(10):
        for suffix in ("", LTZ):
            wanted = [expected(v, unit, precision, suffix == LTZ) for v in values]
            cast = cast_column(column, parse_type(f"TIMESTAMP({precision}){suffix}"))
            assert cast.values.cast(pa.int64()).to_pylist() == [*wanted, None], (precision, suffix)
            failed = [False] * len(column) if cast.failed is None else cast.failed.tolist()
            assert failed == [*(w is None for w in wanted), False], (precision, suffix)


SPEC: dict[str, Any] = table_spec(
    "k INT, s TIMESTAMP(0), u TIMESTAMP(6), n TIMESTAMP(9), t TIME(3), d DATE", ["k"], options={"bucket": "1"}
)
NANOS = 1_785_000_000_123_456_789
ROWS = pa.table(
    {
        "k": pa.array(range(7), pa.int32()),
        "s": pa.array([0, END * 1000 + 1, 0, 0, 0, 0, 0], pa.int64()).cast(pa.timestamp("ms")),
        "u": pa.array([NANOS - 789, 0, NANOS, 0, 0, 0, 0], pa.int64()).cast(pa.timestamp("ns")),
        "n": pa.array([0, 0, 0, 2**63 - 1, 0, 0, 0], pa.int64()).cast(pa.timestamp("us")),
        "t": pa.array([0, 0, 0, 0, 86_400_000, -1, 0], pa.int32()).cast(pa.time32("ms")),
        "d": pa.array([0, 0, 0, 0, 0, 0, 2_932_897], pa.int32()).cast(pa.date32()),
    }
)
GOOD = {"k": 0, "s": "1970-01-01T00:00:00.000", "u": "2026-07-25T17:20:00.123456",
        "n": "1970-01-01T00:00:00.000000000", "t": "00:00:00.000", "d": "1970-01-01"}  # fmt: skip
REASONS = [
    "cast: column s is not TIMESTAMP(0): '10000-01-01T00:00:00.001'",
    "cast: column u is not TIMESTAMP(6): '2026-07-25T17:20:00.123456789'",
    "cast: column n is not TIMESTAMP(9): '294247-01-10T04:00:54.775807'",
    "cast: column t is not TIME(3): '<value out of range: 86400000>'",
    "cast: column t is not TIME(3): '<value out of range: -1>'",
    "cast: column d is not DATE: '10000-01-01'",
]


def write_parquet(path: Path) -> None:
    pq.write_table(ROWS, path)


def write_arrow(path: Path) -> None:
    pyarrow.feather.write_feather(ROWS, str(path), compression="uncompressed")


WRITERS: list[tuple[str, Callable[[Path], None]]] = [("f.parquet", write_parquet), ("f.arrow", write_arrow)]


@pytest.mark.parametrize(("name", "write"), WRITERS, ids=[n for n, _ in WRITERS])
def test_a_file_loses_the_rows_that_do_not_fit_and_no_other(
    name: str, write: Callable[[Path], None], tmp_path: Path
) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    write(tmp_path / name)
    result = table.upsert_files([tmp_path / name])
    assert [r["k"] for r in table.scan().to_arrow().to_pylist()] == [0]
    rejected = read_rejected(table.store, result.ingest.rejected_path or "").to_pylist()
    assert [r["reason"] for r in rejected] == REASONS
    assert json.loads(rejected[1]["row"])["u"] == "2026-07-25T17:20:00.123456789"


def test_rows_in_memory_are_refused_by_row_and_reason(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    for at, reason in enumerate(REASONS, 1):
        with pytest.raises(InvalidInputError) as caught:
            table.upsert(ROWS.slice(at, 1))
        assert f"row 1: {reason}" in str(caught.value)
    table.upsert(ROWS.slice(0, 1))
    assert table.scan().to_arrow().num_rows == 1


def test_parquet_staged_by_reference_has_its_ranges_looked_at(tmp_path: Path) -> None:
    spec = {**SPEC, "fields": [{"name": "k", "type": "INT"}, {"name": "t", "type": "TIME(3)"}]}
    for number, values in enumerate(([0, 1], [0, 86_400_000], [-1, None])):
        table, file = Table.create(f"{tmp_path}/d.db/t{number}", spec), tmp_path / f"f{number}.parquet"
        times = pa.array(values, pa.int32()).cast(pa.time32("ms"))
        pq.write_table(pa.table({"k": pa.array([0, 1], pa.int32()), "t": times}), file)
        ingest = table.upsert_files([file]).ingest
        assert (ingest.rows_rejected, ingest.parts[0].by_reference) == ((1, False) if number else (0, True))


@pytest.mark.parametrize(
    ("name", "unit", "good"),
    [("io.debezium.time.Time", 10**3, 86_399_999), ("io.debezium.time.MicroTime", 10**6, 86_399_999_000),
     ("io.debezium.time.NanoTime", 10**9, 86_399_999_000_000)],
)  # fmt: skip
def test_times_of_day_of_debezium(name: str, unit: int, good: int, tmp_path: Path) -> None:
    fields = [{"name": "k", "type": "INT"}, {"name": "t", "type": "TIME(3)"}]
    table = Table.create(f"{tmp_path}/d.db/t", {**SPEC, "fields": fields})
    column = {"type": "int32" if unit == 10**3 else "int64", "optional": True, "name": name, "field": "t"}
    row = {"type": "struct", "field": "after", "fields": [{"type": "int32", "field": "k"}, column]}
    values = [good, 100 * 3600 * unit, -unit, DAY * unit, 2**63 - 1]
    lines = [
        {"schema": {"type": "struct", "fields": [row]}, "payload": {"op": "c", "after": {"k": k, "t": v}}}
        for k, v in enumerate(values)
    ]
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = table.upsert_files([file], LandingOptions(format="debezium"))
    assert table.scan().to_arrow().column("t").cast(pa.int32()).to_pylist() == [86_399_999]
    rejected = read_rejected(table.store, result.ingest.rejected_path or "").to_pylist()
    assert [r["reason"].partition(": '")[0] for r in rejected] == ["cast: column t is not TIME(3)"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "pandas", ["", "import pandas, pyarrow; pyarrow.array([0]); "], ids=["without pandas", "with pandas"]
)
def test_the_command_line_needs_no_pandas(pandas: str, tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", SPEC)
    write_parquet(tmp_path / "f.parquet")
    program = f"{pandas}from lakeidx.cli.main import main; main()"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)

    done = run("upsert", table.uri, str(tmp_path / "f.parquet"))
    assert done.returncode == 0, done.stderr
    assert all(reason in done.stderr for reason in REASONS[:5])
    shown = run("scan", table.uri)
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [GOOD]


# Values inside nested columns, and data frames that make no Arrow data: each ended in a traceback, or was cut without a word.

ROW = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "a", "type": "TIMESTAMP(3)"}, {"id": 1, "name": "b", "type": "INT NOT NULL"}],
}
CODES = pa.dictionary(pa.int32(), pa.string())


def create(folder: Path, t: Any) -> Table:
    fields = [{"name": "k", "type": "INT"}, {"name": "v", "type": t}]
    return Table.create(f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1"}})


def test_a_null_row_with_a_required_field_in_a_map(tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "MAP", "key": "STRING", "value": ROW})
    inner = pa.struct([("a", pa.timestamp("us")), ("b", pa.int32())])
    values = [[("x", None), ("y", {"a": None, "b": 1})], None, []]
    table.upsert(pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": pa.array(values, pa.map_(pa.string(), inner))}))
    assert table.scan().to_arrow().column("v").to_pylist() == values


@pytest.mark.parametrize(
    ("t", "value"),
    [("INT", Decimal("1.5")), ("TIMESTAMP(3)", dt.datetime(2026, 1, 1, 0, 0, 0, 1)), ("TIME(3)", dt.time(0, 0, 0, 1))],
)
def test_values_of_maps_in_lists_of_dictionaries_are_not_cut(t: str, value: Any, tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "MAP", "key": "STRING", "value": t})
    with pytest.raises(InvalidInputError, match="column v is not MAP"):
        table.upsert([{"k": 1, "v": {"x": value}}])
    table.upsert([{"k": 1, "v": {}}, {"k": 2, "v": []}, {"k": 3, "v": None}])
    assert table.scan().to_arrow().column("v").to_pylist() == [[], [], None]
    with pytest.raises(InvalidInputError, match="a map is a dictionary or a list of pairs"):
        table.upsert([{"k": 1, "v": [{"key": "x", "value": None}]}])


def test_a_data_frame_with_a_number_beyond_64_bits_names_its_column(tmp_path: Path) -> None:
    table = create(tmp_path, "BIGINT")
    with pytest.raises(InvalidInputError, match=r"DataFrame does not become Arrow data: column 'v': .*too large"):
        table.upsert(pd.DataFrame({"k": [1], "v": pd.Series([2**64], dtype=object)}))


def test_broken_text_in_a_dictionary_in_a_nested_column_takes_no_other_row(tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "ARRAY", "element": "STRING"})
    raw = pa.array([b"a", b"\xff", b"c"])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers()).dictionary_encode()
    rows = pa.table(
        {"k": pa.array([1, 2, 3], pa.int32()), "v": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), text)}
    )
    pyarrow.feather.write_feather(rows, f"{tmp_path}/f.arrow", compression="uncompressed")
    assert table.upsert_files([f"{tmp_path}/f.arrow"]).ingest.rows_rejected == 1
    assert table.scan().to_arrow().column("v").to_pylist() == [["a"], ["c"]]


def test_a_parquet_file_that_arrow_writes_and_does_not_read_is_not_called_damaged(tmp_path: Path) -> None:
    table = create(tmp_path, {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "STRING"}]})
    codes = pa.StructArray.from_arrays([pa.array(["x"] * 3, CODES)], ["a"])
    pq.write_table(
        pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": codes}), tmp_path / "f.parquet", row_group_size=1
    )
    with pytest.raises(InvalidInputError, match=r"Arrow cannot read the Parquet file .*: write it with plain types"):
        table.upsert_files([tmp_path / "f.parquet"])


# A null ROW whose type has a NOT NULL field ended the batch with Arrow's own error while it was staged.

_ROW = {"type": "ROW", "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": "STRING NOT NULL"}]}
_KINDS = {
    "row": _ROW,
    "row in row": {"type": "ROW", "fields": [{"name": "r", "type": _ROW}]},
    "array of rows": {"type": "ARRAY", "element": _ROW},
    "map of rows": {"type": "MAP", "key": "STRING NOT NULL", "value": _ROW},
    "required elements": {"type": "ROW", "fields": [{"name": "a", "type": {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}}]},
    "variant": "VARIANT",
}  # fmt: skip
_FULL = {
    "row": {"x": 1, "y": "a"},
    "row in row": {"r": {"x": None, "y": "b"}},
    "array of rows": [{"x": 1, "y": "a"}, None],
    "map of rows": {"k": {"x": 1, "y": "a"}, "l": None},
    "required elements": {"a": [1, 2]},
    "variant": {"value": "0c01", "metadata": "010000"},
}


def _table(folder: Path, kind: str) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": "r", "type": _KINDS[kind]}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
    )


@pytest.mark.parametrize("kind", sorted(_KINDS))
def test_null_and_missing_rows(tmp_path: Path, kind: str) -> None:
    """Null, left out and given, from a file and from memory."""
    table = _table(tmp_path, kind)
    landing = tmp_path / "rows.jsonl"
    lines = [{"id": 1, "r": None}, {"id": 2}, {"id": 3, "r": _FULL[kind]}]
    landing.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table.upsert_files([str(landing)], lakeidx.LandingOptions(missing="null"))
    table.upsert(pa.table({"id": [4]}), missing="null")
    found = {r["id"]: r["r"] for r in table.scan().to_arrow().to_pylist()}
    assert {k for k, v in found.items() if v is None} == {1, 2, 4}
    assert found[3] is not None
    assert table.lookup(pa.table({"id": [1, 3]})).column("r").to_pylist() == [None, found[3]]


@pytest.mark.parametrize("kind", ["row", "variant"])
def test_arrow_data_with_null_below_a_null(tmp_path: Path, kind: str) -> None:
    """It was rejected as text that is not UTF-8; of Spark 4.2 every null VARIANT is such."""
    table = _table(tmp_path, kind)
    full = {"x": 1, "y": "a"} if kind == "row" else {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
    fields = list(table.schema.arrow_schema.field("r").type)
    children = [pa.array([None, v], f.type) for f, v in zip(fields, full.values(), strict=True)]
    values = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array([True, False]))
    table.upsert(pa.table({"id": [1, 2], "r": values}))
    assert table.scan().to_arrow().sort_by("id").column("r").to_pylist() == [None, full]


# A negative decimal literal of more than 28 digits was rounded by the negation; a partition path of such a value raised.

_EXACT = Context(prec=60)


def _table_decimals(folder: Path, data_type: str, **more: object) -> lakeidx.Table:
    fields = [{"name": "id", "type": "INT"}, {"name": "d", "type": data_type}]
    return lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}, **more}
    )


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        ("DECIMAL(38, 38)", "-0.99999999999999999999999999999999999999"),
        ("DECIMAL(38, 10)", "-1234567890123456789012345678.1234567891"),
        ("DECIMAL(38, 0)", "-99999999999999999999999999999999999999"),
    ],
)
def test_where_compares_all_digits(tmp_path: Path, data_type: str, text: str) -> None:
    """The literal, quoted or not, equals the value and is not below it."""
    table = _table_decimals(tmp_path, data_type)
    precision, scale = (int(n) for n in data_type[8:-1].split(","))
    table.upsert(pa.table({"id": [1], "d": pa.array([Decimal(text)], pa.decimal128(precision, scale))}))
    for literal in (text, f"'{text}'"):
        assert table.scan(where=f"d = {literal}").to_arrow().column("id").to_pylist() == [1]
        assert table.scan(where=f"d < {literal}").to_arrow().num_rows == 0


def test_negative_zero_stays_zero(tmp_path: Path) -> None:
    """``-0.0`` is the decimal zero, as in SQL, not the float below it."""
    table = _table_decimals(tmp_path, "DOUBLE")
    table.upsert(pa.table({"id": [1], "d": [0.0]}))
    assert table.scan(where="d = -0.0").to_arrow().num_rows == 1


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize(
    ("scale", "unscaled"), [(0, 10**37 + 1), (10, -(10**38 - 1)), (38, 12345678901234567890123456789012345678)]
)
def test_partitions_of_long_decimals(tmp_path: Path, legacy: str, scale: int, unscaled: int) -> None:
    """The directory has every digit, and the rows come back."""
    value = Decimal(unscaled).scaleb(-scale, _EXACT)
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        table_spec(
            [{"name": "d", "type": f"DECIMAL(38, {scale})"}, {"name": "id", "type": "INT"}],
            ["d", "id"],
            partitions=["d"],
            options={"bucket": "1", "partition.legacy-name": legacy},
        ),
    )
    table.upsert(pa.table({"d": pa.array([value], pa.decimal128(38, scale)), "id": [1]}))
    assert table.scan().to_arrow().to_pylist() == [{"d": value, "id": 1}]
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = ("-" if unscaled < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)
    assert (tmp_path / "d.db" / "t" / f"d={text}").is_dir()


# Nanoseconds of the first microsecond that 64 bits have: rounded down, Arrow's floor made the last moment of them.

EARLIEST = -(2**63) + 1
MOMENTS = [EARLIEST, -1_000_000_001, -1, 0, 1, 999, 1000, 2**63 - 1, None]


@pytest.mark.parametrize(("unit", "by"), [("us", 1000), ("ms", 10**6), ("s", 10**9)])
def test_moments_are_rounded_down(unit: str, by: int) -> None:
    found = floor_moments(pa.array(MOMENTS, pa.timestamp("ns", "UTC")), unit)
    assert found.type == pa.timestamp(unit, "UTC")
    assert found.cast(pa.int64()).to_pylist() == [None if m is None else m // by for m in MOMENTS]


def test_spark_reads_them_and_a_row_of_then_is_too_old() -> None:
    schema = new_schema(
        {"fields": [{"name": "id", "type": "INT"}, {"name": "t", "type": "TIMESTAMP(9)"},
                    {"name": "m", "type": {"type": "MAP", "key": "INT", "value": "TIMESTAMP(9)"}}],
         "primaryKeys": ["id"],
         "options": {"record-level.expire-time": "1 d", "record-level.time-field": "t", "bucket": "1"}}
    )  # fmt: skip
    moments = pa.array([EARLIEST], pa.timestamp("ns"))
    rows = pa.table({"id": pa.array([1], pa.int32()), "t": moments,
                     "m": pa.MapArray.from_arrays([0, 1], pa.array([1], pa.int32()), moments)})  # fmt: skip
    shown = to_spark(rows, arrow_schema(spark_schema(schema.fields)))
    assert shown.column("t").cast(pa.int64()).to_pylist() == [EARLIEST // 1000]
    rule = record_expiry(schema, now_ms=1_700_000_000_000)
    assert rule is not None
    assert rule.keeps(rows).to_pylist() == [False]


# A time of the year 9999 under a column widened to TIMESTAMP(9) was called a damaged file.


@pytest.mark.parametrize(
    ("old", "value"),
    [
        ("TIMESTAMP(3)", datetime(9999, 12, 31)),
        ("TIMESTAMP(6)", datetime(1, 1, 1)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", datetime(9999, 12, 31)),
        ("DATE", date(9999, 12, 31)),
    ],
)
def test_the_column_is_named_and_the_others_are_read(tmp_path: Path, old: str, value: datetime) -> None:
    """UnsupportedError with the column; other columns are there, and a value that fits is right."""
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t",
        table_spec([{"name": "id", "type": "INT"}, {"name": "t", "type": old}], ["id"], options={"bucket": "1"}),
    )
    table.upsert(pa.table({"id": [1], "t": pa.array([value])}))
    folder = tmp_path / "d.db" / "t" / "schema"
    schema = json.loads((folder / "schema-0").read_text())
    schema["id"] = 1
    schema["fields"][1]["type"] = old.replace("(3)", "(9)").replace("(6)", "(9)").replace("DATE", "TIMESTAMP(9)")
    (folder / "schema-1").write_text(json.dumps(schema))
    table = lakeidx.Table.open(f"{tmp_path}/d.db/t")
    with pytest.raises(UnsupportedError, match=r"column 't' changed from .* beyond the years 1677 to 2262"):
        table.scan().to_arrow()
    assert table.scan(columns=["id"]).to_arrow().to_pylist() == [{"id": 1}]
    table.upsert(pa.table({"id": [1], "t": pa.array([datetime(2024, 1, 2)], pa.timestamp("us"))}))
    assert table.scan(columns=["id"]).to_arrow().num_rows == 1
