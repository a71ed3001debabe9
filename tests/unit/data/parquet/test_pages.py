"""Rows by the pages they lie in: the same as by whole row groups, and never others on damage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet import row_groups as read_parquet
from lakeidx.data.parquet.pages import ChunkPlace, PageTable, decode_page_table
from lakeidx.data.read_counters import ReadCounters
from lakeidx.data.read_data_file import open_data_file, read_data_file
from lakeidx.data.write_data_file import write_data_files
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NewFileNames
from lakeidx.predicate.parse import parse_where
from tests.unit.data.tables import STORE, kv_table, table_schema

SCHEMA = table_schema(
    {"k": "INT NOT NULL", "few": "STRING", "many": "STRING", "d": "DOUBLE", "money": "DECIMAL(20, 2)", "n": "BIGINT",
     "t": "TIMESTAMP(6)", "b": "BOOLEAN"}
)  # fmt: skip
ROWS = 2000
PAGE = {"parquet.page.row.count.limit": "100", "file.block-size": "40 kb"}


def rows() -> list[tuple[Any, ...]]:
    some = random.Random(5)
    return [
        (i, some.choice((None, "a", "b")), some.choice((None, f"text {i}")), some.choice((None, i / 7)),
         Decimal(i * 10**10) if i % 3 else None,
         some.randrange(10**9), (i, 0) if i % 5 else None, some.choice((None, True, False)))
        for i in range(ROWS)
    ]  # fmt: skip


TABLE = kv_table(SCHEMA, rows())


@pytest.fixture(scope="module", params=[PAGE, PAGE | {"parquet.writer.version": "PARQUET_1_0"}])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, DataFileMeta]:
    folder = tmp_path_factory.mktemp("pages")
    schema = replace(SCHEMA, options={**SCHEMA.options, **request.param})
    (file,) = write_data_files([TABLE], schema, store=STORE, bucket_dir=str(folder), names=NewFileNames())
    path = f"{folder}/{file.file_name}"
    assert pq.read_metadata(path).num_row_groups == 2
    return path, file


def read(
    path: str,
    file: DataFileMeta,
    keys: list[int],
    names: Sequence[str],
    counters: ReadCounters | None = None,
) -> pa.Table:
    where = parse_where(f"k IN ({', '.join(map(str, keys))})", SCHEMA.fields)
    found = read_data_file(
        STORE, path, file, SCHEMA, SCHEMA, names, predicate=where, filter_rows=True, system_columns=(),
        batch_rows=37, counters=counters,
    )  # fmt: skip
    return pa.concat_tables([TABLE.select(names).slice(0, 0), *found])


def test_pages_that_lie_elsewhere_or_have_other_rows_than_their_index_says_are_found(
    written: tuple[str, DataFileMeta], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, file = written
    source = open_data_file(STORE, path, file.file_size, SCHEMA)
    assert isinstance(source, read_parquet.ParquetSource)
    checked = [(g, name) for g in range(source.groups) for name in SCHEMA.field_names]
    tables = []

    def decoded(*arguments: Any) -> PageTable | None:
        tables.append(decode_page_table(*arguments))
        return tables[-1]

    monkeypatch.setattr(read_parquet, "decode_page_table", decoded)
    for g, name in checked:
        source.check_pages(g, name)
    assert all(table is not None and len(table.rows) > 5 for table in tables)
    assert len(tables) == len(checked)
    for (g, name), table in zip(checked, tables, strict=True):
        assert table is not None
        for change in ("rows", "offsets"):
            for by in (-1, 1):
                moved = getattr(table, change).copy()
                moved[3] += by
                other = replace(table, **{change: moved})
                monkeypatch.setattr(read_parquet, "decode_page_table", lambda *_, other=other: other)
                with pytest.raises(CorruptFileError, match=f"column {name}: page sizes differ from the page index"):
                    source.check_pages(g, name)


def test_a_page_table_describes_the_whole_chunk_or_nothing() -> None:
    chunk = ChunkPlace(4, 30, 0, 0)
    # Two pages: (4, 10 bytes, row 0) and (14, 20 bytes, row 5); numbers are zigzag.
    good = bytes([0x19, 0x2C, 0x16, 8, 0x15, 20, 0x16, 0, 0, 0x16, 28, 0x15, 40, 0x16, 10, 0, 0])
    table = decode_page_table(good, chunk, 9)
    assert table is not None
    assert (table.offsets.tolist(), table.rows.tolist()) == ([4, 14, 34], [0, 5, 9])
    assert decode_page_table(good, chunk, 5) is None
    assert decode_page_table(good, replace(chunk, size=31), 9) is None
    assert decode_page_table(b"", chunk, 9) is None
    for n in range(len(good) - 1):
        assert decode_page_table(good[:n], chunk, 9) is None
    for at in range(len(good) - 1):
        for bit in range(8):
            found = decode_page_table(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :], chunk, 9)
            # Only another first row may pass: the rows of the pages that are read then tell.
            assert found is None or at == 14
    for n in range(300):
        decode_page_table(np.random.default_rng(n).bytes(n), chunk, 9)


LAYOUTS: list[dict[str, str]] = [
    PAGE,
    {"parquet.page.row.count.limit": "70", "file.compression": "none", "parquet.writer.version": "PARQUET_1_0"},
]
NESTED = table_schema(
    {"k": "INT NOT NULL", "s": "STRING", "many": {"type": "ARRAY", "element": "INT"}, "t": "TIMESTAMP(9)"}
)
NESTED_TABLE = kv_table(NESTED, [(i, f"text {i}", [i, None] if i % 3 else None, (i, 7)) for i in range(ROWS)])


def by_position(
    path: str,
    file: DataFileMeta | None,
    whole: pa.Table,
    at: list[int],
    names: Sequence[str],
    deleted: list[int],
) -> ReadCounters:
    """Check the rows at some positions against the table that was written; what reading them cost."""
    schema, counters = (SCHEMA if whole is TABLE else NESTED), ReadCounters()
    found = read_data_file(
        STORE, path, file, schema, schema, names, selection=np.array(sorted(set(at))),
        deletion_vector=np.array(deleted, np.int64), batch_rows=37, counters=counters,
    )  # fmt: skip
    whole = whole.select([*whole.column_names[:2], *names])
    got = pa.concat_tables([whole.slice(0, 0), *found])
    assert got.equals(whole.take(pa.array(sorted(set(at) - set(deleted)), pa.int64())))
    return counters


@pytest.mark.slow
@pytest.mark.parametrize("whole", [TABLE, NESTED_TABLE], ids=["flat", "nested"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=["small", "plain"])
def test_rows_at_positions_are_those_written(layout: dict[str, str], whole: pa.Table, tmp_path: Path) -> None:
    schema = SCHEMA if whole is TABLE else NESTED
    schema = replace(schema, options={**schema.options, **layout})
    (file,) = write_data_files([whole], schema, store=STORE, bucket_dir=str(tmp_path), names=NewFileNames())
    path = f"{tmp_path}/{file.file_name}"
    some = random.Random(11)
    for _ in range(24):
        at = some.sample(range(ROWS), some.choice((1, 3, 9, 500)))
        names = some.sample(schema.field_names, some.randrange(1, len(schema.field_names)))
        names = [n for n in schema.field_names if n in names]
        by_position(path, file, whole, at, names, some.sample(at, some.randrange(len(at))))
    for at in ([0], [ROWS - 1], [0, ROWS - 1]):
        by_position(path, file, whole, at, schema.field_names, [])


def test_a_damaged_page_is_named_with_its_offset(written: tuple[str, DataFileMeta], tmp_path: Path) -> None:
    path, file = written
    place = pq.read_metadata(path).row_group(0).column(pq.read_schema(path).get_field_index("n"))
    raw = bytearray(Path(path).read_bytes())
    # The last byte of the chunk is in its last data page.
    end = (place.dictionary_page_offset or place.data_page_offset) + place.total_compressed_size
    raw[end - 1] ^= 0xFF
    bad = f"{tmp_path}/{file.file_name}"
    Path(bad).write_bytes(raw)
    last = pq.read_metadata(path).row_group(0).num_rows - 1
    by_position(bad, file, TABLE, [0], ["n"], [])
    with pytest.raises(CorruptFileError, match="column 'n', row group 0") as error:
        by_position(bad, file, TABLE, [last], ["n"], [])
    assert place.data_page_offset <= (error.value.offset or 0) < end
