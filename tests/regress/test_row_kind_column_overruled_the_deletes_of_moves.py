"""With `rowkind.field` the delete of a key that moved to another partition was written as an insert: the key was there twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError

FIELDS = [
    {"name": "k", "type": "INT"},
    {"name": "p", "type": "INT"},
    {"name": "v", "type": "STRING"},
    {"name": "op", "type": "STRING"},
]
Row = tuple[int, int, str, str | None]


def table_of(folder: Path, name: str = "t", *, cross: bool = False, **options: str) -> lakeidx.Table:
    spec: dict[str, Any] = {
        "fields": FIELDS,
        "primaryKeys": ["k"],
        "partitionKeys": ["p"] if cross else [],
        "options": {"bucket": "-1", "rowkind.field": "op", **{k.replace("_", "-"): v for k, v in options.items()}},
    }
    return lakeidx.Table.create(f"{folder}/wh/d.db/{name}", spec)


def rows(*values: Row) -> pa.Table:
    types = [pa.int32(), pa.int32(), pa.string(), pa.string()]
    names = [f["name"] for f in FIELDS]
    return pa.table([pa.array(c, t) for c, t in zip(zip(*values, strict=True), types, strict=True)], names)


def seen(table: lakeidx.Table) -> list[Row]:
    return sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())


def test_a_key_that_moves_is_there_once(tmp_path: Path) -> None:
    table = table_of(tmp_path, cross=True)
    table.upsert(rows((1, 1, "a", "+I"), (2, 1, "b", "+U")))
    table.upsert(rows((1, 2, "a2", "+I")))
    assert seen(table) == [(1, 2, "a2", "+I"), (2, 1, "b", "+U")]
    result = table.upsert(rows((1, 7, "", "-D"), (2, 1, "c", "+u")))
    assert seen(table) == [(2, 1, "c", "+u")]
    assert (result.assign.deletes, result.assign.updates) == (1, 1)


@pytest.mark.parametrize("how", ["keys", "where"])
def test_rows_are_deleted_by_key_and_by_condition(tmp_path: Path, how: str) -> None:
    table = table_of(tmp_path)
    table.upsert(rows((1, 1, "a", "+I"), (2, 1, "b", "+I")))
    table.delete(
        pa.table({"k": pa.array([1], pa.int32())}) if how == "keys" else None, where="k = 1" if how == "where" else None
    )
    assert seen(table) == [(2, 1, "b", "+I")]


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_delete_in_another_table_is_one_here(tmp_path: Path, producer: str) -> None:
    source, target = table_of(tmp_path, "s", changelog_producer=producer), table_of(tmp_path)
    source.upsert(rows((1, 1, "a", "+I"), (2, 1, "b", "+I")))
    source.upsert(rows((1, 1, "a", "-D"), (2, 1, "c", "+U")))
    for step in source.follow(mode="derived"):
        target.upsert_changes(step)
    assert seen(source) == seen(target) == [(2, 1, "c", "+U")]


def test_a_row_without_a_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'op' must hold one of \+I, -U, \+U, -D, not null \(row 1\)"):
        table_of(tmp_path).upsert(rows((1, 1, "a", "+I"), (2, 1, "b", None)))
