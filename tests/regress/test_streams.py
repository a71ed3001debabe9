"""Streams that stop, that wait, and that another history overtakes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context, new_batch_id
from lakeidx.cli.context import ended_by_signals
from lakeidx.errors import InvalidInputError, LakeIdxError, TableReplacedError, UnavailableError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.spark import joins
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.streams.reader import TableStreamReader
from lakeidx.storage.files import translate
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.stream.consumer import LEASE_MS, LEASE_PREFIX
from lakeidx.table.stream.follow import ChangeFollower
from lakeidx.table.stream.position import Position
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.shared_table.foreign import fast_forward, make_branch
from tests.kit.small_tables import SPEC, branch_of, filled_table, make_table, rows, upsert
from tests.kit.upserts import upsert_table

# A stream whose snapshot was rolled back left out the rows that came after it; a join worker answered from a dropped table.

pytest.importorskip("pyspark")
ALL = ReadAllAvailable()


def reader(table: Table) -> TableStreamReader:
    """A stream over the table's columns."""
    columns = table.schema.field_names
    return TableStreamReader(ReadOptions.parse({"path": table.uri}), columns, table.schema.arrow_schema)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    for k in range(3):
        upsert(made, [(1, k, "row")])
    return made


@pytest.mark.slow
def test_a_stream_over_a_rollback_stops(table: Table) -> None:
    stream = reader(table)
    start: dict[str, Any] = stream.latestOffset(stream.initialOffset(), ALL)
    assert start["snapshot"] == 3
    other = Table.open(table.uri)
    roll_back_table(other.metadata, other.schema, snapshot_id=1)
    for newer in range(3):
        for running in (stream, reader(table)):
            with pytest.raises(InvalidInputError, match="snapshot 3, which was rolled back or replaced"):
                running.latestOffset(start, ALL)
            with pytest.raises(InvalidInputError, match="snapshot 3, which was rolled back or replaced"):
                running.partitions(start, {"snapshot": 9})
        upsert(other, [(1, 10 + newer, "new")])


def test_a_stream_continues_over_commits_and_expired_snapshots(table: Table) -> None:
    stream = reader(table)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    assert stream.latestOffset(start, ALL) == start
    assert list(stream.partitions(start, start)) == []
    upsert(Table.open(table.uri), [(1, 7, "new")])
    end = stream.latestOffset(start, ALL)
    assert [b.num_rows for s in stream.partitions(start, end) for b in stream.read(s)] == [1]
    for snapshot_id in (1, 2, 3):
        Path(table.paths.snapshot_path(snapshot_id)).unlink()
    assert stream.latestOffset(start, ALL) == end
    assert stream.latestOffset({"snapshot": 3}, ALL) == end


def test_a_stream_over_a_dropped_table_stops(table: Table) -> None:
    stream = reader(table)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    shutil.rmtree(table.uri)
    new = Table.create(table.uri, {**SPEC, "comment": "again"})
    for k in range(4):
        upsert(new, [(1, k, "new")])
    with pytest.raises(TableReplacedError):
        stream.latestOffset(start, ALL)
    with pytest.raises(InvalidInputError, match="rolled back or replaced"):
        reader(new).latestOffset(start, ALL)


def test_a_join_worker_opens_the_table_that_was_created_again(table: Table) -> None:
    def join_of(handle: Table) -> joins.Join:
        added, keys = pa.schema([("name", pa.string())]), tuple(handle.schema.field(n) for n in "pk")
        return joins.Join(handle.metadata, (("p", "p"), ("k", "k")), (("v", "name"),), "UTC", added, keys, inner=False)

    def joined(join: joins.Join) -> list[str | None]:
        batches = rows([(1, 1, None), (1, 9, None)]).select(["p", "k"]).to_batches()
        found: list[str | None] = pa.Table.from_batches(join.join(batches)).column("name").to_pylist()
        return found

    join = join_of(table)
    assert table.metadata.table_id
    assert joined(join) == ["row", None]
    shutil.rmtree(table.uri)
    upsert(Table.create(table.uri, {**SPEC, "comment": "again"}), [(1, 9, "new")])
    assert joined(join) == [None, "new"]
    shutil.rmtree(table.uri)
    fields = [*SPEC["fields"][:2], {"name": "w", "type": "STRING"}]
    Table.create(table.uri, {**SPEC, "fields": fields})
    with pytest.raises(InvalidInputError, match="created again and has no column 'v'"):
        joined(join)


# A stream stopped, what it had read was rolled back and expired under other rows: started again, it went on in silence.

