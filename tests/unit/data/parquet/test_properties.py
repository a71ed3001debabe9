"""Table options as writer settings, and the encoding that each column gets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.properties import DEFAULT_ROW_GROUP_BYTES, parquet_properties
from lakeidx.errors import InvalidInputError
from lakeidx.options.table_options import TableOptions
from tests.unit.data.tables import kv_table, table_schema, write_file

COLUMNS = {"k": "BIGINT NOT NULL", "few": "INT", "many": "INT", "s": "STRING", "u": "STRING", "dec": "DECIMAL(12, 2)",
           "a": {"type": "ARRAY", "element": "INT"}, "b": "BOOLEAN"}  # fmt: skip


def encodings(tmp_path: Path, options: dict[str, str]) -> dict[str, set[str]]:
    schema = table_schema(COLUMNS, options=options)
    rows = [(i, i % 3, i * 7919, f"s{i % 4}", f"u{i}", None, [i, i + 1], i % 2 == 0) for i in range(3000)]
    file = write_file(kv_table(schema, rows), schema, tmp_path)
    group = pq.read_metadata(tmp_path / file.file_name).row_group(0)
    return {c.path_in_schema: set(c.encodings) - {"RLE"} for c in map(group.column, range(group.num_columns))}


def test_columns_get_what_suits_their_values(tmp_path: Path) -> None:
    delta, dictionary, plain = {"DELTA_BINARY_PACKED"}, {"PLAIN_DICTIONARY"}, {"PLAIN"}
    assert encodings(tmp_path, {}) == {
        "_KEY_k": delta, "_SEQUENCE_NUMBER": delta, "_VALUE_KIND": dictionary, "k": delta, "few": dictionary, "many": delta,
        "s": dictionary, "u": plain, "dec": dictionary, "a.list.element": delta, "b": plain,
    }  # fmt: skip


def test_parquet_1_has_no_delta_and_switches_settle_the_dictionary(tmp_path: Path) -> None:
    old = encodings(tmp_path, {"parquet.writer.version": "PARQUET_1_0"})
    assert not any("DELTA_BINARY_PACKED" in e for e in old.values())
    none = encodings(tmp_path, {"parquet.enable.dictionary": "false", "parquet.enable.dictionary#u": "true"})
    assert [c for c, e in none.items() if "PLAIN_DICTIONARY" in e] == ["u"]


@pytest.mark.parametrize(
    ("options", "delta"),
    [
        ({"file-index.bloom-filter.columns": "k"}, True), ({"file-index.bitmap.columns": "k"}, False),
        ({"file-index.bsi.columns": "k"}, False), ({"file-index.range-bitmap.columns": "k"}, False),
        ({"file-index.plugged-in.columns": "k"}, False), ({"deletion-vectors.enabled": "true"}, False),
        ({"file-index.bloom-filter.columns": "k", "file-index.bitmap.columns": "few"}, False),
    ],
)  # fmt: skip
def test_pages_that_java_picks_rows_from_are_not_delta(options: dict[str, str], delta: bool) -> None:
    assert parquet_properties(TableOptions(options), compression="zstd").delta is delta


def test_options_are_read() -> None:
    raw = {
        "file.block-size": "1 mb", "parquet.page.size": "64 kb", "parquet.page.row.count.limit": "500",
        "parquet.compression#s": "gzip",
        "parquet.bloom.filter.enabled#s": "true", "parquet.bloom.filter.expected.ndv#s": "77", "parquet.bloom.filter.fpp": "0.05",
        "parquet.page.write-checksum.enabled": "false", "file.compression.zstd-level": "3",
    }  # fmt: skip
    found = parquet_properties(TableOptions(raw), compression="zstd")
    assert (found.row_group_bytes, found.page_bytes, found.page_rows, found.checksum) == (1 << 20, 64 << 10, 500, False)
    rows = pa.table({"s": ["x", "y"], "i": [1, 2]})
    arguments = found.settle(rows.schema).arguments(rows)
    assert arguments["compression"] == {"s": "GZIP", "i": "ZSTD"}
    assert arguments["compression_level"] == {"i": 3}
    assert arguments["bloom_filter_options"] == {"s": {"ndv": 77, "fpp": 0.05}}
    default = parquet_properties(TableOptions({}), compression="zstd")
    assert (default.row_group_bytes, default.checksum, default.codec) == (DEFAULT_ROW_GROUP_BYTES, True, "ZSTD")


@pytest.mark.skipif(
    not hasattr(pq.ColumnChunkMetaData, "bloom_filter_offset"), reason="PyArrow 24 does not say where they are"
)
def test_bloom_filters_are_in_the_file(tmp_path: Path) -> None:
    schema = table_schema(
        COLUMNS, options={"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.enabled#u": "false"}
    )
    rows = [(i, i, i, "s", "u", None, [i], True) for i in range(10)]
    file = write_file(kv_table(schema, rows), schema, tmp_path)
    group = pq.read_metadata(tmp_path / file.file_name).row_group(0)
    have = {c.path_in_schema: c.bloom_filter_offset is not None for c in map(group.column, range(group.num_columns))}
    assert [name for name, there in have.items() if not there] == ["u", "b"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parquet.page.size", "big"), ("parquet.bloom.filter.fpp", "2"), ("parquet.enable.dictionary", "maybe"),
        ("parquet.writer.version", "3"), ("parquet.bloom.filter.expected.ndv#c", "x"),
    ],
)  # fmt: skip
def test_bad_values_name_the_option(key: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=key.split("#")[0].replace(".", r"\.")):
        parquet_properties(TableOptions({key: value}), compression="zstd")


def test_an_unknown_codec_names_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="zstd"):
        parquet_properties(TableOptions({}), compression="rar")
