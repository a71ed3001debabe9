"""Values taken out of pages one by one: the same as Arrow reads, in every encoding, and never a crash on damage."""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet import picked
from lakeidx.data.parquet.row_groups import ParquetSource
from lakeidx.errors import CorruptFileError
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.point.kept_pages import KeptPages
from lakeidx.storage.local import LocalStore

ROWS = 3000
CODECS = ("zstd", "none", "snappy", "gzip", "lz4", "brotli")


@cache
def columns(*, nulls: bool) -> pa.Table:
    some = np.random.default_rng(7)

    def made(values: Any, t: pa.DataType) -> pa.Array:
        values = values.tolist() if isinstance(values, np.ndarray) else values
        if not nulls:
            return pa.array(list(values), t)
        # Runs of nulls and of values, and stretches where they alternate.
        gone = (some.random(ROWS) < 0.5) & (np.arange(ROWS) // 250 % 2 == 0) | (np.arange(ROWS) // 500 == 3)
        return pa.array([None if g else v for v, g in zip(values, gone, strict=True)], t)

    day = datetime.date(1970, 1, 1)
    wide = some.integers(-(2**63), 2**63 - 1, ROWS)
    return pa.table({
        "rising": made(np.cumsum(some.integers(0, 9, ROWS)), pa.int64()),
        "wide": made(wide, pa.int64()),
        "same": made(np.full(ROWS, -5), pa.int64()),
        "narrow": made(some.integers(-(2**31), 2**31 - 1, ROWS), pa.int32()),
        "short": made(some.integers(-300, 300, ROWS), pa.int16()),
        "tiny": made(some.integers(-9, 9, ROWS), pa.int8()),
        "day": made([day + datetime.timedelta(int(n)) for n in some.integers(-9999, 9999, ROWS)], pa.date32()),
        "at": made(some.integers(-(10**12), 10**12, ROWS), pa.timestamp("us")),
        "clock": made(some.integers(0, 86_400_000, ROWS), pa.time32("ms")),
        "money": made([Decimal(int(n)).scaleb(-2) for n in wide // 100], pa.decimal128(18, 2)),
        "price": made([Decimal(int(n)).scaleb(-2) for n in some.integers(-(10**8), 10**8, ROWS)], pa.decimal128(9, 2)),
        "d": made(some.standard_normal(ROWS), pa.float64()),
        "f": made(some.standard_normal(ROWS).astype(np.float32), pa.float32()),
        "text": made([f"{'long ' * int(n)}{i}" for i, n in enumerate(some.integers(0, 9, ROWS))], pa.string()),
        "few": made(some.choice(["", "a", "bc", "ü"], ROWS).tolist(), pa.string()),
        "raw": made([bytes([i % 256]) * (i % 5) for i in range(ROWS)], pa.binary()),
    })  # fmt: skip


def write(path: Path, table: pa.Table, **options: Any) -> None:
    pq.write_table(
        table, path, store_schema=False, write_page_index=True, store_decimal_as_integer=True,
        **{"max_rows_per_page": 170, "write_page_checksum": True, **options},
    )  # fmt: skip


def picks(path: Path, rows: npt.NDArray[np.int64], *, encodings_known: bool = True) -> dict[str, pa.Array | None]:
    source = ParquetSource(LocalStore(), str(path))
    found = {}
    for name in source.schema.names:
        chunk = source.chunk(0, name)
        assert chunk is not None, name
        (found[name],), _ = picked.pick(pa.OSFile(str(path)), [[chunk]], rows)
        assert (found[name] is not None) or not encodings_known, name
    return found


def check(path: Path, table: pa.Table) -> None:
    some = np.random.default_rng(3)
    for rows in (np.array([0]), np.array([ROWS - 1]), np.arange(ROWS), np.unique(some.integers(0, ROWS, 40))):
        expected = pq.read_table(path).take(pa.array(rows))
        assert expected.equals(table.take(pa.array(rows)).cast(expected.schema))
        for name, values in picks(path, rows).items():
            assert values is not None
            values.validate(full=True)
            assert values.equals(expected.column(name).combine_chunks()), (name, len(rows))


@pytest.mark.slow
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_values_are_those_that_arrow_reads(tmp_path: Path, dictionary: bool, version: str, nulls: bool) -> None:
    table = columns(nulls=nulls)
    if not nulls:
        table = table.cast(pa.schema([f.with_nullable(False) for f in table.schema]))
    write(tmp_path / "f.parquet", table, use_dictionary=dictionary, data_page_version=version, compression="zstd")
    check(tmp_path / "f.parquet", table)


@pytest.mark.slow
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("size", [170, 1, 128, 129, 2000])
def test_delta_encoded_numbers(tmp_path: Path, size: int, nulls: bool) -> None:
    table = columns(nulls=nulls)
    whole = [f.name for f in table.schema if not pa.types.is_floating(f.type) and f.name not in ("text", "few", "raw")]
    table = table.select(whole)
    if size == 1:
        table = table.slice(0, 300)
        table = pa.concat_tables([table] * (ROWS // 300))
    write(
        tmp_path / "f.parquet", table, use_dictionary=False, column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        max_rows_per_page=size,
    )  # fmt: skip
    check(tmp_path / "f.parquet", table)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_rows_are_picked_from_pages_of_every_codec(tmp_path: Path, version: str, codec: str) -> None:
    table = columns(nulls=True).select(["rising", "text", "few"])
    write(tmp_path / "f.parquet", table, compression=codec, data_page_version=version)
    check(tmp_path / "f.parquet", table)


def test_a_dictionary_that_became_too_large(tmp_path: Path) -> None:
    # The first pages refer to it, the others hold their values themselves.
    table = columns(nulls=True).select(["text", "wide", "d"])
    write(tmp_path / "f.parquet", table, dictionary_pagesize_limit=8000, write_batch_size=100)
    encodings = pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(0).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    check(tmp_path / "f.parquet", table)


def test_other_encodings_are_left_to_arrow(tmp_path: Path) -> None:
    table = columns(nulls=False).select(["text", "d"])
    other = {"text": "DELTA_LENGTH_BYTE_ARRAY", "d": "BYTE_STREAM_SPLIT"}
    write(tmp_path / "f.parquet", table, use_dictionary=False, column_encoding=other)
    assert picks(tmp_path / "f.parquet", np.array([5]), encodings_known=False) == {"text": None, "d": None}


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 1 << 23])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("options", [
    {"compression": "zstd"},
    {"compression": "none", "use_dictionary": False},
    {"compression": {"rising": "zstd", "text": "snappy", "few": "gzip"}, "data_page_version": "2.0"},
    {"dictionary_pagesize_limit": 8000, "write_batch_size": 100},
    {"use_dictionary": False,
     "column_encoding": {"d": "BYTE_STREAM_SPLIT", "raw": "DELTA_BYTE_ARRAY", "wide": "DELTA_BINARY_PACKED"}},
])  # fmt: skip
def test_all_columns_of_several_row_groups_at_once(
    tmp_path: Path, options: dict[str, Any], nulls: bool, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picked, "_TOGETHER_BYTES", together)
    path, some = str(tmp_path / "f.parquet"), np.random.default_rng(4)
    table = columns(nulls=nulls)
    write(Path(path), table, row_group_size=700, **options)
    source, kept = ParquetSource(LocalStore(), path), KeptPages(BlockCache(400_000))
    chunks = [[source.chunk(g, n) for g in range(source.groups)] for n in table.column_names]
    other = {n for n, e in options.get("column_encoding", {}).items() if e != "DELTA_BINARY_PACKED"}
    for size in (1, 5, 60, ROWS):
        rows = np.unique(some.integers(0, ROWS, size)) if size < ROWS else np.arange(ROWS)
        expected = pq.read_table(path).take(pa.array(rows))
        arrays, read = picked.pick(pa.OSFile(path), chunks, rows, kept)  # type: ignore[arg-type]
        assert read > 0
        for name, array in zip(table.column_names, arrays, strict=True):
            assert (array is None) == (name in other)
            if array is not None:
                array.validate(full=True)
                assert array.equals(expected.column(name).combine_chunks()), (name, size)


@pytest.mark.parametrize("name", ["wide decimal", "truth", "list"])
def test_other_types_are_left_to_arrow(tmp_path: Path, name: str) -> None:
    values = {
        "wide decimal": pa.array([Decimal(1)], pa.decimal128(20, 0)), "truth": pa.array([True]), "list": pa.array([[1]])
    }  # fmt: skip
    write(tmp_path / "f.parquet", pa.table({"c": values[name]}))
    assert ParquetSource(LocalStore(), str(tmp_path / "f.parquet")).chunk(0, "c") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rising", "text", "few", "d", "narrow"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_flipped_byte_is_refused_where_there_are_checksums(tmp_path: Path, version: str, name: str) -> None:
    path = tmp_path / "f.parquet"
    table = columns(nulls=True).select([name]).slice(0, 200)
    write(path, table, data_page_version=version, max_rows_per_page=60)
    source = ParquetSource(LocalStore(), str(path))
    chunk = source.chunk(0, name)
    assert chunk is not None
    raw = path.read_bytes()
    rows = np.arange(0, 200, 7)
    (expected,), _ = picked.pick(pa.BufferReader(raw), [[chunk]], rows)
    for at in range(chunk.place.start, chunk.place.start + chunk.place.size):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << at % 8
        try:
            (answer,), _ = picked.pick(pa.BufferReader(bytes(damaged)), [[chunk]], rows)
        except CorruptFileError:
            continue
        # What a header says beside what is needed, such as statistics; or an encoding that is none of these.
        assert answer is None or answer.equals(expected)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BINARY_PACKED", "dictionary"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_damage_without_checksums_is_an_error_or_another_value(tmp_path: Path, version: str, encoding: str) -> None:
    path = tmp_path / "f.parquet"
    table = (
        columns(nulls=True).select(["rising", "few"] if encoding != "DELTA_BINARY_PACKED" else ["rising"]).slice(0, 200)
    )
    options: dict[str, Any] = {"use_dictionary": encoding == "dictionary"}
    if not options["use_dictionary"]:
        options["column_encoding"] = dict.fromkeys(table.column_names, encoding)
    write(path, table, data_page_version=version, max_rows_per_page=60, write_page_checksum=False,
          compression="none", **options)  # fmt: skip
    raw, rows = path.read_bytes(), np.arange(0, 200, 7)
    source = ParquetSource(LocalStore(), str(path))
    for name in table.column_names:
        chunk = source.chunk(0, name)
        assert chunk is not None
        for at in range(chunk.place.start, chunk.place.start + chunk.place.size):
            for flip in (1 << at % 8, 0xFF):
                damaged = bytearray(raw)
                damaged[at] ^= flip
                try:
                    (answer,), _ = picked.pick(pa.BufferReader(bytes(damaged)), [[chunk]], rows)
                except CorruptFileError:
                    continue
                assert answer is None or len(answer) == len(rows)
