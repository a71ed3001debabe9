"""Streams of Spark without Spark: batches as it runs them, with crashes between any two of its steps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import table_spec

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.streams.reader import TableStreamReader

SPEC = table_spec("p INT, k BIGINT, v STRING", ["p", "k"], partitions=["p"], options={"bucket": "2"})
State = dict[tuple[int, int], str]


class Checkpoint:
    """What Spark keeps: the end of each batch before it runs, and whether it was finished."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.finished = 0


class Query:
    """One run of a streaming query; `rows` is what its sink holds, batch by batch."""

    def __init__(self, table: Table, checkpoint: Checkpoint, **options: str) -> None:
        given = {"path": table.uri, "read.changelog": "true", "source.split.target-size": "1 b", **options}
        parsed = ReadOptions.parse(given)
        names = table.schema.field_names
        schema = parsed.layout.arrow_schema(table.schema, names)
        self.reader = TableStreamReader(parsed, schema.names, schema)
        self.checkpoint = checkpoint

    def batch(self, sink: dict[int, list[dict[str, Any]]], die: Iterator[bool], *, everything: bool = False) -> bool:
        """Run one batch as Spark's MicroBatchExecution does; False when there was nothing to read. `Died` when it died."""
        log, reader = self.checkpoint, self.reader
        start = json.loads(log.ends[log.finished - 1]) if log.finished else reader.initialOffset()
        if len(log.ends) == log.finished:
            limit = ReadAllAvailable() if everything else reader.getDefaultReadLimit()
            end = reader.latestOffset(start, limit)
            if end == start:
                return False
            _maybe(die)
            log.ends.append(json.dumps(end))
        _maybe(die)
        splits = reader.partitions(start, json.loads(log.ends[log.finished]))
        rows = [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]
        _maybe(die)
        sink[log.finished] = rows  # A sink that is idempotent by batch number.
        _maybe(die)
        log.finished += 1
        reader.commit(json.loads(log.ends[log.finished - 1]))
        return True


class Died(Exception):
    """The driver is gone."""


def _maybe(die: Iterator[bool]) -> None:
    if next(die):
        raise Died


def never() -> Iterator[bool]:
    while True:
        yield False


def drain(query: Query, **options: Any) -> list[dict[str, Any]]:
    """Run batches until there is nothing to read."""
    sink: dict[int, list[dict[str, Any]]] = {}
    while query.batch(sink, never(), **options):
        pass
    return [row for number in sorted(sink) for row in sink[number]]


def apply(state: State, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["_rowkind"] in ("-D", "-U"):
            state.pop((row["p"], row["k"]), None)
        else:
            state[row["p"], row["k"]] = row["v"]


def write(table: Table, rows: State, deleted: list[tuple[int, int]] | None = None) -> None:
    keys = [*rows, *(deleted or [])]
    table.upsert(
        pa.table({
            "p": pa.array([p for p, _ in keys], pa.int32()),
            "k": [k for _, k in keys],
            "v": [*rows.values(), *("" for _ in deleted or [])],
            "_kind": ["+I"] * len(rows) + ["-D"] * len(deleted or []),
        })
    )  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(f"{tmp_path}/d.db/t", SPEC)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table_options", "options"),
    [
        ({}, {"maxFilesPerTrigger": "1"}),
        ({}, {"read.stream.maxRowsPerTrigger": "7", "incremental-between-scan-mode": "derived"}),
        ({"changelog-producer": "lookup"}, {"maxBytesPerTrigger": "3 kb"}),
        ({"changelog-producer": "input"}, {}),
    ],
    ids=["files", "rows", "bytes", "all"],
)
def test_each_row_once_whatever_dies(tmp_path: Path, table_options: dict[str, str], options: dict[str, str]) -> None:
    table = Table.create(f"{tmp_path}/d.db/t", {**SPEC, "options": {"bucket": "2", **table_options}})
    r = random.Random(f"{options}")
    model: State = {}
    modes = ("latest-full", "from-snapshot", "compacted-full")
    logs = {m: (Checkpoint(), dict[int, list[dict[str, Any]]]()) for m in modes}
    die = iter(lambda: r.random() < 0.15, None)
    deaths = 0
    for number in range(5):
        keys = r.sample([(p, k) for p in range(2) for k in range(12)], 10)
        rows, deleted = {key: r.choice("abc") for key in keys[:7]}, keys[7:]
        write(table, rows, deleted)
        model.update(rows)
        for key in deleted:
            model.pop(key, None)
        if number == 4 or r.random() < 0.4:
            run_compaction(table.metadata, LocalRunner(1), full=number == 4)
        for mode, (log, sink) in logs.items():
            ended = number < 2 and r.random() < 0.5
            while not ended:
                start = {"scan.snapshot-id": "1"} if mode == "from-snapshot" else {}
                query = Query(table, log, **{"scan.mode": mode, **start, **options})
                try:
                    while query.batch(sink, never() if number == 4 and r.random() < 0.1 else die):
                        pass
                    ended = True
                except Died:
                    deaths += 1
                finally:
                    query.reader.stop()
    assert deaths > 2
    for mode, (log, sink) in logs.items():
        state: State = {}
        for number in range(log.finished):
            apply(state, sink[number])
        assert state == model, mode
    assert len(logs["latest-full"][0].ends) > (5 if options else 0)
    assert list((Path(table.uri) / "consumer").iterdir()) == []


