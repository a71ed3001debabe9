"""Compactions that belong to a batch: when they come, and what is seen when it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.compaction.options import compaction_options
from lakeidx.maintenance.after_commit import compact_after_commit
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_spec

VECTORS = {"deletion-vectors.enabled": "true"}
WAITS = {"lookup-wait": "true"}


def make(folder: Path, options: dict[str, str]) -> Table:
    spec = table_spec("k BIGINT, v STRING", ["k"], options={"bucket": "1", **options})
    return Table.create(f"{folder}/wh/d.db/t", spec)


def put(table: Table, *rows: tuple[int, str]) -> None:
    table.upsert(pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}))


def seen(table: Table) -> dict[int, str]:
    return {r["k"]: r["v"] for r in table.scan().to_arrow().to_pylist()}


def level_0(table: Table) -> int:
    return sum(e.file.level == 0 for e in load_view(table.metadata, table.snapshot).entries)


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        (VECTORS, False),
        ({**VECTORS, **WAITS}, True),
        ({**VECTORS, "changelog-producer.lookup-wait": "true"}, True),
        ({**VECTORS, "lookup-wait": "false"}, False),
        ({**VECTORS, **WAITS, "write-only": "true"}, False),
        ({"merge-engine": "first-row", **WAITS}, True),
        ({"changelog-producer": "lookup", **WAITS}, True),
        ({"force-lookup": "true", **WAITS}, True),
        # Nothing hides level 0: there is nothing to wait for.
        (WAITS, False),
    ],
)
def test_a_batch_waits_for_its_lookup_compaction_when_asked(
    tmp_path: Path, options: dict[str, str], waits: bool
) -> None:
    table = make(tmp_path, options)
    put(table, (1, "a"), (2, "b"))
    put(table, (2, "c"), (3, "d"))
    assert level_0(table) == (0 if waits else 2)
    assert table.metadata.latest_snapshot_id() == (4 if waits else 2)
    if waits:
        kept = "b" if "merge-engine" in options else "c"
        assert seen(table) == {1: "a", 2: kept, 3: "d"}


def test_the_changelog_of_a_batch_is_there_when_it_returns(tmp_path: Path) -> None:
    table = make(tmp_path, {"changelog-producer": "lookup", **WAITS})
    put(table, (1, "a"))
    put(table, (1, "b"), (2, "x"))
    changes: list[dict[str, Any]] = table.changes(2, mode="changelog").to_arrow().to_pylist()
    assert [(r["_rowkind"], r["k"], r["v"]) for r in changes] == [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "x")]


@pytest.mark.parametrize(
    ("interval", "trigger", "runs"), [("3", "2", 3), (None, "2", 4), ("1", "2", 2), (None, None, 10)]
)
def test_gentle_tables_let_level_0_wait(tmp_path: Path, interval: str | None, trigger: str | None, runs: int) -> None:
    """Java's bounds: twice the trigger unless set, and never below the trigger."""
    options = {**VECTORS, **WAITS, "lookup-compact": "gentle"}
    options |= {} if interval is None else {"lookup-compact.max-interval": interval}
    options |= {} if trigger is None else {"num-sorted-run.compaction-trigger": trigger}
    assert compaction_options(make(tmp_path / "options", options).schema).gentle_runs == runs
    # So large a trigger that universal compaction leaves level 0 alone.
    options |= {"num-sorted-run.compaction-trigger": "4", "lookup-compact.max-interval": "5"}
    table = make(tmp_path, options)
    found = []
    for number in range(6):
        put(table, (number, "v"))
        found.append(level_0(table))
    # The fourth run lets universal compaction take all; then the wait begins anew.
    assert found == [1, 2, 3, 0, 1, 2]


def test_a_gentle_table_is_emptied_at_the_interval_and_when_asked(tmp_path: Path) -> None:
    """With one large run above, ten small ones are below the trigger of universal compaction until the interval is reached."""
    options = {
        **VECTORS, **WAITS, "lookup-compact": "gentle", "num-sorted-run.compaction-trigger": "3",
        "lookup-compact.max-interval": "3", "compaction.size-ratio": "0",
    }  # fmt: skip
    table = make(tmp_path, options)
    put(table, *((k, "x" * 50) for k in range(500)))
    assert level_0(table) == 1
    assert seen(table) == {}
    table.compact()
    assert (level_0(table), len(seen(table))) == (0, 500)
    put(table, (1, "new"))
    assert (level_0(table), seen(table)[1]) == (1, "x" * 50)
    table.compact()
    assert (level_0(table), seen(table)[1]) == (0, "new")


def test_asking_again_does_nothing_more(tmp_path: Path) -> None:
    table = make(tmp_path, {**VECTORS, **WAITS})
    put(table, (1, "a"))
    newest = table.metadata.latest_snapshot_id()
    report = compact_after_commit(table.metadata, LocalRunner(1))
    assert report is not None
    assert (report.buckets, table.metadata.latest_snapshot_id()) == (0, newest)
