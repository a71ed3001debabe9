"""Rows by the pages they lie in: the same as by whole row groups, and never others on damage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.pages import is_greatest, is_least
from lakeidx.data.parquet.row_groups import ParquetSource
from lakeidx.data.positions import ReadCounters
from lakeidx.data.read_data_file import open_data_file, read_data_file
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.quality.tasks.decode_files import verify_data_file
from tests.unit.data.tables import STORE, kv_table, table_schema, write_file

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
    file = write_file(TABLE, SCHEMA, folder, **request.param)
    path = f"{folder}/{file.file_name}"
    assert pq.read_metadata(path).num_row_groups == 2
    return path, file


ROW = {
    "type": "ROW",
    "fields": [{"name": "a", "type": "STRING"}, {"name": "b", "type": {"type": "ARRAY", "element": "INT"}}],
}
DEEP = table_schema(
    {
        "k": "INT NOT NULL",
        "r": ROW,
        "m": {"type": "MAP", "key": "INT NOT NULL", "value": ROW},
        "l": {"type": "ARRAY", "element": ROW},
    }
)
INNER: list[tuple[str | None, list[int | None] | None] | None] = [None, (None, [1, None]), ("x", []), ("yy", None)]
DEEP_TABLE = kv_table(
    DEEP,
    [(i, INNER[i % 4], [(j, INNER[j % 4]) for j in range(i % 3)] if i % 5 else None, INNER[: i % 5] if i % 7 else None)
     for i in range(700)],
)  # fmt: skip


def flipped(path: str, file: DataFileMeta, schema: TableSchema, folder: Path, flips: int) -> list[int]:
    """Flip bytes of the page indexes, one at a time; those that are not found."""
    folder.mkdir(exist_ok=True)
    good, bad = Path(path).read_bytes(), folder / file.file_name
    source = open_data_file(STORE, path, file.file_size, schema)
    assert isinstance(source, ParquetSource)
    places = [chunk._place for g in range(source.groups) for chunk in source.pages(g).values()]
    at = [i for p in places for i in range(p.index_at, p.index_at + p.index_size)]
    at += [i for p in places for i in range(p.bounds_at, p.bounds_at + p.bounds_size)]
    assert verify_data_file(STORE, path, file, schema)[0] == file.row_count
    silent: list[int] = []
    named: list[bool] = []
    draw = random.Random(3)
    for byte in draw.sample(at, flips):
        bad.write_bytes(good[:byte] + bytes([good[byte] ^ 0xFF]) + good[byte + 1 :])
        try:
            verify_data_file(STORE, str(bad), file, schema)
            silent.append(byte)
        except CorruptFileError as error:
            named += [error.path == str(bad) and "index is damaged" in error.message]
    assert all(named)
    return silent


def test_a_flip_in_a_page_index_is_found(written: tuple[str, DataFileMeta], tmp_path: Path) -> None:
    assert flipped(*written, SCHEMA, tmp_path, 40) == []


@pytest.mark.parametrize("layout", [PAGE, {"file.compression": "none"}], ids=["small", "plain"])
def test_a_flip_in_a_page_index_below_lists_and_rows_is_found(layout: dict[str, str], tmp_path: Path) -> None:
    file = write_file(DEEP_TABLE, DEEP, tmp_path, **layout)
    assert flipped(f"{tmp_path}/{file.file_name}", file, DEEP, tmp_path / "bad", 40) == []


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
    file = write_file(whole, schema, tmp_path, **layout)
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


TEXT = "x" * 62 + "é漢"


@pytest.mark.parametrize(
    ("low", "high", "value", "right"),
    [
        # As parquet-java cuts texts, by default to 64 bytes: the last character is the next one, or the one before it.
        ("x" * 62 + "é", "x" * 62 + "ê", TEXT, True),
        ("x" * 62, "x" * 61 + "y", TEXT, True),
        ("x" * 62, "x" * 57 + "y" + "x" * 4, TEXT, True),
        ("x" * 62, "x" * 56 + "y" + "x" * 4 + "z", TEXT, False),
        ("x" * 60 + "w", "x" * 61 + "y", TEXT, False),
        ("x" * 62, "x" * 62, TEXT, False),
        ("ab", "ab", "ab", True),
        ("ab", "ac", "ab", False),
    ],
)
def test_bounds_of_cut_texts_are_right(low: str, high: str, value: str, right: bool) -> None:
    assert (is_least(low.encode(), value.encode()) and is_greatest(high.encode(), value.encode())) == right


def test_bounds_of_cut_bytes_are_right() -> None:
    value = b"a" + b"\xff" * 70
    assert is_greatest(b"b" + b"\x00" * 63, value)
    assert not is_greatest(b"b" + b"\x01" * 63, value)
