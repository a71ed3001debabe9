"""Reading data files: projection, positions, row groups, other schemas, and damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakeidx.data.parquet.schema import SYSTEM_COLUMNS
from lakeidx.data.positions import ReadCounters
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.predicate import BoundPredicate, bind, col, filter_table
from lakeidx.predicate.parse import parse_where
from lakeidx.types import Field, parse_type
from tests.unit.data.tables import STORE, kv_rows_of, kv_table, plain_table, rows_of, table_schema, write_file

SCHEMA = table_schema({"k": "INT NOT NULL", "v": "STRING", "d": "DOUBLE"})
ROWS = [(i, None if i % 7 == 0 else f"v{i % 50:03d}", float(i % 13)) for i in range(6000)]
TABLE = kv_table(SCHEMA, ROWS, first_sequence=10)


def write(table: pa.Table, schema: TableSchema, folder: Path) -> tuple[str, DataFileMeta]:
    file = write_file(table, schema, folder, **{"file.block-size": "1 kb"})
    return f"{folder}/{file.file_name}", file


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, DataFileMeta]:
    path, file = write(TABLE, SCHEMA, tmp_path_factory.mktemp("data"))
    assert pq.read_metadata(path).num_row_groups == 6
    return path, file


def read(written: tuple[str, DataFileMeta], schema: TableSchema = SCHEMA, *args: Any, **more: Any) -> list[pa.Table]:
    path, file = written
    if "predicate" in more:
        more["predicate"] = BoundPredicate(more["predicate"], schema.fields)
    return list(read_data_file(STORE, path, file, more.pop("file_schema", SCHEMA), schema, *args, **more))


def test_batches_are_bounded_and_whole(written: tuple[str, DataFileMeta]) -> None:
    tables = read(written, batch_rows=300)
    assert max(t.num_rows for t in tables) == 300
    assert tables[0].schema.equals(SCHEMA.kv_arrow_schema)
    assert pa.concat_tables(tables).equals(TABLE)


def test_projection_keeps_system_columns_and_schema_order(written: tuple[str, DataFileMeta]) -> None:
    (first, *_) = read(written, SCHEMA, ["d", "k"])
    assert first.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "d"]
    (first, *_) = read(written, SCHEMA, [])
    assert first.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND"]
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        read(written, SCHEMA, ["k", "x"])


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.none() | st.sets(st.integers(0, 5999), max_size=40),
    st.none() | st.sets(st.integers(0, 5999), max_size=40),
    st.integers(1, 900),
)
def test_positions_are_those_of_the_file(
    written: tuple[str, DataFileMeta], deleted: set[int] | None, selected: set[int] | None, batch_rows: int
) -> None:
    counters = ReadCounters()
    tables = read(
        written, SCHEMA, ["k"], batch_rows=batch_rows, counters=counters,
        deletion_vector=None if deleted is None else BitMap(deleted),
        selection=None if selected is None else np.array(sorted(selected), np.int64),
    )  # fmt: skip
    wanted = [i for i in range(6000) if (selected is None or i in selected) and i not in (deleted or ())]
    assert [k for t in tables for k in t.column("k").to_pylist()] == wanted
    assert counters.rows_given == len(wanted)
    if selected is not None:
        assert counters.row_groups_read == len(
            {i // 1000 for i in selected - (deleted or set())} | {i // 1000 for i in selected}
        )


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("k >= 2500 AND k < 3000", 1), ("k = 999 OR k = 5000", 2), ("k > 5999", 0), ("v = 'zzz'", 0), ("v IS NULL", 6),
        ("v LIKE 'v0%'", 6), ("d > 100", 6), ("k IS NULL", 0),
    ],
)  # fmt: skip
def test_row_groups_are_left_out_by_their_statistics(
    written: tuple[str, DataFileMeta], where: str, groups: int
) -> None:
    predicate = bind(parse_where(where, SCHEMA.fields), SCHEMA.fields)
    counters = ReadCounters()
    tables = read(written, predicate=predicate, counters=counters)
    # A DOUBLE's bounds in Arrow's footers say nothing of NaN, which is above 100: those groups stay.
    assert (counters.row_groups, counters.row_groups_read, counters.files) == (6, groups, 1)
    assert sum(t.num_rows for t in tables) == counters.rows_read == groups * 1000
    assert counters.bytes_read > 0 or groups == 0


_FILTERS = ("k = 4321", "k < 1500 AND v = 'v003'", "v IS NULL", "v LIKE 'v01%' OR d > 11", "NOT (v = 'v001')", "k < 0", "k >= 0",
            "v IN ('v001', 'zzz')", "new IS NULL", "new = 3", "new IS NULL AND v = 'v002'", "d = '7.0'", "t <> 'v001'")  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    where=st.sampled_from(_FILTERS),
    names=st.sets(st.sampled_from(["k", "v", "d", "new", "t"])),
    deleted=st.none() | st.sets(st.integers(0, 5999), max_size=40),
    selected=st.none() | st.sets(st.integers(0, 5999), max_size=300),
    batch_rows=st.integers(50, 2500),
    system=st.booleans(),
)
def test_filtering_while_reading_is_filtering_afterwards(
    written: tuple[str, DataFileMeta], where: str, names: set[str], deleted: set[int] | None, selected: set[int] | None,
    batch_rows: int, system: bool,
) -> None:  # fmt: skip
    k, v, d = SCHEMA.fields
    # t is the file's v under another name; v is new, d another type, so that filters on them need a cast.
    schema = replace(
        SCHEMA, id=1,
        fields=(replace(k, type=parse_type("BIGINT NOT NULL")), replace(v, name="t"), Field(7, "v", parse_type("STRING")),
                replace(d, type=parse_type("STRING")), Field(9, "new", parse_type("INT"))),
    ) if "'7.0'" in where or "t <>" in where else replace(
        SCHEMA, id=1, fields=(*SCHEMA.fields, Field(9, "new", parse_type("INT")), Field(10, "t", parse_type("STRING")))
    )  # fmt: skip
    predicate = bind(parse_where(where, schema.fields), schema.fields)
    positions = {
        "deletion_vector": None if deleted is None else BitMap(deleted),
        "selection": None if selected is None else np.array(sorted(selected), np.int64),
    }
    whole = pa.concat_tables(read(written, schema, **positions) or [schema.kv_arrow_schema.empty_table()])
    wanted = [n for n in schema.field_names if n in names]
    expected = filter_table(predicate, whole).select(
        [*(["_SEQUENCE_NUMBER", "_VALUE_KIND"] if system else []), *wanted]
    )
    counters = ReadCounters()
    tables = read(
        written, schema, wanted, predicate=predicate, filter_rows=True, system_columns=SYSTEM_COLUMNS if system else (),
        batch_rows=batch_rows, counters=counters, **positions,
    )  # fmt: skip
    assert all(0 < t.num_rows <= batch_rows for t in tables)
    assert sum(t.num_rows for t in tables) == expected.num_rows
    if tables and expected.num_columns:
        assert pa.concat_tables(tables).equals(expected)
    assert counters.rows_given <= whole.num_rows


def test_filtered_rows_are_counted_without_columns(written: tuple[str, DataFileMeta]) -> None:
    predicate = bind(parse_where("k < 1500", SCHEMA.fields), SCHEMA.fields)
    tables = read(written, SCHEMA, [], predicate=predicate, filter_rows=True, system_columns=(), batch_rows=400)
    assert [t.num_rows for t in tables] == [400, 400, 200, 400, 100]
    assert all(t.num_columns == 0 for t in tables)


def test_columns_beside_the_filter_are_read_of_row_groups_with_selected_rows(written: tuple[str, DataFileMeta]) -> None:
    predicate = bind(parse_where("d = 3", SCHEMA.fields), SCHEMA.fields)
    counters = ReadCounters()
    selection = np.array([3, 16, 1001], np.int64)  # d of position 1001 is 0
    (found,) = read(
        written, SCHEMA, ["k"], predicate=predicate, filter_rows=True, selection=selection, counters=counters
    )
    assert found.column("k").to_pylist() == [3, 16]
    assert (counters.row_groups_read, counters.rows_given) == (2, 3)
    group = pq.read_metadata(written[0])
    sizes = [
        {group.row_group(g).column(c).path_in_schema: group.row_group(g).column(c).total_compressed_size
         for c in range(group.num_columns)} for g in range(6)
    ]  # fmt: skip
    first = sum(sizes[0][c] for c in ("_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "d"))
    assert counters.bytes_read == first + sizes[1]["d"]


def test_a_predicate_on_a_column_that_the_file_lacks(written: tuple[str, DataFileMeta]) -> None:
    later = replace(SCHEMA, id=1, fields=(*SCHEMA.fields, Field(9, "new", parse_type("INT"))))
    for where, found in (("new = 1", 0), ("new IS NULL", 6000)):
        predicate = bind(parse_where(where, later.fields), later.fields)
        assert sum(t.num_rows for t in read(written, later, ["new"], predicate=predicate)) == found


def test_string_columns_as_dictionaries(written: tuple[str, DataFileMeta]) -> None:
    tables = read(written, dictionary_columns=["v"])
    assert all(t.schema.field("v").type == pa.dictionary(pa.int32(), pa.string()) for t in tables)
    plain = [t.set_column(3, "v", t.column("v").cast(pa.string())) for t in tables]
    assert kv_rows_of(pa.concat_tables(plain), SCHEMA) == kv_rows_of(TABLE, SCHEMA)
    later = replace(SCHEMA, id=1, fields=(*SCHEMA.fields, Field(9, "new", parse_type("STRING"))))
    (first, *_) = read(written, later, ["new"], dictionary_columns=["new"])
    assert first.schema.field("new").type == pa.dictionary(pa.int32(), pa.string())
    assert first.column("new").null_count == first.num_rows


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_that_are_written_as_differences_become_dictionaries(tmp_path: Path, encoding: str) -> None:
    # As Java writes them with parquet.writer.version = PARQUET_2_0. Arrow has no decoder from them to dictionaries.
    schema = table_schema({"a": "INT", "b": "STRING"}, keys=())
    table = plain_table(schema, [(1, "x"), (2, None), (3, "xy"), (4, "x")])
    path = str(tmp_path / "f.parquet")
    pq.write_table(table, path, use_dictionary=False, column_encoding={"b": encoding})
    (found,) = read_data_file(STORE, path, None, schema, schema, dictionary_columns=["b"])
    assert pa.types.is_dictionary(found.schema.field("b").type)
    assert found.to_pylist() == table.to_pylist()


def test_rows_are_counted_without_their_columns(tmp_path: Path) -> None:
    schema = table_schema({"a": "INT"}, keys=())
    written = write(plain_table(schema, [(i,) for i in range(10)]), schema, tmp_path)
    deleted = {"deletion_vector": BitMap([1, 2])}
    assert sum(t.num_rows for t in read(written, schema, [], file_schema=schema, batch_rows=4, **deleted)) == 8
    later = replace(schema, id=1, fields=(*schema.fields, Field(9, "new", parse_type("INT"))))
    tables = read(written, later, ["new"], file_schema=schema, **deleted)
    assert [v for t in tables for v in t.column("new").to_pylist()] == [None] * 8


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"gone\.parquet"):
        list(read_data_file(STORE, f"{tmp_path}/gone.parquet", None, SCHEMA, SCHEMA))


def test_another_number_of_rows_or_a_missing_column_is_damage(
    written: tuple[str, DataFileMeta], tmp_path: Path
) -> None:
    path, file = written
    with pytest.raises(CorruptFileError, match="expected 5 rows, found 6000"):
        read((path, replace(file, row_count=5)))
    wider = replace(SCHEMA, fields=(*SCHEMA.fields, Field(9, "new", parse_type("INT"))))
    with pytest.raises(CorruptFileError, match="no column 'new'"):
        read(written, wider, file_schema=wider)
    partial = replace(file, write_cols=("k", "v", "d"))
    (first, *_) = read((path, partial), wider, ["new"], file_schema=wider)
    assert first.column("new").null_count == first.num_rows


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="csv"):
        list(read_data_file(STORE, f"{tmp_path}/data-1.csv", None, SCHEMA, SCHEMA))


def test_int96_beyond_nanoseconds_is_not_given_as_another_time(tmp_path: Path) -> None:
    schema = table_schema({"k": "INT NOT NULL", "t": "TIMESTAMP(9)"})
    path = str(tmp_path / "x.parquet")
    far = pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array([0]), "_VALUE_KIND": pa.array([0], pa.int8()), "k": pa.array([1], pa.int32()),
            "t": pa.array([253_402_300_799_999], pa.timestamp("ms")),
        }
    )  # fmt: skip
    pq.write_table(far, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedError, match="column 't'"):
        list(read_data_file(STORE, path, None, schema, schema))
    near = far.set_column(3, "t", pa.array([-1], pa.timestamp("ns")))
    pq.write_table(near, path, use_deprecated_int96_timestamps=True)
    (table,) = read_data_file(STORE, path, None, schema, schema)
    assert rows_of(table, schema) == [(1, (-1, 999_999))]


def test_names_with_dots_blanks_and_other_scripts(tmp_path: Path) -> None:
    columns = {"k": "INT NOT NULL", "a": {"type": "ROW", "fields": [{"id": 0, "name": "b", "type": "INT"}]}, "a.b": "TIMESTAMP(9)",
               "größe in m": "STRING", "list.element": {"type": "ARRAY", "element": "INT"}}  # fmt: skip
    schema = table_schema(columns)
    rows = [(i, (i,), (i, 5), f"v{i}", [i]) for i in range(2500)]
    written = write(kv_table(schema, rows), schema, tmp_path)
    assert rows_of(pa.concat_tables(read(written, schema, file_schema=schema)), schema) == rows
    (first, *_) = read(written, schema, ["a.b"], file_schema=schema)
    assert first.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "a.b"]
    counters = ReadCounters()
    read(
        written, schema, file_schema=schema, predicate=bind(col("größe in m") == "v7", schema.fields), counters=counters
    )
    assert counters.row_groups_read < counters.row_groups
    far = tmp_path / "far.parquet"
    table = pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array([0]),
            "_VALUE_KIND": pa.array([0], pa.int8()),
            "a.b": pa.array([9**16], pa.timestamp("ms")),
        }
    )
    pq.write_table(table, far, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedError, match=r"column 'a\.b'"):
        list(read_data_file(STORE, str(far), None, schema, schema, ["a.b"]))
