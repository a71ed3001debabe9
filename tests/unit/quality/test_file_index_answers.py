"""The rule over file indexes: whole indexes of every kind pass, and one that forgets rows does not."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.file_index.container import decode_index_container, encode_index_container
from lakeidx.file_index.options import indexed_columns
from lakeidx.file_index.write import DataFileIndexWriter
from lakeidx.format.manifest import ManifestEntry
from lakeidx.quality.file_index_answers import check_file_indexes
from lakeidx.table.view import load_view
from tests.kit.upserts import upsert_table

ROWS = 60
COLUMNS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "t": ("STRING", pa.string(), [None if i % 7 == 0 else f"é{i % 20}" for i in range(ROWS)]),
    "f": ("DOUBLE", pa.float64(), [[0.0, -0.0, math.nan, None, -math.inf, 1.5 * i][i % 6] for i in range(ROWS)]),
    "d": ("DATE", pa.date32(), [dt.date(1960, 1, 1) + dt.timedelta(days=300 * i) for i in range(ROWS)]),
    "s": ("TIMESTAMP(9)", pa.timestamp("ns"), [-1_000_000_007 * i for i in range(ROWS)]),
    "n": ("DECIMAL(12, 2)", pa.decimal128(12, 2), [None if i % 9 == 0 else Decimal(i - 30) / 4 for i in range(ROWS)]),
    "b": ("BOOLEAN", pa.bool_(), [[True, False, None][i % 3] for i in range(ROWS)]),
    "m": (
        {"type": "MAP", "key": "STRING", "value": "INT"},
        pa.map_(pa.string(), pa.int32()),
        [[("x", i % 5)] if i % 4 else [] for i in range(ROWS)],
    ),
}
INDEXES = {
    "bloom-filter": "t,f,d,s,m[x]",
    "bitmap": "t,f,d,b,m[x]",
    "bsi": "d,n,s",
    "range-bitmap": "t,f,d,n",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    spec = {
        "fields": [{"name": "k", "type": "BIGINT"}, *({"name": n, "type": t} for n, (t, _, _) in COLUMNS.items())],
        "primaryKeys": ["k"],
        "partitionKeys": [],
        "options": {
            "bucket": "1",
            **{f"file-index.{kind}.columns": names for kind, names in INDEXES.items()},
            **{f"file-index.bloom-filter.{c}.items": "100" for c in INDEXES["bloom-filter"].split(",")},
            "file-index.in-manifest-threshold": "1 MB",
        },
    }
    table = Table.create(f"{tmp_path_factory.mktemp('t')}/wh/d.db/t", spec)
    columns = {n: pa.array(values, t) for n, (_, t, values) in COLUMNS.items()}
    upsert_table(make_context(table.metadata, "b1"), pa.table({"k": pa.array(range(ROWS), pa.int64()), **columns}))
    return table


def entry_of(table: Table) -> ManifestEntry:
    (entry,) = load_view(table.metadata, table.snapshot).entries
    return entry


def test_whole_indexes_of_every_kind_pass(table: Table) -> None:
    result = check_file_indexes(table.metadata, [entry_of(table)])
    assert result.passed, result.sample
    assert result.metrics["indexes"] == sum(len(names.split(",")) for names in INDEXES.values())
    assert result.metrics["values_asked"] > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "column"), [(k, c) for k, names in INDEXES.items() for c in names.split(",")], ids=lambda v: v
)
def test_an_index_that_forgets_rows_is_found(table: Table, kind: str, column: str) -> None:
    """The index was built over other values: it answers, but not what the file holds."""
    entry = entry_of(table)
    assert entry.file.embedded_index is not None
    name = column.partition("[")[0]
    few = pa.array([COLUMNS[name][2][1]] * ROWS, COLUMNS[name][1])
    indexed = [i for i in indexed_columns(table.schema.options) if (i.reference, i.index) == (column, kind)]
    writer = DataFileIndexWriter(table.schema, indexed, threshold=1 << 20)
    writer.add(pa.table({name: few}))
    built = writer.finish().embedded
    assert built is not None
    container = decode_index_container(entry.file.embedded_index)
    container[column][kind] = decode_index_container(built)[column][kind]
    hurt = replace(entry, file=replace(entry.file, embedded_index=encode_index_container(container)))
    result = check_file_indexes(table.metadata, [hurt])
    assert not result.passed
    assert {(s["column"], s["index"], s["fault"]) for s in result.sample} == {(column, kind, "denied")}
    assert result.metrics["indexes_unreadable"] == 0
    assert result.metrics["false_negatives"] >= len(result.sample)


def test_an_index_over_another_number_of_rows_and_one_cut_short_are_unreadable(table: Table) -> None:
    entry = entry_of(table)
    assert entry.file.embedded_index is not None
    cut = replace(entry, file=replace(entry.file, embedded_index=entry.file.embedded_index[:-1]))
    result = check_file_indexes(table.metadata, [cut])
    assert (result.passed, result.metrics["indexes_unreadable"]) == (False, 1)
    assert str(result.sample[0]["fault"]).startswith("unreadable")


def test_files_without_indexes_cost_nothing(table: Table) -> None:
    entry = entry_of(table)
    bare = replace(entry, file=replace(entry.file, embedded_index=None, file_name="not-there.parquet"))
    result = check_file_indexes(table.metadata, [bare])
    assert result.passed
    assert result.metrics["files"] == 0
