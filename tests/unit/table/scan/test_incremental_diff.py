"""The difference of two states against two plain dictionaries."""

from __future__ import annotations

import random
import shutil
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.paths import TablePaths
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import TRUE, filter_table
from lakeidx.predicate.parse import parse_where
from lakeidx.table.scan.incremental import IncrementalMode, plan_incremental
from lakeidx.table.scan.incremental_diff import plan_diff, read_diff
from lakeidx.table.scan.states import find_state
from lakeidx.tasks.runner import LocalRunner

FIELDS = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
NAMES = ["p", "k", "v"]
KINDS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "200"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}


def make(folder: Path, options: dict[str, str], keys: tuple[str, ...] = ("p", "k")) -> Table:
    spec = {"fields": FIELDS, "primaryKeys": list(keys), "partitionKeys": ["p"] if keys else [], "options": options}
    return Table.create(f"{folder}/d.db/t", spec)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_states_are_compared_by_key(kind: str, tmp_path: Path) -> None:
    table = make(tmp_path, KINDS[kind])
    generator = random.Random(kind)
    model: dict[int, str | None] = {}
    states: dict[int, dict[int, str | None]] = {}

    def remember() -> None:
        newest = table.snapshot
        assert newest is not None
        states[newest.id] = dict(model)

    for step in range(5):
        rows = []
        for k in generator.sample(range(30), 9):
            value = generator.choice((None, "a", "b"))
            delete = generator.random() < 0.3
            rows.append({"p": k % 2, "k": k, "v": value, "_kind": "-D" if delete else "+I"})
            if delete:
                model.pop(k, None)
            else:
                model[k] = value
        schema = table.schema.arrow_schema.append(pa.field("_kind", pa.string()))
        table.upsert(pa.Table.from_pylist(rows, schema=schema))
        if kind != "vectors":
            remember()
        if step % 2 or kind == "vectors":
            # With deletion vectors a batch reader sees compacted rows only.
            run_compaction(table.metadata, LocalRunner(1), full=True)
            remember()
    found_any = 0
    pairs = [(before, after) for before in states for after in states if after >= before]
    # Each pair of states with one filter, each filter with many pairs.
    for (before, after), where in zip(pairs, cycle((None, "v = 'a'", "k < 12", "p = 1 AND v IS NULL")), strict=False):
        predicate = TRUE if where is None else parse_where(where, table.schema.fields)
        plan = plan_diff(table.schema, find_state(table.metadata, before), find_state(table.metadata, after), predicate)
        rows_found = [r for u in plan.units for t in read_diff(table.metadata, plan, u, NAMES) for r in t.to_pylist()]
        old, new = states[before], states[after]
        expected = [{"p": k % 2, "k": k, "v": v} for k, v in new.items() if k not in old or old[k] != v]
        wanted = filter_table(predicate, pa.Table.from_pylist(expected, schema=table.schema.arrow_schema))
        assert sorted(map(str, rows_found)) == sorted(map(str, wanted.to_pylist())), (before, after, where)
        found_any += len(rows_found)
    assert found_any > 20


def test_states_with_the_same_files_need_no_reading(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    for p in (0, 1):
        table.upsert(pa.Table.from_pylist([{"p": p, "k": 1, "v": "x"}], schema=table.schema.arrow_schema))
    first, second = (find_state(table.metadata, i) for i in (1, 2))
    plan = plan_diff(table.schema, first, second, TRUE)
    assert [len(u.after) for u in plan.units] == [1]  # partition 0 is the same in both
    assert plan_diff(table.schema, second, second, TRUE).units == ()


def test_what_has_no_difference_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "-1"}, keys=())
    table.upsert(pa.Table.from_pylist([{"p": 1, "k": 1, "v": "x"}], schema=table.schema.arrow_schema))
    state = find_state(table.metadata, 1)
    with pytest.raises(UnsupportedError, match="primary key"):
        plan_diff(table.schema, state, state, TRUE)
    with pytest.raises(InvalidInputError, match="compares two states"):
        plan_incremental(table.metadata, table.schema, 0, 1, mode=IncrementalMode.DIFF)


def test_branches_are_compared(tmp_path: Path) -> None:
    """A branch as Java makes it, copies of a snapshot and of the schemas; each then lives on by itself."""
    table = make(tmp_path, {"bucket": "1"})
    rows = [{"p": 0, "k": k, "v": "x"} for k in range(4)]
    table.upsert(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema))
    branch = Table(table.store, TablePaths.of(table.uri, table.schema, branch="dev"))
    for name in ("schema/schema-0", "snapshot/snapshot-1"):
        (Path(branch.paths.branch_root) / name).parent.mkdir(parents=True)
        shutil.copy(Path(table.uri) / name, Path(branch.paths.branch_root) / name)
    branch.upsert(pa.table({"p": [0, 0], "k": [1, 9], "v": ["branch", "branch"]}))
    table.upsert(pa.table({"p": [0, 0], "k": [1, 2], "v": ["main", "main"]}))

    def found(*states: str) -> list[tuple[object, ...]]:
        return [tuple(r.values())[1:] for r in table.diff(*states).to_arrow().to_pylist()]

    assert found("2", "branch:dev") == [
        (1, "main", "-U"), (1, "branch", "+U"), (2, "main", "-U"), (2, "x", "+U"), (9, "branch", "+I"),
    ]  # fmt: skip
    assert found("branch:dev@1", "branch:dev") == [(1, "x", "-U"), (1, "branch", "+U"), (9, "branch", "+I")]
    assert found("branch:dev", "1") == [(1, "branch", "-U"), (1, "x", "+U"), (9, "branch", "-D")]
    with pytest.raises(InvalidInputError, match="commits are those of one branch"):
        table.changes(1, "branch:dev")
    branch.alter(add={"w": "INT"})
    branch.upsert(pa.table({"p": [0], "k": [9], "v": ["branch"], "w": [7]}))
    assert found("2", "branch:dev@3")[-1] == (9, "branch", 7, "+I")
    table.alter(add={"other": "STRING"})
    with pytest.raises(UnsupportedError, match="both branches have added columns since they parted"):
        table.diff("2", "branch:dev")
