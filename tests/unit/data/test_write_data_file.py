"""Writing data files: layout, rolling, metadata, hooks, and what happens when it goes wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.codec.rows.binary_row import split_arity, with_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.data.read_data_file import read_data_file
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.schema.schema_file import TableSchema
from tests.unit.data.tables import STORE, kv_rows_of, kv_table, plain_table, table_schema

COLUMNS = {"v": "STRING", "k": "INT NOT NULL", "d": "DOUBLE"}


def noise(i: int) -> str:
    """Text that does not compress to less than half."""
    return hashlib.sha256(str(i).encode()).hexdigest()


def write(tables: Any, schema: TableSchema, folder: Path, **more: Any) -> list[DataFileMeta]:
    return DataFileWriter(schema, store=STORE, bucket_dir=str(folder), names=NewFileNames("u"), **more).write_all(
        tables
    )


def read(schema: TableSchema, folder: Path, file: DataFileMeta) -> pa.Table:
    return pa.concat_tables(read_data_file(STORE, f"{folder}/{file.file_name}", file, schema, schema))


def names_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_and_what_is_said_of_it(tmp_path: Path) -> None:
    schema = table_schema(COLUMNS)
    rows = [("a", -3, 1.5), (None, 0, None), ("c", 12, -1.0)]
    table = kv_table(schema, rows, first_sequence=7, kinds=[0, 3, 2])
    (file,) = write(
        [table.slice(0, 1), table.slice(1, 0), table.slice(1)],
        schema,
        tmp_path,
        level=4,
        file_source=FileSource.COMPACT,
    )
    assert names_in(tmp_path) == [file.file_name] == ["data-u-0.parquet"]
    assert file.file_size == (tmp_path / file.file_name).stat().st_size
    assert (file.row_count, file.delete_row_count, file.level, file.file_source) == (3, 1, 4, 1)
    assert (file.min_sequence_number, file.max_sequence_number, file.schema_id) == (7, 9, 0)
    types = schema.key_types
    assert (file.min_key, file.max_key) == tuple(with_arity(encode_row([k], types), 1) for k in (-3, 12))
    assert file.value_stats_cols is None
    assert file.value_stats.null_counts == (1, 0, 1)
    arity, row = split_arity(file.value_stats.max_values)
    assert decode_row(row, [f.type for f in schema.fields][:arity]) == ["c", 12, 1.5]
    assert read(schema, tmp_path, file).equals(table)
    columns = pq.ParquetFile(tmp_path / file.file_name)
    assert columns.schema_arrow.names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "k", "d"]
    assert columns.metadata.format_version == "1.0"
    assert not columns.metadata.metadata


@pytest.mark.slow
def test_files_roll_between_keys_at_the_target_size(tmp_path: Path) -> None:
    schema = table_schema({"k": "INT NOT NULL", "v": "STRING"})
    rows = [(i, noise(i)) for i in range(20_000)]
    table = kv_table(schema, rows)
    batches = [table.slice(i, 777) for i in range(0, len(rows), 777)]
    files = write(batches, schema, tmp_path, target_file_size=60_000)
    assert len(files) > 5
    assert names_in(tmp_path) == sorted(f.file_name for f in files)
    assert all(60_000 <= f.file_size < 120_000 for f in files[:-1])
    assert sum(f.row_count for f in files) == len(rows)
    keys = [decode_row(split_arity(k)[1], list(schema.key_types))[0] for f in files for k in (f.min_key, f.max_key)]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert pa.concat_tables([read(schema, tmp_path, f) for f in files]).equals(table)


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    schema = table_schema(COLUMNS)
    assert write([], schema, tmp_path) == []
    assert write([kv_table(schema, [])], schema, tmp_path) == []
    assert names_in(tmp_path) == []


def test_append_tables_number_their_rows_on(tmp_path: Path) -> None:
    schema = table_schema({"a": "INT", "b": "STRING"}, keys=())
    table = plain_table(schema, [(i, noise(i)) for i in range(9000)])
    files = write([table], schema, tmp_path, first_sequence=100, target_file_size=20_000)
    assert len(files) > 2
    spans = [(f.min_sequence_number, f.max_sequence_number) for f in files]
    assert spans[0][0] == 100
    assert [a for a, _ in spans[1:]] == [b + 1 for _, b in spans[:-1]]
    assert all(b - a + 1 == f.row_count for (a, b), f in zip(spans, files, strict=True))
    assert all((f.min_key, f.key_stats, f.delete_row_count) == (EMPTY_ROW, EMPTY_STATS, 0) for f in files)
    assert pa.concat_tables([read(schema, tmp_path, f) for f in files]).equals(table)


class Builder:
    """Collects what a hook is given."""

    def __init__(self, log: list[pa.Table]) -> None:
        self._log = log
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        self._log.append(table)

    def finish(self) -> Any:
        return b"embedded" if self._rows < 1000 else None, [(".index", f"{self._rows}".encode())]


class FooterBuilder(Builder):
    """Puts the number of rows into the footer."""

    def finish(self) -> Mapping[str, str]:
        return {"rows": str(self._rows)}


def test_index_and_footer_hooks_see_every_row_of_their_file(tmp_path: Path) -> None:
    schema = table_schema({"k": "INT NOT NULL", "v": "STRING"})
    table = kv_table(schema, [(i, noise(i)) for i in range(5500)])
    seen: list[pa.Table] = []
    files = write(
        [table],
        schema,
        tmp_path,
        target_file_size=30_000,
        index_builder=lambda: Builder(seen),
        footer_metadata=lambda: FooterBuilder([]),
    )
    assert len(files) > 2
    assert pa.concat_tables(seen).equals(table.select(["k", "v"]))
    for f in files:
        assert f.extra_files == (f"{f.file_name}.index",)
        assert (tmp_path / f.extra_files[0]).read_bytes() == str(f.row_count).encode()
        assert f.embedded_index == (b"embedded" if f.row_count < 1000 else None)
        assert pq.read_metadata(tmp_path / f.file_name).metadata == {b"rows": str(f.row_count).encode()}
        assert read(schema, tmp_path, f).num_rows == f.row_count


def test_nothing_stays_behind_when_the_rows_fail(tmp_path: Path) -> None:
    schema = table_schema({"k": "INT NOT NULL", "v": "STRING"})
    table = kv_table(schema, [(i, noise(i)) for i in range(9000)])

    def failing() -> Iterator[pa.Table]:
        yield table
        raise RuntimeError("the merge broke")

    with pytest.raises(RuntimeError, match="the merge broke"):
        write(
            failing(),
            schema,
            tmp_path,
            target_file_size=30_000,
            index_builder=lambda: Builder([]),
        )
    assert names_in(tmp_path) == []


def test_a_writer_that_is_left_before_its_end_removes_its_files(tmp_path: Path) -> None:
    schema = table_schema(COLUMNS, options={"target-file-size": "100 kb"})
    rows = kv_table(schema, [(noise(i), i, None) for i in range(6000)])
    with DataFileWriter(schema, store=STORE, bucket_dir=str(tmp_path), names=NewFileNames("u")) as writer:
        writer.write(rows)
    assert names_in(tmp_path) == []
    with DataFileWriter(schema, store=STORE, bucket_dir=str(tmp_path), names=NewFileNames("u")) as writer:
        for i in range(0, 6000, 700):
            writer.write(rows.slice(i, 700))
        made = writer.finish()
    assert names_in(tmp_path) == sorted(f.file_name for f in made)
    assert sum(f.row_count for f in made) == 6000


def test_rows_that_are_not_of_the_schema_are_refused(tmp_path: Path) -> None:
    schema = table_schema(COLUMNS)
    table = kv_table(schema, [("a", 1, 1.0)])
    with pytest.raises(InvalidInputError, match="expected the columns"):
        write([table.drop_columns(["d"])], schema, tmp_path)
    broken = table.set_column(3, "k", pa.array([None], pa.int32()))
    with pytest.raises(InvalidInputError, match=r"data-u-0\.parquet.*null"):
        write([broken], schema, tmp_path)
    wrong = table.set_column(2, "v", pa.array([[1]]))
    with pytest.raises(InvalidInputError, match="column 'v'"):
        write([wrong], schema, tmp_path)
    assert names_in(tmp_path) == []


def test_dictionary_columns_are_written_as_plain_strings(tmp_path: Path) -> None:
    schema = table_schema({"k": "INT NOT NULL", "v": "STRING", "w": "STRING"})
    plain = kv_table(schema, [(i, f"v{i % 3}" if i % 5 else None, f"{i}") for i in range(100)])
    at = plain.schema.get_field_index("v")
    encoded = plain.set_column(at, "v", plain.column("v").dictionary_encode())
    (wanted,) = write([plain.slice(6)], schema, tmp_path)
    # The first batch settles that v is a dictionary; later ones have other dictionaries, or none. Values that only the
    # dictionary of a slice holds do not count in statistics.
    for batches in (
        [encoded.slice(6, 34), encoded.slice(40, 10), plain.slice(50)],
        [plain.slice(6, 34), encoded.slice(40)],
        [encoded.slice(6)],
    ):
        (file,) = write(batches, schema, tmp_path)
        assert read(schema, tmp_path, file).equals(plain.slice(6))
        assert (file.value_stats, file.key_stats) == (wanted.value_stats, wanted.key_stats)
    (file,) = write([encoded.slice(1, 2)], schema, tmp_path)
    arity, row = split_arity(file.value_stats.max_values)
    assert decode_row(row, [f.type for f in schema.fields][:arity])[1] == "v2"
    (file,) = write([encoded], schema, tmp_path)
    assert kv_rows_of(read(schema, tmp_path, file), schema)[3] == (3, 0, 3, "v0", "3")


def test_names_follow_the_options(tmp_path: Path) -> None:
    options = {"file.suffix.include.compression": "true", "file.compression.per.level": "5:snappy",
               "changelog-file.prefix": "log-", "changelog-file.compression": "none"}  # fmt: skip
    schema = table_schema(COLUMNS, options=options)
    table = kv_table(schema, [("a", 1, 1.0)])
    names = NewFileNames("u")
    done = [
        DataFileWriter(schema, store=STORE, bucket_dir=str(tmp_path), names=names, **more).write_all([table])[0]  # type: ignore[arg-type]
        for more in ({}, {"level": 5}, {"changelog": True, "level": 5, "file_source": FileSource.COMPACT})
    ]
    assert [f.file_name for f in done] == ["data-u-0.zst.parquet", "data-u-1.snappy.parquet", "log-u-2.parquet"]
    assert done[2].file_source == FileSource.APPEND
    codecs = [pq.read_metadata(tmp_path / f.file_name).row_group(0).column(0).compression for f in done]
    assert codecs == ["ZSTD", "SNAPPY", "UNCOMPRESSED"]
