"""Key columns are found in each file by the ids of its own schema."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.chunks import open_footer
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys.parquet_keys import KEY_FIELD_ID, ParquetKeyReader
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.storage.local import LocalStore
from lakeidx.types import Field, parse_type

_KEY = Field(3, "id", parse_type("BIGINT NOT NULL"))


def _reader() -> ParquetKeyReader:
    def no_other(_: object) -> pa.Table:
        raise AssertionError("all are Parquet")

    return ParquetKeyReader(LocalStore(), (_KEY,), no_other)


def _file(folder: Path, name: str, columns: dict[str, tuple[int | None, list[int]]]) -> Any:
    fields = [
        pa.field(c, pa.int64(), False, metadata=None if i is None else {"PARQUET:field_id": str(i)})
        for c, (i, _) in columns.items()
    ]
    path = str(folder / f"{name}.parquet")
    pq.write_table(pa.table([v for _, v in columns.values()], schema=pa.schema(fields)), path)
    return SimpleNamespace(path=path, meta=SimpleNamespace(file_size=Path(path).stat().st_size))


def test_files_of_other_schemas_are_told_apart(tmp_path: Path) -> None:
    files = [
        _file(tmp_path, "plain", {"id": (3, [1, 2]), "v": (4, [7, 8])}),
        _file(tmp_path, "again", {"id": (3, [3, 4]), "v": (4, [7, 8])}),
        _file(tmp_path, "swapped", {"id": (4, [7, 8]), "v": (3, [5, 6])}),
        _file(tmp_path, "thick", {"_KEY_id": (3 + KEY_FIELD_ID, [9, 10]), "id": (3, [0, 0])}),
        _file(tmp_path, "no ids", {"v": (None, [7, 8]), "id": (None, [11, 12])}),
    ]
    reader = _reader()
    for _ in range(2):
        found = [reader.open(f).read(None, IndexMetrics()).keys.column("id").to_pylist() for f in files]
        assert found == [[1, 2], [3, 4], [5, 6], [9, 10], [11, 12]]


def test_a_file_without_the_key_is_damaged_each_time(tmp_path: Path) -> None:
    file, reader = _file(tmp_path, "other", {"v": (4, [7, 8])}), _reader()
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="no column for key 'id'"):
            reader.open(file).read(None, IndexMetrics())


def test_the_schema_of_a_footer_is_its_bytes_without_rows_and_chunks(tmp_path: Path) -> None:
    def schema(name: str, columns: dict[str, tuple[int | None, list[int]]]) -> bytes:
        path = _file(tmp_path, name, columns).path
        return open_footer(LocalStore().open_input(path), path).chunks.schema

    one = schema("one", {"id": (3, [1, 2]), "v": (4, [7, 8])})
    assert b"id" in one
    assert one == schema("two", {"id": (3, list(range(1000))), "v": (4, list(range(1000)))})
    assert one != schema("three", {"id": (4, [1, 2]), "v": (3, [7, 8])})
    assert one != schema("four", {"id": (3, [1, 2])})
