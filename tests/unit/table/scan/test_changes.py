"""Changes with row kinds against plain dictionaries: applied to the earlier state they give the later one."""

from __future__ import annotations

import random
import shutil
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.paths import TablePaths
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import TRUE, filter_table
from lakeidx.predicate.parse import parse_where
from lakeidx.table.scan import incremental_diff
from lakeidx.table.scan.changes import scan_changes
from lakeidx.table.scan.incremental import IncrementalMode, plan_incremental
from lakeidx.table.scan.incremental_diff import plan_diff, read_diff
from lakeidx.table.scan.states import find_state
from lakeidx.tasks.runner import LocalRunner

NAMES = ["p", "k", "v"]
FIELDS = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
KINDS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "200"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}
State = dict[int, str | None]


def make(folder: Path, options: dict[str, str], keys: tuple[str, ...] = ("p", "k")) -> Table:
    spec = {"fields": FIELDS, "primaryKeys": list(keys), "partitionKeys": ["p"] if keys else [], "options": options}
    return Table.create(f"{folder}/d.db/t", spec)


def write(table: Table, changes: list[tuple[int, str | None, str]]) -> None:
    """(key, value, row kind) of one batch."""
    schema = table.schema.arrow_schema.append(pa.field("_kind", pa.string()))
    rows = [{"p": k % 2, "k": k, "v": v, "_kind": kind} for k, v, kind in changes]
    table.upsert(pa.Table.from_pylist(rows, schema=schema))


def history(table: Table, seed: str, *, compact: bool) -> dict[int, State]:
    """A random history; the state at each snapshot that readers see, 0 being the empty table."""
    r = random.Random(seed)
    model: State = {}
    states: dict[int, State] = {0: {}}
    for _ in range(4):
        batch: list[tuple[int, str | None, str]] = []
        for k in r.sample(range(30), 9):
            value = r.choice((None, "a", "b"))
            if r.random() < 0.3:
                batch.append((k, value, "-D"))
                model.pop(k, None)
            else:
                batch.append((k, value, "+I"))
                model[k] = value
        write(table, batch)
        assert table.snapshot is not None
        if not compact:
            states[table.snapshot.id] = dict(model)
        elif run_compaction(table.metadata, LocalRunner(1), full=True):
            assert table.snapshot is not None
            states[table.snapshot.id] = dict(model)
    return states


def apply(state: State, rows: list[dict[str, Any]]) -> State:
    """The state after the changes; every change must fit what is there."""
    out = dict(state)
    for row in rows:
        k, v, kind = row["k"], row["v"], row["_rowkind"]
        if kind in ("-U", "-D"):
            assert out.pop(k, "missing") == v, row
        else:
            assert k not in out, row
            out[k] = v
    return out


def read(table: Table, after: int, upto: int, mode: IncrementalMode, **rest: Any) -> list[dict[str, Any]]:
    ends = [find_state(table.metadata, n) for n in (after, upto)]
    found: list[dict[str, Any]] = scan_changes(table.schema, *ends, mode=mode, **rest).to_arrow().to_pylist()
    return found


@pytest.fixture(scope="module", params=KINDS)
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, dict[int, State]]:
    """A table of each kind with its history; tests only read it."""
    kind: str = request.param
    table = make(tmp_path_factory.mktemp(kind), KINDS[kind])
    return table, history(table, kind, compact=kind == "vectors")


@pytest.mark.slow
@pytest.mark.parametrize("slice_keys", [2_000_000, 4])
def test_a_diff_leads_from_one_state_to_the_other(
    lived: tuple[Table, dict[int, State]], slice_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental_diff, "SLICE_KEYS", slice_keys)
    table, states = lived
    for number, before in enumerate(states):
        for after in [s for s in states if s >= max(before, 1)][number % 2 :: 2]:
            rows = read(table, before, after, IncrementalMode.DIFF)
            old, new = states[before], states[after]
            expected = [(k, old[k], "-D") for k in old.keys() - new.keys()]
            expected += [(k, new[k], "+I") for k in new.keys() - old.keys()]
            for k in old.keys() & new.keys():
                expected += [(k, old[k], "-U"), (k, new[k], "+U")] if old[k] != new[k] else []
            assert sorted((r["k"], str(r["v"]), r["_rowkind"]) for r in rows) == sorted(
                (k, str(v), kind) for k, v, kind in expected
            )
            assert apply(old, rows) == new
    latest = max(states)
    filtered = read(table, 0, latest, IncrementalMode.DIFF, predicate=parse_where("v = 'a'", table.schema.fields))
    assert {r["k"] for r in filtered} == {k for k, v in states[latest].items() if v == "a"}


def test_records_keep_the_kinds_they_were_written_with(tmp_path: Path) -> None:
    table = make(tmp_path, KINDS["fixed"])
    write(table, [(1, "a", "+I"), (2, "b", "+I")])
    write(table, [(1, None, "-D"), (2, "c", "+U")])
    found = scan_changes(table.schema, find_state(table.metadata, 0), find_state(table.metadata, 2), columns=["k", "v"])
    assert found.arrow_schema.names == ["k", "v", "_rowkind"]
    rows = sorted((r["k"], str(r["v"]), r["_rowkind"]) for r in pa.table(found).to_pylist() if r["v"] != "b")
    assert rows == [(1, "None", "-D"), (1, "a", "+I"), (2, "c", "+U")]


def test_files_that_both_states_share_are_read_for_changed_keys_only(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    write(table, [(k, "x", "+I") for k in range(0, 20_000, 2)])
    write(table, [(2, "y", "+I"), (4, None, "-D")])
    plan = plan_diff(table.schema, find_state(table.metadata, 1), find_state(table.metadata, 2), TRUE)
    (unit,) = plan.units
    (rows,) = incremental_diff.read_changed_rows(table.metadata, plan, unit, ["k", "v"])
    assert [tuple(r.values()) for r in rows.to_pylist()] == [(2, "x", "-U"), (2, "y", "+U"), (4, "x", "-D")]


def test_ranges_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1"})
    write(table, [(1, "a", "+I")])
    with pytest.raises(InvalidInputError, match="the first must not be greater"):
        read(table, 1, 0, IncrementalMode.DERIVED)
    with pytest.raises(NotFoundError):
        read(table, 1, 7, IncrementalMode.DIFF)


@pytest.mark.slow
def test_the_rows_of_a_difference(lived: tuple[Table, dict[int, State]]) -> None:
    table, states = lived
    found_any = 0
    pairs = [(before, after) for before in states if before for after in states if after >= before]
    # Each pair of states with one filter, each filter with many pairs.
    for (before, after), where in zip(pairs, cycle((None, "v = 'a'", "k < 12", "p = 1 AND v IS NULL")), strict=False):
        predicate = TRUE if where is None else parse_where(where, table.schema.fields)
        plan = plan_diff(table.schema, find_state(table.metadata, before), find_state(table.metadata, after), predicate)
        found = [r for u in plan.units for t in read_diff(table.metadata, plan, u, NAMES) for r in t.to_pylist()]
        old, new = states[before], states[after]
        expected = [{"p": k % 2, "k": k, "v": v} for k, v in new.items() if k not in old or old[k] != v]
        wanted = filter_table(predicate, pa.Table.from_pylist(expected, schema=table.schema.arrow_schema))
        assert sorted(map(str, found)) == sorted(map(str, wanted.to_pylist())), (before, after, where)
        found_any += len(found)
    assert found_any > 10


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
