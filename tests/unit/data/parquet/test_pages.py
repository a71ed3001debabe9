"""Rows by the pages they lie in: the same as by whole row groups, and never others on damage."""

from __future__ import annotations

import io
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
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.data.parquet import row_groups as read_parquet
from lakeidx.data.parquet.footer import flat_elements
from lakeidx.data.parquet.pages import ChunkPlace, decode_page_table
from lakeidx.data.parquet.row_groups import ReadCounters
from lakeidx.data.read_data_file import read_data_file
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
        STORE, path, file, SCHEMA, SCHEMA, names, predicate=where, filter_rows=True, system_columns=False,
        batch_rows=37, counters=counters,
    )  # fmt: skip
    return pa.concat_tables([TABLE.select(names).slice(0, 0), *found])


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    keys=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=8),
    names=st.lists(st.sampled_from(SCHEMA.field_names), min_size=1, unique=True),
)
def test_rows_by_pages_are_rows_by_row_groups(
    written: tuple[str, DataFileMeta],
    keys: list[int],
    names: Sequence[str],
) -> None:
    names = [n for n in SCHEMA.field_names if n in names]
    expected = TABLE.select(names).take(pa.array(sorted(set(keys))))
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read_parquet, "_FEW", few)
            assert read(*written, keys, names).equals(expected)


def test_few_rows_cost_few_bytes(written: tuple[str, DataFileMeta], monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_read = []
    for few in (0, 10**9):
        monkeypatch.setattr(read_parquet, "_FEW", few)
        counters = ReadCounters()
        read(*written, [700], SCHEMA.field_names, counters)
        bytes_read.append(counters.bytes_read)
        total = counters.bytes_read + counters.bytes_spared
    by_pages, by_groups = bytes_read
    assert by_pages < by_groups / 3
    group = pq.read_metadata(written[0])
    of_columns = sum(
        group.row_group(g).column(c).total_compressed_size
        for g in range(group.num_row_groups) for c in range(group.num_columns)
        if group.row_group(g).column(c).path_in_schema in SCHEMA.field_names
    )  # fmt: skip
    assert total == of_columns


@pytest.mark.slow
def test_damage_of_page_places_is_noticed_or_does_no_harm(
    written: tuple[str, DataFileMeta], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_parquet, "_FEW", 0)
    raw = Path(written[0]).read_bytes()
    metadata = pq.read_metadata(written[0])
    # Page indexes lie between the last column chunk and the footer.
    begin = max(
        c.data_page_offset + c.total_compressed_size
        for g in range(metadata.num_row_groups) for c in map(metadata.row_group(g).column, range(metadata.num_columns))
    )  # fmt: skip
    footer = int.from_bytes(raw[-8:-4], "little")
    damaged = str(tmp_path / Path(written[0]).name)
    keys = [3, 99, 100, 1234]
    expected = TABLE.select(["k", "few", "n"]).take(pa.array(keys))
    noticed = 0
    for at in random.Random(1).sample(range(begin - 200, len(raw) - 8 - footer), 90):
        Path(damaged).write_bytes(raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :])
        try:
            found = read(damaged, written[1], keys, ["k", "few", "n"])
        except CorruptFileError:
            noticed += 1
            continue
        assert found.equals(expected), at
    assert noticed < 45


def test_pages_that_begin_at_other_rows_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_parquet, "_FEW", 0)
    schema = replace(SCHEMA, options={**SCHEMA.options, "parquet.page.size": "1 kb"})
    (file,) = write_data_files([TABLE], schema, store=STORE, bucket_dir=str(tmp_path), names=NewFileNames())
    path = f"{tmp_path}/{file.file_name}"
    expected = TABLE.select(SCHEMA.field_names).take(pa.array([5, 1999]))
    assert read(path, file, [5, 1999], SCHEMA.field_names).equals(expected)


def test_a_page_table_describes_the_whole_chunk_or_nothing() -> None:
    chunk = ChunkPlace(b"", "c", 1, 0, 4, 30, 0, 0)
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


def test_flat_elements_are_the_columns_that_are_not_nested() -> None:
    table = pa.table({"a": [1], "l": [[1]], "s": [{"x": 1, "y": "z"}], "größe": ["x"], "z": [1.5]})
    out = io.BytesIO()
    pq.write_table(table, out)
    raw = out.getvalue()
    footer = raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]
    found = flat_elements(footer)
    assert list(found) == ["a", "größe", "z"]
    assert all(footer.count(element) == 1 for element in found.values())
