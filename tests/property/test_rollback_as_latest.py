"""A rollback that keeps the history: every older state can be the newest again, whatever expires afterwards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.errors import NotFoundError

FIELDS = [{"name": n, "type": t} for n, t in (("p", "INT"), ("k", "INT"), ("v", "INT"))]
TABLES: list[tuple[list[str], dict[str, str]]] = [
    (["p", "k"], {"bucket": "2", "file-index.bloom-filter.columns": "v"}),
    (["p", "k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    (["p", "k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    (["p", "k"], {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    (["k"], {"bucket": "-1"}),
    ([], {"bucket": "-1"}),
]


def content(table: lakeidx.Table, **state: Any) -> list[tuple[int, ...]]:
    return sorted(tuple(r.values()) for r in table.scan(**state).to_arrow().to_pylist())


@pytest.mark.parametrize(("key", "options"), TABLES)
@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_the_old_state_for_good(tmp_path: Path, key: list[str], options: dict[str, str], seed: int) -> None:
    rng = random.Random(seed)
    spec = {"fields": FIELDS, "primaryKeys": key, "partitionKeys": ["p"], "options": options}
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    states: dict[int, list[tuple[int, ...]]] = {}
    for turn in range(14):
        rows = [{"p": rng.randrange(2), "k": k, "v": turn} for k in rng.sample(range(9), 3)]
        kind = rng.choice(["upsert", "upsert", "compact", "drop", "back", "back"]) if turn > 2 else "upsert"
        if kind == "compact" or (options.get("deletion-vectors.enabled") and turn == 2):
            table.compact(full=True)
        elif kind == "drop" and key != ["k"]:
            table.drop_partitions(where=f"p = {rng.randrange(2)}")
        elif kind == "back":
            to = rng.choice(list(states))
            before, plan = set(states), table.rollback(to, keep_history=True, dry_run=True)
            assert content(table) == states[max(states)]
            assert plan.dry_run
            table.rollback(to, keep_history=True)
            assert content(table) == states[to]
            assert before <= {s["id"] for s in table.snapshots()}
        else:
            table.upsert(rows)
        assert table.snapshot is not None
        states |= {s["id"]: content(table, snapshot=s["id"]) for s in table.snapshots() if s["id"] not in states}
        if rng.random() < 0.3:
            table.expire(retain_min=1, retain_max=rng.choice([1, 2, 4]), retain_time="1 ms", staging=False)
            table.orphans(older_than="0 s", remove=True)
            states = {s["id"]: states[s["id"]] for s in table.snapshots()}
        fresh = lakeidx.Table.open(table.uri)
        assert content(fresh) == states[max(states)]
        for number, rows_then in states.items():
            assert content(fresh, snapshot=number) == rows_then
    assert [r.name for r in table.verify().results if not r.passed and r.severity == "error"] == []


def test_what_can_be_named(tmp_path: Path) -> None:
    table = lakeidx.Table.create(tmp_path / "t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    for k in (1, 2, 3):
        table.upsert([{"p": 0, "k": k, "v": 0}])
    table.create_tag("first", snapshot=1)
    table.expire(retain_min=1, retain_max=1, retain_time="1 ms")
    with pytest.raises(NotFoundError):
        table.rollback(1, keep_history=True)
    done = table.rollback(tag="first", keep_history=True)
    assert (done.snapshot, done.snapshots_gone, content(table)) == (4, [], [(0, 1, 0)])
    # It has that state already.
    assert table.rollback(tag="first", keep_history=True).snapshot == 4
    assert content(table, snapshot=3) == [(0, 1, 0), (0, 2, 0), (0, 3, 0)]
