"""Keys that one commit moves to another bucket: whoever applies the changes in their order has the table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.table.scan.layout import Layout

FIELDS = [{"name": n, "type": "INT"} for n in ("p", "k", "v")]
SMALL = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}


def make(folder: Path, name: str = "t", **more: Any) -> lakeidx.Table:
    options = {**SMALL, **more.pop("options", {})}
    return lakeidx.Table.create(
        f"{folder}/wh/d.db/{name}", {"fields": FIELDS, "primaryKeys": ["k"], "options": options, **more}
    )


def rows(found: list[tuple[int, int, int]], kinds: list[str] | None = None) -> pa.Table:
    columns = {f["name"]: pa.array([r[i] for r in found], pa.int32()) for i, f in enumerate(FIELDS)}
    return pa.table(columns if kinds is None else {**columns, "_kind": kinds})


def content(table: lakeidx.Table) -> dict[int, tuple[int, int]]:
    return {r["k"]: (r["p"], r["v"]) for r in table.scan().to_arrow().to_pylist()}


def apply(changes: pa.Table, state: dict[int, tuple[int, int]], kind: str = "_rowkind") -> dict[int, tuple[int, int]]:
    for row in changes.to_pylist():
        if row[kind] in ("-U", "-D"):
            state.pop(row["k"], None)
        else:
            state[row["k"]] = (row["p"], row["v"])
    return state


@pytest.fixture(scope="module", params=["none", "input", "lookup", "full-compaction"])
def moved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lakeidx.Table:
    """A table, with each changelog producer, whose keys change partition."""
    r = random.Random(7)
    options = {"changelog-producer": request.param}
    table = make(tmp_path_factory.mktemp("moved"), partitionKeys=["p"], options=options)
    for _ in range(4):
        # A key may come several times in one batch, and move each time.
        batch = [(r.randrange(3), r.randrange(8), r.randrange(100)) for _ in range(10)]
        kinds = [r.choice(["+I", "+I", "+I", "-D"]) for _ in batch]
        table.upsert(rows(batch, kinds))
        if request.param != "none":
            table.compact(full=True)
    return table


@pytest.mark.share(0.5)
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "derived"])
def test_keys_that_change_partition(tmp_path: Path, moved: lakeidx.Table, mode: str) -> None:
    table, copy = moved, make(tmp_path, "copy")
    want = content(table)
    assert want
    steps = list(table.follow("earliest", mode=mode))
    for step in steps:
        copy.upsert_changes(step)
    assert content(copy) == want
    changes = table.changes(0, mode=mode).to_arrow()
    assert apply(changes, {}) == want
    # Neither the key columns nor matching rows need be among what is read.
    values = [s.changes.to_arrow()["v"].to_pylist() for s in table.follow("earliest", mode=mode, columns=["v"])]
    assert values == [s.changes.to_arrow()["v"].to_pylist() for s in steps]
    found = table.changes(0, mode=mode, where="v >= 0", columns=["v"]).to_arrow()
    assert found["v"].to_pylist() == changes["v"].to_pylist()


def test_keys_that_an_overwrite_puts_into_another_bucket(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(rows([(0, k, k) for k in range(6)]))
    table.overwrite(rows([(0, k, k + 10) for k in (5, 0, 3)]), whole_table=True)
    (step,) = table.follow("2", mode="derived")
    changes = step.changes.to_arrow()
    moved = [x for x in changes.to_pylist() if x["k"] == 5]
    assert [x["_rowkind"] for x in moved] == ["-D", "+I"]
    assert apply(changes, {k: (0, k) for k in range(6)}) == content(table)


def test_system_tables_have_the_same_order(tmp_path: Path) -> None:
    table = make(tmp_path, partitionKeys=["p"])
    table.upsert(rows([(p, 10 * p + k, 0) for p in range(3) for k in range(3)]))
    table.upsert(rows([(2 - p, 10 * p + k, 1) for p in (0, 2) for k in range(2)]))
    log = lakeidx.SystemTable.open(f"{table.uri}${Layout.AUDIT_LOG}").scan(incremental=(0, 2)).to_arrow()
    assert apply(log, {}, "rowkind") == content(table)


@pytest.mark.parametrize("keys", [["k"], ["p", "k"]])
def test_a_difference_of_states_says_what_happened_to_a_moved_key(tmp_path: Path, keys: list[str]) -> None:
    """Each came out twice, as deleted in one bucket and new in another, also when no value had changed."""
    table = make(tmp_path, primaryKeys=keys, partitionKeys=keys[:-1])
    table.upsert(rows([(p, k, k) for p in (0, 1) for k in range(10 * p, 10 * p + 6)]))
    at_first = rows([(0, k, 0) for k in range(6)])
    placed = table.keys(at_first.select(keys))["bucket"].to_pylist()
    table.upsert(rows([(1, 10, 7)]))
    table.overwrite(rows([(0, k, v) for k, v in ((5, 5), (0, 20), (9, 9), (3, 3), (2, 2), (1, 1))]), whole_table=True)
    assert table.keys(at_first.select(keys))["bucket"].to_pylist() != placed
    found = [(r["k"], r["v"], r["_rowkind"]) for r in table.diff(1, 3).to_arrow().to_pylist()]
    gone = [(k, k, "-D") for k in (4, *range(10, 16))]
    assert sorted(found) == sorted([(0, 0, "-U"), (0, 20, "+U"), (9, 9, "+I"), *gone])
    assert {r["what"]: r["rows"] for r in table.diff(1, 3).stat()} == {
        "new": 1, "changed": 1, "deleted": 7, "column v": 1,
    }  # fmt: skip
    # One state is that of a tag whose snapshot has expired, so nobody knows what happened in between.
    table.create_tag("first", snapshot=1)
    table.expire(retain_min=1, retain_max=1)
    assert [(r["k"], r["v"], r["_rowkind"]) for r in table.diff("first", 3).to_arrow().to_pylist()] == found
