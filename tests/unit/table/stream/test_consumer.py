"""Expiry waits for streams: consumers, read leases of running ones, and what happens when both begin at once."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError, UnavailableError
from lakeidx.format.paths import TablePaths
from lakeidx.storage import open_store
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream import consumer as consumers
from lakeidx.table.stream.consumer import LEASE_MS, LEASE_PREFIX, StreamConsumer
from lakeidx.table.stream.position import Position
from lakeidx.table.stream.start import Start, StartMode
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.limits import HANGS_SECONDS

SPEC = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}
EARLIEST = Start(StartMode.FROM_SNAPSHOT, snapshot=0)
NEWEST_ONLY = Retention(num_min=1, num_max=1, time_ms=0)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/d.db/t", SPEC)
    for k in range(5):
        made.upsert(pa.table({"k": [k]}))
    return made


def files(table: Table) -> dict[str, int]:
    """Next snapshot of every consumer."""
    folder = Path(table.uri) / "consumer"
    return {f.name.removeprefix("consumer-"): json.loads(f.read_text())["nextSnapshot"] for f in folder.glob("*")}


def expire(table: Table, metadata: TableMetadata | None = None) -> tuple[int, ...]:
    now = round(time.time() * 1000)
    return expire_table(metadata or table.metadata, table.schema, now_ms=now, retention=NEWEST_ONLY).snapshots


def test_expiry_leaves_what_a_running_stream_has_not_read(table: Table) -> None:
    stream = table.follow("earliest")
    assert [next(stream).snapshot.id for _ in range(3)] == [1, 2, 3]
    (lease,) = files(table)
    assert lease.startswith(LEASE_PREFIX)
    assert files(table) == {lease: 3}
    assert expire(table) == (1, 2)
    assert [s.snapshot.id for s in stream] == [4, 5]
    assert files(table) == {}
    assert expire(table) == (3, 4)


def test_a_stream_that_compares_states_keeps_the_one_before(table: Table) -> None:
    list(table.follow("2", consumer="c", mode="derived"))
    table.upsert(pa.table({"k": [9]}))
    assert files(table) == {"c": 5}
    assert expire(table) == (1, 2, 3, 4)
    assert [s.snapshot.id for s in table.follow(consumer="c", mode="derived")] == [6]


def test_a_stream_that_compares_states_begins_where_the_one_before_is_left(table: Table) -> None:
    table.expire(retain_min=1, retain_max=3)
    for start in ("earliest", "1", "3"):
        with pytest.raises(
            NotFoundError, match=r"with snapshot 3, but snapshot 2, .* begin with latest-full, or with snapshot 4"
        ):
            next(table.follow(start, mode="derived", consumer="c"))
    assert files(table) == {}
    assert [s.snapshot.id for s in table.follow("4", mode="derived", consumer="c")] == [4, 5]


def test_a_consumer_hears_of_a_rollback_after_the_new_history_has_expired(table: Table) -> None:
    table.create_tag("two", snapshot=2)
    assert [s.snapshot.id for s in table.follow("earliest", consumer="c")] == [1, 2, 3, 4, 5]
    table.rollback(tag="two")
    for k in range(5):
        table.upsert(pa.table({"k": [10 + k]}))
    assert expire(table) == (1, 2, 3, 4)
    with pytest.raises(InvalidInputError, match="read up to snapshot 5, which was rolled back or replaced"):
        list(table.follow(consumer="c"))
    assert [s.snapshot.id for s in table.follow("latest", consumer="c", ignore_progress=True)] == []
    assert expire(table) == (5, 6)


def test_a_consumer_that_java_wrote_is_followed_and_the_other_way_round(table: Table) -> None:
    (Path(table.uri) / "consumer").mkdir()
    (Path(table.uri) / "consumer/consumer-c").write_text('{"nextSnapshot" : 4}')
    assert [s.snapshot.id for s in table.follow(consumer="c")] == [4, 5]
    assert files(table) == {"c": 6}
    (Path(table.uri) / "consumer/consumer-c").write_text('{"nextSnapshot" : 4, "lakeidx.position" : 7}')
    with pytest.raises(CorruptFileError, match=r"lakeidx\.position: expected an object"):
        next(table.follow(consumer="c"))


def test_leases_of_readers_that_died_are_removed(table: Table) -> None:
    StreamConsumer(table.metadata).record(Position(1))
    (lease,) = files(table)
    assert expire(table) == (1,)
    old = time.time() - LEASE_MS / 1000 - 60
    os.utime(f"{table.uri}/consumer/consumer-{lease}", (old, old))
    list(table.follow("latest", consumer="c"))
    assert files(table) == {"c": 6}
    StreamConsumer(table.metadata).record(Position(1))
    (lease,) = files(table).keys() - {"c"}
    os.utime(f"{table.uri}/consumer/consumer-{lease}", (old, old))
    assert expire(table) == (2, 3, 4)
    assert files(table) == {"c": 6}


def test_the_file_of_a_stream_that_waits_is_written_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_RENEW_SECONDS", 0.01)
    file = Path(table.uri) / "consumer/consumer-c"
    with StreamConsumer(table.metadata, "c") as stream:
        stream.record(Position(2))
        old = time.time() - 3600
        os.utime(file, (old, old))
        deadline = time.monotonic() + HANGS_SECONDS
        while file.stat().st_mtime < old + 1800:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert files(table) == {"c": 3}


def test_an_expiry_and_a_stream_that_begin_at_once(table: Table) -> None:
    """The stream begins after the expiry has looked at consumers, and before or after it has said what goes."""
    store = FaultStore(open_store(table.uri))
    expiring = TableMetadata(store, TablePaths.of(table.uri, table.schema))
    streams: list[tuple[StreamConsumer, Position]] = []

    def begin(verb: str, path: str) -> None:
        made = StreamConsumer(table.metadata)
        streams.append((made, made.begin(EARLIEST)))

    store.fail("put", "EARLIEST", when="before", act=begin)
    assert expire(table, expiring) == ()
    assert streams[0][1] == Position(0)
    streams[0][0].record(Position(2))
    store.heal()
    store.fail("put", "EARLIEST", when="after", act=begin)
    assert expire(table, expiring) == (1, 2)
    assert [p.snapshot for _, p in streams] == [0, 2]
    assert Path(table.paths.earliest).read_text() == "3"


def test_a_stream_that_cannot_begin_says_so(table: Table) -> None:
    Path(table.paths.earliest).write_text("4")
    whole = Start(StartMode.FROM_SNAPSHOT_FULL, snapshot=2)
    with pytest.raises(UnavailableError, match="snapshots expire faster than the stream can begin"):
        StreamConsumer(table.metadata, "c").begin(whole)
    with pytest.raises(InvalidInputError, match="are of read leases"):
        StreamConsumer(table.metadata, f"{LEASE_PREFIX}x")


def test_a_table_that_may_not_be_written_is_read_without_a_lease(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    store = FaultStore(open_store(table.uri))
    store.fail("put", "consumer-", error=InvalidInputError("access denied"), times=9)
    denied = StreamConsumer(TableMetadata(store, TablePaths.of(table.uri, table.schema)))
    with denied:
        assert denied.begin(EARLIEST) == Position(0)
        denied.record(Position(1))
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        "no read lease, so snapshots may expire before the stream has read them"
    ]
    named = StreamConsumer(TableMetadata(store, TablePaths.of(table.uri, table.schema)), "c")
    with pytest.raises(InvalidInputError, match="access denied"):
        named.record(Position(1))


def test_consumers_are_listed_and_deleted(table: Table) -> None:
    list(table.follow("latest", consumer="c"))
    StreamConsumer(table.metadata).record(Position(1))
    found = [(r["consumer"][:15], r["keeps_from"], r["lease"]) for r in table.consumers()]
    assert found == [("c", 6, False), (LEASE_PREFIX, 2, True)]
    for row in table.consumers():
        table.delete_consumer(row["consumer"])
    assert expire(table) == (1, 2, 3, 4)
    with pytest.raises(NotFoundError, match="consumer 'c' does not exist; consumers: none"):
        table.delete_consumer("c")
