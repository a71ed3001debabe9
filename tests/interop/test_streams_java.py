"""Streams of lakeidx and of Java over the same histories, and consumers that either of them goes on with."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.position import Position
from lakeidx.table.stream.start import Start, StartMode
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon
from tests.kit.small_tables import make_table, upsert

pytestmark = pytest.mark.interop

FIXED = {"bucket": "1"}
TABLES: dict[str, dict[str, str]] = {
    "none": FIXED,
    "input": {**FIXED, "changelog-producer": "input"},
    "lookup": {**FIXED, "changelog-producer": "lookup"},
    "full compaction": {**FIXED, "changelog-producer": "full-compaction"},
    "lookup, vectors": {**FIXED, "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
}
Rows = list[tuple[Any, ...]]


def history(folder: Path, options: dict[str, str]) -> tuple[Table, JavaPaimon]:
    """Batches and compactions of lakeidx, the last of them by Java."""
    made = make_table(folder, options=options)
    table, java = Table.open(made.uri), JavaPaimon(f"{folder}/wh", "d.t")
    r = random.Random(str(options))
    for number in range(7):
        keys = r.sample(range(20), 8)
        upsert(table, [(k % 2, k, f"{number}") for k in keys], [r.choice(("+I", "+I", "-D")) for _ in keys])
        if number == 3 or r.random() < 0.4:
            run_compaction(table.metadata, LocalRunner(1), full=number == 3)
    java.run("compact")
    upsert(table, [(1, 1, "last")])
    return table, java


def of_java(lines: list[Any]) -> list[Rows]:
    """Rows of each plan of a stream that has some, by value."""
    return [sorted((int(r["p"]), int(r["k"]), r["v"], r["_rowkind"]) for r in line) for line in lines]


def of_ours(table: Table, start: Start, **options: Any) -> list[Rows]:
    """The same of lakeidx."""
    found = [s.changes.to_arrow().to_pylist() for s in table.follow(start, **options)]
    return [sorted((r["p"], r["k"], r["v"], r["_rowkind"]) for r in rows) for rows in found if rows]


@pytest.mark.parametrize("name", TABLES)
def test_streams_give_what_java_gives(tmp_path: Path, name: str) -> None:
    table, java = history(tmp_path, TABLES[name])
    middle = table.metadata.load_snapshot(4)
    time = str(middle.time_millis)
    starts: list[tuple[Start, list[str]]] = [
        (Start(), []),
        (Start(StartMode.LATEST), ["scan.mode=latest"]),
        (Start(StartMode.COMPACTED_FULL), ["scan.mode=compacted-full"]),
        (Start(StartMode.FROM_SNAPSHOT, 1), ["scan.mode=from-snapshot", "scan.snapshot-id=1"]),
        (Start(StartMode.FROM_SNAPSHOT, 4), ["scan.snapshot-id=4"]),
        (Start(StartMode.FROM_SNAPSHOT_FULL, 4), ["scan.mode=from-snapshot-full", "scan.snapshot-id=4"]),
        (Start(StartMode.FROM_TIMESTAMP, timestamp_ms=middle.time_millis), [f"scan.timestamp-millis={time}"]),
    ]
    for start, options in starts:
        found = of_ours(table, start)
        assert found == of_java(java.json("follow", *options)), start
        assert bool(found) is (start.mode is not StartMode.LATEST)


def test_consumers_and_leases_of_either_side(tmp_path: Path) -> None:
    table, java = history(tmp_path, TABLES["input"])
    newest = table.metadata.latest_snapshot_id()
    assert newest is not None
    # Java goes on where lakeidx stopped, and the other way round.
    steps = table.follow("1", consumer="c")
    assert [next(steps).snapshot.id for _ in range(4)] == [1, 2, 3, 4]
    steps.close()
    path = Path(table.uri) / "consumer/consumer-c"
    assert json.loads(path.read_text())["nextSnapshot"] == 4
    rest = of_ours(table, Start(StartMode.FROM_SNAPSHOT, 4))
    assert of_java(java.json("follow", "consumer-id=c", "consumer.expiration-time=1 h")) == rest
    assert json.loads(path.read_text()) == {"nextSnapshot": newest + 1}
    upsert(table, [(0, 50, "more")])
    assert of_ours(table, Start(), consumer="c") == [[(0, 50, "more", "+I")]]
    # Java's expiry leaves what a running stream has not read.
    with StreamConsumer(table.metadata) as lease:
        lease.record(Position(5))
        java.run("expire")
        assert table.metadata.snapshot_ids()[0] == 6
        lease.record(Position(7))
        java.run("expire")
        assert table.metadata.snapshot_ids()[0] == 8
    java.run("expire")
    assert table.metadata.snapshot_ids() == [newest + 1]
