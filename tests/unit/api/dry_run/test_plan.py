"""A dry run says what the run that follows does, and leaves every file of the warehouse as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.dry_run.plan import BatchPlan
from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.errors import BatchHeldError, InvalidInputError
from tests.kit.command_line import answer, call
from tests.unit.api.test_verbs import TABLES, content, make, row

Verb = Callable[..., BatchResult | None]
NEW = [row(1, "one", 100), row(2, "n2", 2), row(50, "new", 50), {**row(4, "moved", 400), "p": 0}]
VERBS: dict[str, Callable[[Table], Verb]] = {
    "upsert": lambda t: lambda **given: t.upsert(NEW if t.schema.is_cross_partition else NEW[:3], **given),
    "overwrite": lambda t: lambda **given: t.overwrite(NEW[:3], whole_table=True, **given),
    "delete by key": lambda t: lambda **given: t.delete(pa.table({n: [1, 99] for n in t.schema.primary_keys}), **given),
    "delete": lambda t: lambda **given: t.delete(where="k < 7", **given),
    "update": lambda t: lambda **given: t.update({"qty": "qty + 1"}, where="k >= 7 AND k < 13", **given),
    "merge": lambda t: (
        t.merge(pa.table({"k": [3, 4, 60], "p": [0, 1, 0], "qty": [30, 40, 60]}), on=["p", "k"])
        .when_matched_delete("source.k = 3")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute
    ),
}


MORE = {
    "memory": {**TABLES["cross-partition"], "options": {"bucket": "-1", "index.type": "inmemory"}},
    "vectors, seen later": {"options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "vectors across partitions": {
        **TABLES["cross-partition"],
        "options": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    },
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def measured(result: BatchResult) -> tuple[int, ...]:
    write = result.write
    return result.rows, write.buckets, write.data_files, write.data_bytes, write.index_files, write.index_bytes


def counts(before: Mapping[int, Any], after: Mapping[int, Any]) -> dict[str, int]:
    both = before.keys() & after.keys()
    moved = {k for k in both if before[k]["p"] != after[k]["p"]}
    return {
        "inserts": len(after.keys() - before),
        "updates": sum(before[k] != after[k] for k in both - moved),
        "deletes": len(before.keys() - after),
        "moved": len(moved),
    }


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", [*TABLES, *MORE])
def test_a_dry_run_says_what_the_run_does_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, verb: str
) -> None:
    monkeypatch.setattr("tests.unit.api.test_verbs.TABLES", TABLES | MORE)
    table = make(tmp_path, kind)
    table.upsert([row(k, f"n{k}", k) for k in range(20)])
    if "seen" in kind or "across" in kind:
        table.compact()
    there, before = files(tmp_path), content(table)
    run = VERBS[verb](table)

    plan = run(dry_run=True)
    assert files(tmp_path) == there
    assert isinstance(plan, BatchPlan)

    result = run()
    assert result is not None
    assert measured(plan) == measured(result)
    if "seen" in kind or "across" in kind:
        table.compact()
    after = content(table)
    wanted = counts(before, after)
    assert plan.changes == wanted
    assert plan.memory
    told = table.explain_batch(result)
    assert told.as_dict().keys() - {"snapshots"} == plan.as_dict().keys()
    assert (told.dry_run, told.changes, told.partitions) == (False, wanted, plan.partitions)
    assert told.memory
    if table.schema.partition_keys:
        sums = {n: sum(p[n] for p in plan.partitions) for n in ("inserts", "updates", "deletes", "moved_in")}
        assert list(sums.values()) == list(wanted.values())
    for change in plan.sample:
        k = (change["before"] or change["after"])["k"]
        for side, model in (("before", before), ("after", after)):
            if change[side] is not None:
                price = model[k]["price"]
                assert change[side] == {**model[k], "price": None if price is None else str(price)}


def test_a_plan_says_what_limits_would_hold_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    table = make(tmp_path, "partitioned")
    table.upsert([row(k, f"n{k}", k) for k in range(20)])
    there = files(tmp_path)
    plan = table.delete(where="k < 7", limits="deletes=5%", batch_id="b", dry_run=True)
    assert isinstance(plan, BatchPlan)
    assert plan.deletes == 7
    assert "beyond the limit deletes 5%" in plan.beyond[0]
    assert plan.beyond[0] in str(plan)
    with pytest.raises(InvalidInputError):
        table.overwrite([row(1, "x", 1)], where="p = 2", dry_run=True)
    assert table.delete(where="k > 1000", dry_run=True) is None
    assert files(tmp_path) == there


def test_an_index_outside_the_table_hears_nothing_of_what_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of a dry run, nor of the compaction after a held batch that is scanned."""
    told = []
    update = StateKeyIndex.begin_update

    def recording(index: StateKeyIndex, *given: Any) -> Any:
        told.append(given)
        return update(index, *given)

    monkeypatch.setattr(StateKeyIndex, "begin_update", recording)
    table = make(tmp_path, "cross-partition", **{"commit.force-compact": "true"})
    table.upsert([row(k, f"n{k}", k) for k in range(20)])
    assert told
    told.clear()
    plan = table.upsert(NEW, dry_run=True)
    assert isinstance(plan, BatchPlan)
    assert plan.moved == 1
    with pytest.raises(BatchHeldError):
        table.upsert(NEW, limits="updates=0", batch_id="held")
    assert len(table.scan(batch="held").to_arrow()) == 21
    assert not told
    table.release_batch("held")
    assert told


def test_dry_runs_on_the_command_line(tmp_path: Path) -> None:
    table = make(tmp_path, "fixed")
    table.upsert([row(k, f"n{k}", k) for k in range(20)])
    source = tmp_path / "rows.json"
    new = [{**r, "price": str(Decimal(1))} for r in (row(1, "one", 1), row(50, "new", 2))]
    source.write_text("\n".join(map(json.dumps, [*new, {"k": "no number"}])))
    good = tmp_path / "good.json"
    good.write_text("\n".join(map(json.dumps, new)))
    there = files(tmp_path)
    said = {}
    for command in (
        ["upsert", table.uri, str(source)],
        ["delete", table.uri, "--where", "k < 3"],
        ["update", table.uri, "--set", "qty = 7", "--where", "k < 3"],
        ["merge", table.uri, str(good), "--on", "p,k"],
    ):
        plan = answer(*command, "--dry-run", "--no-progress")
        said[command[0]] = [plan[n] for n in ("dryRun", "inserts", "updates", "deletes", "rejected")]
    assert said == {
        "upsert": [True, 1, 1, 0, 1],
        "delete": [True, 0, 0, 3, 0],
        "update": [True, 0, 3, 0, 0],
        "merge": [True, 1, 1, 0, 0],
    }
    assert files(tmp_path) == there

    call("upsert", table.uri, good, "--batch-id", "b1", "--no-progress")
    told = answer("batch", "show", table.uri, "b1", "--json")
    assert [told[n] for n in ("dryRun", "inserts", "updates", "deletes", "batch")] == [False, 1, 1, 0, "b1"]
    call("batch", "show", table.uri, "b2", code=2)
