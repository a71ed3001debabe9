"""Values at the ends of their types and beyond: each is stored as it is, or its row is rejected with the reason, at every door.

Nanoseconds without pandas and years that Python does not have ended in a traceback where the row was to be shown; times of day of
24 hours and more, or below zero, were stored.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from lakeidx import Table
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import cast_column
from lakeidx.landing.read import LandingOptions
from lakeidx.types import parse_type, to_arrow

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


#: Type, Arrow type, values that are stored and values that are not; all as integers of the Arrow type.
ENDS: list[tuple[str, pa.DataType, list[int], list[int]]] = [
    ("TIME(3)", pa.time32("s"), [0, 86_399], [-1, 86_400]),
    ("TIME(3)", pa.time32("ms"), [0, 86_399_999], [-1, 86_400_000, 2**31 - 1, -(2**31)]),
    ("TIME(3)", pa.time64("us"), [0, 86_399_999_000], [-1000, 1, 86_400_000_000, 2**63 - 1, -(2**63)]),
    ("TIME(3)", pa.time64("ns"), [86_399_999_000_000], [-1_000_000, 86_400_000_000_000, 2**63 - 1]),
    ("DATE", pa.date32(), [-719_162, 2_932_896], [-719_163, 2_932_897, 2**31 - 1, -(2**31)]),
    ("DATE", pa.date64(), [-719_162 * 86_400_000, 0], [1, 2_932_897 * 86_400_000]),
    ("DATE", pa.timestamp("us"), [FIRST * 10**6], [1, END * 10**6, 2**63 - 1]),
    ("DATE", pa.timestamp("ns"), [0], [1, 2**63 - 1]),
]


@pytest.mark.parametrize("nested", ["", "ROW", "ARRAY", "MAP", "deep"])
@pytest.mark.parametrize(("text", "arrow", "good", "bad"), ENDS, ids=lambda v: str(v)[:12])
def test_days_and_times_of_day(text: str, arrow: pa.DataType, good: list[int], bad: list[int], nested: str) -> None:
    storage = pa.int32() if arrow.bit_width == 32 else pa.int64()
    column = pa.array([*good, None, *bad], storage).cast(arrow)
    t: Any = text
    if nested in ("ARRAY", "deep"):
        offsets = pa.array(range(len(column) + 1), pa.int32())
        column, t = pa.ListArray.from_arrays(offsets, column), {"type": "ARRAY", "element": t}
    if nested == "MAP":
        keys, offsets = pa.array(["k"] * len(column)), pa.array(range(len(column) + 1), pa.int32())
        column, t = pa.MapArray.from_arrays(offsets, keys, column), {"type": "MAP", "key": "STRING", "value": t}
    if nested in ("ROW", "deep"):
        column = pa.StructArray.from_arrays([column], ["f"])
        t = {"type": "ROW", "fields": [{"id": 0, "name": "f", "type": t}]}
    for values in (column, column.dictionary_encode() if not nested else column):
        cast = cast_column(values, parse_type(t))
        assert cast.values.type == to_arrow(parse_type(t))
        cast.values.validate(full=True)
        failed = [False] * len(column) if cast.failed is None else cast.failed.tolist()
        assert failed == [*(False for _ in good), False, *(True for _ in bad)]
        assert all(v is None for v in cast.values.slice(len(good) + 1).to_pylist())


SPEC: dict[str, Any] = {
    "fields": [
        {"name": "k", "type": "INT"},
        {"name": "s", "type": "TIMESTAMP(0)"},
        {"name": "u", "type": "TIMESTAMP(6)"},
        {"name": "n", "type": "TIMESTAMP(9)"},
        {"name": "t", "type": "TIME(3)"},
        {"name": "d", "type": "DATE"},
    ],
    "primaryKeys": ["k"],
    "partitionKeys": [],
    "options": {"bucket": "1"},
}
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
