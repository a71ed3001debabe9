"""Arrow IPC, ORC and Avro landing files: layouts, codecs, types by their names in the file; damage is one error."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pytest

from lakeidx.api.inference.start import create_from_files
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError
from lakeidx.landing.read import LandingOptions, read_landing
from lakeidx.storage import LocalStore
from lakeidx.types import Field, parse_type

FIELDS = [Field(0, "k", parse_type("BIGINT NOT NULL")), Field(1, "v", parse_type("STRING"))]
ROWS = pa.table({"k": pa.array([1, 2, 3, 4], pa.int64()), "v": ["a", None, "c", "a"]})


def write(path: Path, table: pa.Table, *, stream: bool, compression: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=3)


def read(path: Path) -> tuple[list[dict[str, object]], list[int]]:
    pieces = list(read_landing(LocalStore(), str(path), FIELDS, LandingOptions()))
    return [row for p in pieces for row in p.rows.to_pylist()], [p.first_line for p in pieces]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize(("name", "stream"), [("a.arrow", False), ("a.arrows", True), ("a.feather", False)])
def test_rows_and_their_numbers(tmp_path: Path, name: str, stream: bool, compression: str | None) -> None:
    write(tmp_path / name, ROWS, stream=stream, compression=compression)
    rows, first_lines = read(tmp_path / name)
    assert rows == [{"k": 1, "v": "a"}, {"k": 2, "v": None}, {"k": 3, "v": "c"}, {"k": 4, "v": "a"}]
    assert first_lines == [1, 4]


def test_dictionaries_are_decoded(tmp_path: Path) -> None:
    encoded = ROWS.set_column(1, "v", ROWS.column("v").dictionary_encode())
    write(tmp_path / "a.arrow", encoded, stream=False)
    assert [r["v"] for r in read(tmp_path / "a.arrow")[0]] == ["a", None, "c", "a"]


def test_columns_are_checked(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", ROWS.append_column("x", ROWS.column("k")), stream=False)
    with pytest.raises(InvalidInputError, match="columns the table does not have: x"):
        read(tmp_path / "a.arrow")
    write(tmp_path / "a.arrow", ROWS.select(["v"]), stream=False)
    with pytest.raises(InvalidInputError, match="lacks the required columns k"):
        read(tmp_path / "a.arrow")


def outcome(path: Path) -> int | LakeIdxError:
    """Rows read, or the error."""
    try:
        return len(read(path)[0])
    except LakeIdxError as error:
        return error


_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
_INNER = {"type": "record", "name": "inner", "fields": [
    {"name": "prices", "type": {"type": "map", "values": ["null", _MONEY]}},
    {"name": "again", "type": ["null", "inner_part"]}]}  # fmt: skip
_PART = {
    "type": "record",
    "name": "inner_part",
    "fields": [{"name": "on", "type": {"type": "int", "logicalType": "date"}}],
}
_AVRO = [
    ("id", "long", 7, "BIGINT NOT NULL", 7),
    ("at", ["null", {"type": "long", "logicalType": "timestamp-micros"}], dt.datetime(2026, 3, 1, 2, tzinfo=dt.UTC),
     "TIMESTAMP(6) WITH LOCAL TIME ZONE", dt.datetime(2026, 3, 1, 2, tzinfo=dt.UTC)),
    ("here", {"type": "long", "logicalType": "local-timestamp-millis"}, dt.datetime(9999, 12, 31), "TIMESTAMP(3)",
     dt.datetime(9999, 12, 31)),
    ("clock", {"type": "int", "logicalType": "time-millis"}, dt.time(8, 30), "TIME(3)", dt.time(8, 30)),
    ("money", _MONEY, Decimal("-12.50"), "DECIMAL(12, 2)", Decimal("-12.50")),
    ("fixed", {"type": "fixed", "name": "f16", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 0}, Decimal(5),
     "DECIMAL(20, 0)", Decimal(5)),
    ("state", {"type": "enum", "name": "state", "symbols": ["NEW", "OLD"]}, "OLD", "STRING", "OLD"),
    ("uid", {"type": "string", "logicalType": "uuid"}, "7f1c1a5e-3c7f-4d9f-9c57-0e9f1f0b1c2d", "STRING",
     "7f1c1a5e-3c7f-4d9f-9c57-0e9f1f0b1c2d"),
    ("part", _PART, {"on": dt.date(1969, 12, 31)}, "ROW<on DATE>", {"on": dt.date(1969, 12, 31)}),
    ("deep", ["null", {"type": "array", "items": _INNER}], [{"prices": {"a": Decimal("1.25"), "b": None}, "again": None}],
     "ARRAY<ROW<prices MAP<STRING NOT NULL, DECIMAL(12, 2)>, again ROW<on DATE>>>",
     [{"prices": [("a", Decimal("1.25")), ("b", None)], "again": None}]),
]  # fmt: skip


def write_avro(path: Path, columns: list[Any], rows: list[Any], codec: str = "deflate") -> None:
    fields = [{"name": name, "type": t} for name, t in columns]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "namespace": "x.y", "fields": fields}, rows, codec=codec)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_avro_has_the_types_that_its_schema_says(tmp_path: Path, codec: str) -> None:
    row = {name: value for name, _, value, *_ in _AVRO}
    write_avro(
        tmp_path / "a.avro", [(name, t) for name, t, *_ in _AVRO], [{**row, "id": i} for i in range(4_000)], codec
    )
    table, *_ = create_from_files(f"{tmp_path}/d.db/t", [f"{tmp_path}/a.avro"], key=["id"])
    assert {f.name: str(f.type) for f in table.schema.fields} == {name: t for name, _, _, t, _ in _AVRO}
    found = table.scan().to_arrow()
    assert found.num_rows == 4_000
    assert found.slice(7, 1).to_pylist() == [{name: value for name, *_, value in _AVRO}]


def test_a_union_of_several_types_is_refused_unless_it_is_left_out(tmp_path: Path) -> None:
    columns = [("k", "long"), ("v", ["null", "string"]), ("u", [{"type": "array", "items": ["int", "string"]}, "null"])]
    write_avro(tmp_path / "a.avro", columns, [{"k": 1, "v": "a", "u": [1, "b"]}])
    fields = [*FIELDS, Field(2, "u", parse_type("STRING"))]
    with pytest.raises(InvalidInputError, match="column u has values of several types"):
        list(read_landing(LocalStore(), f"{tmp_path}/a.avro", fields, LandingOptions()))
    for options in (LandingOptions(ignore_extra=True), LandingOptions(columns={"u": None})):
        (piece,) = read_landing(LocalStore(), f"{tmp_path}/a.avro", FIELDS, options)
        assert piece.rows.to_pylist() == [{"k": 1, "v": "a"}]


def test_orc_is_read_by_stripes(tmp_path: Path) -> None:
    rows = pa.table({"v": [f"text {i}" * 20 for i in range(20_000)], "k": pa.array(range(20_000), pa.int64())})
    pyarrow.orc.write_table(rows, f"{tmp_path}/a.orc", stripe_size=65_536, compression="zlib")
    found, first_lines = read(tmp_path / "a.orc")
    assert found == rows.to_pylist()
    assert first_lines[0] == 1
    assert len(first_lines) == pyarrow.orc.ORCFile(f"{tmp_path}/a.orc").nstripes > 1


def test_orc_with_times_that_arrow_does_not_read_names_the_column(tmp_path: Path) -> None:
    far = pa.array([dt.datetime(2026, 11, 1), dt.datetime(2500, 1, 1)], pa.timestamp("us"))
    pyarrow.orc.write_table(pa.table({"k": [1, 2], "v": ["a", "b"], "t": far}), f"{tmp_path}/a.orc")
    fields = [*FIELDS, Field(2, "t", parse_type("TIMESTAMP(6)"))]
    with pytest.raises(InvalidInputError, match=r"a\.orc: column t has times beyond the years 1677 to 2262"):
        list(read_landing(LocalStore(), f"{tmp_path}/a.orc", fields, LandingOptions()))
    (piece,) = read_landing(LocalStore(), f"{tmp_path}/a.orc", fields, LandingOptions(columns={"t": None}))
    assert piece.rows.select(["k", "v"]).to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrow", "arrows", "avro", "orc"])
def test_damage_is_one_error(tmp_path: Path, kind: str) -> None:
    path, stream = tmp_path / f"a.{kind}", kind in ("arrows", "avro")
    if kind == "avro":
        write_avro(path, [("k", "long"), ("v", ["null", "string"])], ROWS.to_pylist())
    elif kind == "orc":
        pyarrow.orc.write_table(ROWS, str(path))
    else:
        write(path, ROWS, stream=stream)
    whole = path.read_bytes()
    for cut in range(1, len(whole) - 8, 13):
        path.write_bytes(whole[:cut])
        found = outcome(path)
        if isinstance(found, int):
            # A stream may end after any of its batches, a file may not.
            assert stream, cut
            assert found in (0, 3, 4), cut
        else:
            assert isinstance(found, CorruptFileError), cut
            assert found.path == str(path), cut
    for i in range(len(whole)):
        flipped = bytearray(whole)
        flipped[i] ^= 0x41
        path.write_bytes(flipped)
        assert "\n" not in str(outcome(path)), i