READ = 6
REFUSED = "read up to snapshot 6, which has expired while the stream did not run"


@pytest.fixture
def table_other(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    for k in range(READ):
        upsert(made, [(1, k, "row")])
    return made


def expire(table: Table, left: int) -> None:
    expire_table(
        table.metadata, table.schema, now_ms=round(time.time() * 1000), retention=Retention(num_min=left, num_max=left)
    )


def in_other_history(table: Table) -> Table:
    """Roll back below what was read, commit until there is another snapshot 7, and let all before that expire."""
    roll_back_table(table.metadata, table.schema, snapshot_id=3)
    for k in range(4):
        upsert(table, [(1, 100 + k, "new")])
    expire(table, 1)
    again = Table.open(table.uri)
    assert again.metadata.snapshot_ids() == [READ + 1]
    return again


def spark_offset(table: Table) -> dict[str, Any]:
    reader = spark_reader(table)
    start: dict[str, Any] = reader.latestOffset(reader.initialOffset(), _all())
    reader.stop()
    return start


def spark_reader(table: Table, **options: str) -> Any:
    pytest.importorskip("pyspark")
    from lakeidx.spark.read_options import ReadOptions
    from lakeidx.spark.streams.reader import TableStreamReader

    given = ReadOptions.parse({"path": table.uri, **options})
    return TableStreamReader(given, table.schema.field_names, table.schema.arrow_schema)


def _all() -> Any:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return ReadAllAvailable()


def test_a_stream_that_cannot_be_compared_is_refused(table_other: Table) -> None:
    newest = table_other.metadata.latest_snapshot()
    assert newest is not None
    offset = spark_offset(table_other)
    assert offset["snapshot"] == newest.id == READ
    after = in_other_history(table_other)
    with pytest.raises(InvalidInputError, match=REFUSED):
        next(ChangeFollower(after.metadata).steps(Position(newest.id, newest.identity)))
    calls: list[Callable[[Any], Any]] = [
        lambda reader: reader.latestOffset(offset, _all()),
        lambda reader: reader.partitions(offset, {"snapshot": READ + 1}),
    ]
    for call in calls:
        # A consumer that was new when the stream came back knows no more than the stream does.
        for options in ({}, {"consumer-id": "late"}):
            with pytest.raises(InvalidInputError, match=REFUSED):
                call(spark_reader(after, **options))


def test_a_consumer_that_stood_there_keeps_what_tells(table_other: Table) -> None:
    reader = spark_reader(table_other, **{"consumer-id": "c"})
    offset = reader.latestOffset(reader.initialOffset(), _all())
    reader.commit(offset)
    upsert(table_other, [(1, 9, "row")])
    expire(table_other, 1)
    assert table_other.metadata.snapshot_ids() == [READ + 1]
    again = spark_reader(Table.open(table_other.uri), **{"consumer-id": "c"})
    end = again.latestOffset(offset, _all())
    assert end["snapshot"] == READ + 1
    assert [b.num_rows for split in again.partitions(offset, end) for b in again.read(split)] == [1]


def test_a_consumer_hears_of_the_rollback(table_other: Table) -> None:
    reader = spark_reader(table_other, **{"consumer-id": "c"})
    offset = reader.latestOffset(reader.initialOffset(), _all())
    reader.commit(offset)
    roll_back_table(table_other.metadata, table_other.schema, snapshot_id=3)
    for k in range(4):
        upsert(table_other, [(1, 100 + k, "new")])
    expire(table_other, 1)
    again = Table.open(table_other.uri)
    assert again.metadata.snapshot_ids() == [READ, READ + 1]
    with pytest.raises(InvalidInputError, match="snapshot 6, which was rolled back or replaced"):
        spark_reader(again, **{"consumer-id": "c"}).latestOffset(offset, _all())


# A branch brought another schema under the id of an open stream's: columns of the branch were read under names of the table.


def brought(folder: Path, main: SchemaEdits, *branch: SchemaEdits) -> tuple[ChangeFollower, Position, Table]:
    """Begin a stream of the schema that `main` makes, then put a branch with a snapshot of its own schemas in its place."""
    table = filled_table(folder, [(1, 1, "a")])
    create_tag(table.metadata, "one")
    make_branch(Path(table.uri), "x", "one")
    for edits in branch:
        alter_table(branch_of(table), edits)
    alter_table(table, main)
    there = Table.open(table.uri)
    stream = ChangeFollower(there.metadata, schema=there.schema)
    (first,) = stream.steps(Position(0))
    other = branch_of(table)
    values = {"INT": pa.array([7], pa.int32()), "BIGINT": pa.array([7], pa.int64()), "STRING": pa.array(["b"])}
    row = {f.name: values[str(f.type).removesuffix(" NOT NULL")] for f in other.schema.fields}
    upsert_table(make_context(other.metadata, new_batch_id()), pa.table(row))
    fast_forward(Path(table.uri), "x")
    return stream, first.position, table


def read(stream: ChangeFollower, position: Position) -> list[dict[str, Any]]:
    return [row for step in stream.steps(position) for row in step.changes.to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("main", "branch", "reason"),
    [
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(add={"z": "INT"})], "'w' has become 'z'"),
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(add={"w": "STRING"})], "'w' is STRING instead of INT"),
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(comment="other")], "'w' is dropped"),
        (SchemaEdits(add={"w": "INT"}), [], "'w' is dropped"),
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(add={"z": "INT"}), SchemaEdits(comment="more")], "'w' has become 'z'"),
    ],
)  # fmt: skip
def test_columns_that_the_branch_does_not_have_stop_the_stream(
    tmp_path: Path, main: SchemaEdits, branch: list[SchemaEdits], reason: str
) -> None:
    stream, position, table = brought(tmp_path, main, *branch)
    with pytest.raises(InvalidInputError, match=reason + r".*load the stream again; it resumes at its position"):
        read(stream, position)
    again = Table.open(table.uri)
    assert [r["p"] for r in read(ChangeFollower(again.metadata, schema=again.schema), position)] == [7]


