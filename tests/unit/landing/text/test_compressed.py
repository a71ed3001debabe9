"""Texts as gzip and Zstandard: the rows of the plain file, whatever the blocks; damage is one error with file and offset."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.landing.read import LandingOptions, landing_format, read_landing
from lakeidx.storage import LocalStore
from lakeidx.types import Field, parse_type

FIELDS = [Field(0, "k", parse_type("BIGINT")), Field(1, "v", parse_type("STRING"))]
CSV = b"k,v\n" + b"".join(b"%d,text %d\n" % (i, i * i) for i in range(5000))
LINES = b"".join(b'{"k": %d, "v": "text %d"}\n' % (i, i * i) for i in range(5000))
EXPECTED = [(i, f"text {i * i}") for i in range(5000)]


def packed(data: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(data)
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def rows_of(path: Path) -> list[tuple[int, str]]:
    tables = [p.rows for p in read_landing(LocalStore(), str(path), FIELDS, LandingOptions())]
    columns = pa.concat_tables(tables).select(["k", "v"])
    return [(int(k), v) for k, v in zip(*(c.to_pylist() for c in columns.columns), strict=True)]


@pytest.mark.parametrize("ending", [".gz", ".zst", ".GZ"])
@pytest.mark.parametrize(("name", "data"), [("a.csv", CSV), ("a.jsonl", LINES)])
def test_rows_are_those_of_the_plain_file(tmp_path: Path, name: str, data: bytes, ending: str) -> None:
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(packed(data, ending.lower()))
    assert rows_of(path) == EXPECTED


def test_a_file_of_several_gzip_members_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    half = CSV.index(b"\n", len(CSV) // 2) + 1
    path.write_bytes(gzip.compress(CSV[:half]) + gzip.compress(CSV[half:]))
    assert rows_of(path) == EXPECTED


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("cut", [1, 7, 0.5, -5, -1])
def test_a_file_that_was_cut_off_is_named_with_the_offset(tmp_path: Path, ending: str, cut: float) -> None:
    path = tmp_path / f"a.csv{ending}"
    whole = packed(CSV, ending)
    path.write_bytes(whole[: int(len(whole) * cut) if isinstance(cut, float) else cut])
    with pytest.raises(CorruptFileError, match=r"not a whole (gzip|zstd) file") as caught:
        rows_of(path)
    assert caught.value.path == str(path)
    assert caught.value.offset is not None


@pytest.mark.slow
def test_memory_follows_the_piece_not_the_file(tmp_path: Path) -> None:
    """A small file may unpack to far more than memory should hold."""
    path = tmp_path / "a.csv.gz"
    record = b"1," + b"x" * 998 + b"\n"
    path.write_bytes(gzip.compress(b"k,v\n" + record * 100_000, compresslevel=1))
    assert path.stat().st_size < 2 << 20
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for piece in read_landing(LocalStore(), str(path), FIELDS, LandingOptions()):
        most = max(most, pa.total_allocated_bytes() - before)
        rows += piece.rows.num_rows
    assert rows == 100_000
    assert most < 40 << 20


def test_formats_that_compress_themselves_come_plain() -> None:
    with pytest.raises(InvalidInputError, match="parquet files compress their columns themselves"):
        landing_format("a.parquet.gz", LandingOptions())
    assert landing_format("a.csv.zst", LandingOptions()) == "csv"
