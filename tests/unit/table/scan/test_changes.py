"""Changes with row kinds against plain dictionaries: applied to the earlier state they give the later one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import TRUE
from lakeidx.predicate.parse import parse_where
from lakeidx.table.scan import incremental_diff
from lakeidx.table.scan.changes import scan_changes
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.states import find_state
from lakeidx.tasks.runner import LocalRunner

FIELDS = [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
KINDS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "200"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}
State = dict[int, str | None]


def make(folder: Path, options: dict[str, str]) -> Table:
    spec = {"fields": FIELDS, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": options}
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


@pytest.mark.slow
def test_a_diff_is_the_full_outer_join_of_two_scans(lived: tuple[Table, dict[int, State]]) -> None:
    table, states = lived
    numbers = sorted(n for n in states if n)
    for before, after in ((numbers[0], numbers[-1]), (numbers[1], numbers[2])):
        scans = (table.scan(snapshot=n).to_arrow() for n in (before, after))
        old, new = (rows.append_column("there", [["yes"] * rows.num_rows]) for rows in scans)
        joined = old.join(new, ["p", "k"], join_type="full outer", right_suffix="_new").to_pylist()
        expected = [(r["k"], r["v"], "-D") for r in joined if not r["there_new"]]
        expected += [(r["k"], r["v_new"], "+I") for r in joined if not r["there"]]
        for r in joined:
            if r["there"] and r["there_new"] and r["v"] != r["v_new"]:
                expected += [(r["k"], r["v"], "-U"), (r["k"], r["v_new"], "+U")]
        found = [(r["k"], r["v"], r["_rowkind"]) for r in table.diff(before, after).to_arrow().to_pylist()]
        assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.slow
def test_a_derived_changelog_builds_the_table(lived: tuple[Table, dict[int, State]]) -> None:
    table, states = lived
    for number, before in enumerate(states):
        for after in [s for s in states if s > before][number % 2 :: 2]:
            assert apply(states[before], read(table, before, after, IncrementalMode.DERIVED)) == states[after]


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
    plan = incremental_diff.plan_diff(table.schema, find_state(table.metadata, 1), find_state(table.metadata, 2), TRUE)
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