def test_columns_that_both_have_are_read_on(tmp_path: Path) -> None:
    edits = SchemaEdits(add={"w": "INT"}, comment="table")
    stream, position, _ = brought(tmp_path, edits, SchemaEdits(add={"w": "INT"}, comment="branch"))
    assert read(stream, position) == [{"p": 7, "k": 7, "v": "b", "w": 7, "_rowkind": "+I"}]


def test_columns_that_are_not_read_may_be_others(tmp_path: Path) -> None:
    stream, position, _ = brought(tmp_path, SchemaEdits(add={"w": "INT"}), SchemaEdits(add={"z": "INT"}))
    some = ChangeFollower(stream.metadata, ("k", "v"), schema=stream.schema)
    assert read(some, position) == [{"k": 7, "v": "b", "_rowkind": "+I"}]


# A stream of a table that its reader may not write to: a warning that it has no read lease, whatever says no.

DENIED = [errno.EROFS, errno.EACCES, errno.EPERM]
FULL = [errno.ENOSPC, errno.EDQUOT]


def refusal(number: int, path: str = "x") -> LakeIdxError:
    """Return the error of a local store, with its cause."""
    cause = OSError(number, os.strerror(number), path)
    error = translate(cause, path)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("number", DENIED)
def test_what_may_never_be_written_is_no_passing_fault(number: int) -> None:
    assert isinstance(refusal(number), InvalidInputError)


@pytest.mark.parametrize("number", [*FULL, errno.EIO])
def test_what_may_pass_is_tried_again(number: int) -> None:
    assert isinstance(refusal(number), UnavailableError)


@pytest.mark.parametrize("number", [*DENIED, *FULL])
def test_the_table_is_followed_without_a_lease(tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    # A lease that another reader left when it died.
    dead = Path(table.uri) / f"consumer/consumer-{LEASE_PREFIX}dead"
    dead.parent.mkdir()
    dead.write_text('{"nextSnapshot": 1}', encoding="utf-8")
    long_ago = time.time() - 10 * LEASE_MS / 1000
    os.utime(dead, (long_ago, long_ago))
    store = FaultStore(table.store)
    denied = ("put", "put_if_absent") if number in FULL else ("put", "put_if_absent", "delete")
    store.fail(denied, error=lambda: refusal(number), times=100)
    steps = Table(store, table.paths).follow()
    assert next(iter(steps)).position.snapshot == 1
    steps.close()
    assert "no read lease" in caplog.text


def test_a_passing_fault_of_the_lease_is_an_error(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    store = FaultStore(table.store)
    store.fail("put", "/consumer/", error=lambda: refusal(errno.EIO), times=100)
    with pytest.raises(UnavailableError):
        next(iter(Table(store, table.paths).follow()))


# A stream that was told to end while it looked whether it should waited for its own lock, for ever.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_lock_is_held(number: signal.Signals) -> None:
    with ended_by_signals() as stop:
        with stop._cond:  # type: ignore[attr-defined]
            signal.raise_signal(number)
        assert stop.wait(HANGS_SECONDS)
