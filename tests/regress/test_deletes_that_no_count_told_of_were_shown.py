"""pypaimon says 0 deletes in the manifest entry of every file, whatever rows are in it: scans showed the deleted rows.

Here lakeidx writes such entries. Rows are those of a plain dictionary, by every way of reading, before and after compactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lakeidx.api.table import Table
from lakeidx.data import write_data_file
from lakeidx.format.data_file import DataFileMeta
from lakeidx.quality.result import Severity
from lakeidx.table.scan.layout import ROW_KIND

TABLES: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1"},
    "across partitions": {"bucket": "-1", "index.type": "state"},
    "partial update": {"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "changelog": {"bucket": "2", "changelog-producer": "lookup"},
    "full changelog": {"bucket": "2", "changelog-producer": "full-compaction"},
    "ignored": {"bucket": "2", "ignore-delete": "true"},
    "sequence": {"bucket": "2", "sequence.field": "v"},
}  # fmt: skip


@contextmanager
def no_count() -> Iterator[None]:
    """Write manifest entries as pypaimon does."""

    def meta(**values: Any) -> DataFileMeta:
        return DataFileMeta(**{**values, "delete_row_count": 0})

    with mock.patch.object(write_data_file, "DataFileMeta", meta):
        yield


def content(table: Table) -> dict[int, tuple[str, int]]:
    """The rows; every filter, projection and comparison gives the same."""
    rows = {r["id"]: (r["p"], r["v"]) for r in table.scan().to_arrow().to_pylist()}
    for where in ("v >= 0", "id >= 0 AND v < 1000", "p <> 'z'"):
        assert sorted(table.scan(where=where, columns=["id"]).to_arrow().column("id").to_pylist()) == sorted(rows)
    assert sum(t.num_rows for t in table.scan(columns=[]).batches()) == len(rows)
    for key in range(12):
        found = table.scan(where=f"id = {key}").to_arrow().to_pylist()
        assert [(r["p"], r["v"]) for r in found] == ([rows[key]] if key in rows else [])
    return rows


def make(folder: Path, name: str) -> tuple[Table, dict[int, tuple[str, int]]]:
    keys = ["id"] if name == "across partitions" else ["id", "p"]
    fields = [{"name": n, "type": t} for n, t in (("id", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT"))]
    spec = {"fields": fields, "primaryKeys": keys, "partitionKeys": ["p"], "options": TABLES[name]}
    return Table.create(folder / "d.db" / "t", spec), {}


def write(table: Table, model: dict[int, tuple[str, int]], *rows: tuple[int, str, int, str]) -> None:
    with no_count():
        table.upsert([{"id": i, "p": p, "v": v, "_kind": kind} for i, p, v, kind in rows])
    for i, p, v, kind in rows:
        if kind != "-D":
            model[i] = (p, v)
        elif table.schema.options.get("ignore-delete") is None:
            model.pop(i, None)


@pytest.mark.parametrize("name", TABLES)
def test_rows_go_by_their_kind(tmp_path: Path, name: str) -> None:
    table, model = make(tmp_path, name)
    write(table, model, *((i, "a", i, "+I") for i in range(8)))
    # A file by itself, whose deletes meet nothing; and one that lies over the first.
    write(table, model, (9, "b", 9, "+I"), (10, "b", 10, "-D"))
    write(table, model, (1, "a", 101, "-D"), (2, "a", 102, "+U"), (8, "a", 108, "+I"))
    table = Table.open(table.uri)
    assert content(table) == model
    rule = next(r for r in table.verify().results if r.name == "deletes_counted")
    ignored = "ignore-delete" in TABLES[name]
    assert rule.passed == ignored
    assert ignored or {s["deletes"] for s in rule.sample} == {1}
    assert rule.severity is Severity.WARN
    # Keys that came and went, and one that changes its partition where that may be.
    write(table, model, (1, "a", 201, "+I"), (2, "a", 202, "-D"))
    if name == "across partitions":
        write(table, model, (3, "b", 203, "+I"), (9, "b", 209, "-D"))
        write(table, model, (9, "a", 210, "+I"))
    assert content(Table.open(table.uri)) == model
    for full in (False, True):
        with no_count():
            Table.open(table.uri).compact(full=full)
        assert content(Table.open(table.uri)) == model
    table.compact(full=True)
    assert next(r for r in Table.open(table.uri).verify().results if r.name == "deletes_counted").passed
    write(table, model, (1, "a", 301, "+I"), (4, "a", 301, "-D"))
    assert content(Table.open(table.uri)) == model


def test_a_file_alone_is_not_moved_to_the_top_with_its_deletes(tmp_path: Path) -> None:
    table, model = make(tmp_path, "fixed")
    write(table, model, (1, "a", 1, "+I"), (2, "a", 2, "-D"), (3, "a", 3, "-D"))
    table.compact(full=True)
    assert content(Table.open(table.uri)) == model == {1: ("a", 1)}
    assert [r["rows"] for r in table.files() if r["level"]] == [1]


def test_the_difference_of_two_states(tmp_path: Path) -> None:
    table, model = make(tmp_path, "fixed")
    write(table, model, *((i, "a", i, "+I") for i in range(4)))
    write(table, model, (1, "a", 0, "-D"), (2, "a", 22, "+U"))
    found = table.diff(1, 2).to_arrow().to_pylist()
    assert [(r[ROW_KIND], r["id"], r["v"]) for r in found] == [("-D", 1, 1), ("-U", 2, 2), ("+U", 2, 22)]