@pytest.mark.slow
def test_limits_count_what_they_name(table: Table) -> None:
    for number in range(3):
        write(table, {(p, 10 * number + k): "a" for p in range(2) for k in range(6)})
    files = len(table.files())
    assert files > 6
    for options, most in (({"maxFilesPerTrigger": "2"}, 2), ({"maxFilesPerTrigger": "5"}, 5)):
        query = Query(table, Checkpoint(), **{"scan.mode": "from-snapshot", "scan.snapshot-id": "1", **options})
        sink: dict[int, list[dict[str, Any]]] = {}
        while query.batch(sink, never()):
            pass
        query.reader.stop()
        assert len(sink) == -(-files // most)
        assert sum(map(len, sink.values())) == 36
    sink = {}
    assert Query(table, Checkpoint(), maxFilesPerTrigger="1").batch(sink, never(), everything=True)
    assert len(sink[0]) == 36


def test_available_now_leaves_what_comes_later(table: Table) -> None:
    write(table, {(0, 1): "a"})
    log = Checkpoint()
    query = Query(table, log, maxFilesPerTrigger="1")
    query.reader.prepareForTriggerAvailableNow()
    write(table, {(0, 2): "a"})
    query.reader.stop()
    for options in ({"maxFilesPerTrigger": "1"}, {}):
        later = Query(table, log, **options)
        drain(later)
        later.reader.prepareForTriggerAvailableNow()
        write(table, {(0, 3): "a"})
        assert drain(later) == []
        later.reader.stop()
    assert [r["k"] for r in drain(Query(table, log))] == [3]


@pytest.mark.slow
def test_each_start_mode_begins_at_its_snapshot(table: Table) -> None:
    def keys(mode: str, **more: str) -> list[int]:
        query = Query(
            table, Checkpoint(), **{"scan.mode": mode, **{f"scan.{k}".replace("_", "-"): v for k, v in more.items()}}
        )
        found = drain(query)
        write(table, {(0, 9): "z"})
        later = drain(query)
        query.reader.stop()
        assert [r["k"] for r in later] == [9]
        return sorted(r["k"] for r in found)

    assert keys("latest") == []  # Of a table that was empty then, too, the first commit is not left out.
    write(table, {(0, 1): "a"})
    run_compaction(table.metadata, LocalRunner(1), full=True)
    write(table, {(0, 2): "b"})
    second = table.snapshot
    assert second is not None
    first_time = str(table.metadata.load_snapshot(1).time_millis)
    # The 9 is written again after each stream.
    assert keys("default") == [1, 2, 9]
    assert keys("latest-full") == [1, 2, 9]
    assert keys("latest") == []
    assert keys("compacted-full") == [1, 2, 9, 9, 9, 9]
    assert keys("from-snapshot-full", snapshot_id=str(second.id)) == [1, 2, *[9] * 5]
    assert keys("from-snapshot", snapshot_id=str(second.id)) == [2, *[9] * 5]
    assert keys("default", snapshot_id=str(second.id + 1)) == [9] * 6
    assert keys("from-timestamp", timestamp_millis=first_time) == [1, 2, *[9] * 8]
    assert keys("default", timestamp_millis=first_time) == [1, 2, *[9] * 9]
    newest = table.snapshot
    assert newest is not None
    assert keys("from-timestamp", timestamp_millis=str(newest.time_millis + 1)) == []


def test_a_consumer_keeps_what_a_stream_has_not_done(table: Table) -> None:
    def consumers() -> dict[str, int]:
        folder = Path(table.uri) / "consumer"
        return {f.name: json.loads(f.read_text())["nextSnapshot"] for f in folder.iterdir()}

    for k in range(3):
        write(table, {(0, k): "a"})
    begin = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    query = Query(table, log := Checkpoint(), maxRowsPerTrigger="1", **begin)
    sink: dict[int, list[dict[str, Any]]] = {}
    assert query.batch(sink, never())
    assert query.batch(sink, never())
    assert list(consumers().values()) == [3]
    query.reader.stop()
    assert consumers() == {}
    named = {"consumer-id": "c", **begin}
    drain(query := Query(table, log, **named))
    query.reader.stop()
    assert consumers() == {"consumer-c": 4}
    write(table, {(0, 7): "b"})
    # A query with a new checkpoint resumes at the consumer's position.
    assert [r["k"] for r in drain(Query(table, Checkpoint(), **named))] == [7]
    again = drain(Query(table, Checkpoint(), **named, **{"consumer.ignore-progress": "true"}))
    assert sorted(r["k"] for r in again) == [0, 1, 2, 7]


def test_what_stops_a_stream_is_said(table: Table) -> None:
    def latest(position: dict[str, Any], **options: str) -> dict[str, Any]:
        reader = Query(table, Checkpoint(), **options).reader
        try:
            return reader.latestOffset(position, reader.getDefaultReadLimit())
        finally:
            reader.stop()

    for k in range(4):
        write(table, {(0, k): "a", (1, k): "a"})
    Path(table.paths.snapshot_path(1)).unlink()
    Path(table.paths.snapshot_path(2)).unlink()
    Path(table.paths.earliest).unlink(missing_ok=True)
    with pytest.raises(NotFoundError, match="to continue with snapshot 2, but snapshot 2 has expired; the oldest is 3"):
        latest({"snapshot": 1}, maxFilesPerTrigger="1")
    with pytest.raises(InvalidInputError, match="is not a stream position"):
        latest({"what": 1})
    part = latest({"snapshot": 3}, maxFilesPerTrigger="1")
    assert (part["snapshot"], part["units"]) == (4, 1)
    other = Query(table, Checkpoint(), where="p = 1").reader
    with pytest.raises(InvalidInputError, match="within snapshot 4, which would be read in other parts now"):
        other.partitions(part, {"snapshot": 4})
    other.stop()
    began = Query(table, Checkpoint()).reader
    assert began.latestOffset({"snapshot": 4}, ReadAllAvailable()) == {"snapshot": 4}
    table.alter(drop=["v"])
    table.upsert(pa.table({"p": pa.array([0], pa.int32()), "k": [9]}))
    with pytest.raises(InvalidInputError, match="column 'v' is dropped since schema 1: load the stream again"):
        began.partitions({"snapshot": 4}, began.latestOffset({"snapshot": 4}, ReadAllAvailable()))
    began.stop()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"scan.mode": "from-creation-timestamp"},
            "is not latest-full, latest, from-snapshot, from-snapshot-full, from-time",
        ),
        ({"scan.mode": "from-snapshot"}, "from-snapshot needs a snapshot id"),
        ({"scan.mode": "from-timestamp"}, "from-timestamp needs a time"),
        ({"maxFilesPerTrigger": "0"}, "maxfilespertrigger: write a number of files, at least 1, not '0'"),
        ({"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}, "a batch has one limit"),
        ({"read.stream.minRowsPerTrigger": "1"}, "minrowspertrigger: lakeidx does not have this option"),
        ({"scan.tag-name": "a"}, "a stream begins by scan.mode"),
        ({"incremental-between": "1,2"}, "a stream begins by scan.mode"),
        ({"incremental-between-scan-mode": "diff"}, "not diff"),
        ({"consumer-id": "a/b"}, "a consumer name must be text"),
    ],
)
def test_options_that_do_not_fit_are_named(table: Table, options: dict[str, str], says: str) -> None:
    write(table, {(0, 1): "a"})
    with pytest.raises(InvalidInputError, match=says):
        drain(Query(table, Checkpoint(), **options))
