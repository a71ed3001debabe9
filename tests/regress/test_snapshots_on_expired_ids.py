"""Snapshots that were put on the ids of expired ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import CommitReport
from lakeidx.batch.context import BatchContext, make_context
from lakeidx.batch.index_hooks import _own_snapshot
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, ingest_rows, write_attempt
from lakeidx.errors import CommitConflictError, CommitUnknownError, NotFoundError
from lakeidx.format.snapshot import decode_snapshot
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.staging_cleanup import clean_staging
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.scan.states import State, check_range
from lakeidx.table.stream.follow import ChangeFollower
from lakeidx.table.stream.position import Position
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import (
    LATER_MS,
    LISTAGG,
    content,
    filled_table,
    keep_newest,
    others_go_on,
    rows,
    upsert,
)

pytestmark = pytest.mark.slow

# A snapshot that a writer put on an expired id, and died, stands below the history until an expiry takes it away. Until then
#
# - it was listed, read by its id or by a time, tagged, and rolled back to, which left a table whose files had gone;
# - a stream without a consumer, and a range of commits, read what the dead writer had put instead of saying that it has expired;
# - an expiry kept it as the long-lived changelog of the commit that had had its id, and what that had changed was lost;
# - an expiry took what two of them, one after the other, had deleted for deleted: files of the newest state went;
# - a tag that was deleted took files with it that the oldest state still had;
# - where an expiry had died without its hint, the batch could be committed by nobody until the next one came so far;
# - where the writer whose snapshot had had that id named it in the hint after it had expired, it was the newest snapshot for
#   everybody, and what was committed upon it was lost.

ALL_STAY = Retention(num_min=100, num_max=100)


def put_and_die(table: Table, snapshot_id: int, overtake: Callable[[], None], act: Callable[[Table], object]) -> None:
    """Have a writer be overtaken before it puts a snapshot, and die when it has put it."""
    store = FaultStore(table.store)
    store.fail("put_if_absent", f"/snapshot-{snapshot_id}", act=lambda *_: overtake())
    store.fail("put_if_absent", f"/snapshot-{snapshot_id}", when="after", error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        act(Table(store, table.paths))


def others(table: Table) -> None:
    for number in range(3):
        upsert(Table.open(table.uri), [(2, number, "other")])


@pytest.fixture
def made(tmp_path: Path) -> Table:
    """Snapshot 1."""
    return filled_table(tmp_path, [(1, 1, "first")])


@pytest.fixture
def table(made: Table) -> Table:
    """Snapshot 1, then 2 to 4 by others; 1 to 3 expire, and a dead writer's stands under 2."""
    put_and_die(made, 2, partial(others_go_on, made), lambda t: upsert(t, [(1, 1, "dead")], batch_id="b"))
    return Table.open(made.uri)


def test_an_expiry_renews_a_hint_that_came_late(made: Table) -> None:
    """The writer saw its snapshot when the hint was there, and it expired only then."""

    def overtake() -> None:
        others(made)
        made.store.put(made.paths.latest, b"2")
        keep_newest(made)

    put_and_die(made, 2, overtake, lambda t: upsert(t, [(1, 1, "dead")], batch_id="b"))
    table = Table.open(made.uri)
    assert table.metadata.listed_snapshot_ids() == [2, 4]
    assert table.metadata.latest_snapshot_id() == table.metadata.latest_hint() == 4


def test_nobody_reads_it(table: Table) -> None:
    m = table.metadata
    assert m.listed_snapshot_ids() == [2, 4]
    assert m.snapshot_ids() == [4]
    assert [s.id for s in m.snapshots()] == [4]
    with pytest.raises(NotFoundError, match="snapshot 2 has expired; the file of that name was written later"):
        table.scan(snapshot=2)
    with pytest.raises(NotFoundError, match="no snapshot at or before"):
        table.scan(timestamp_ms=m.load_snapshot(2).time_millis - 1)
    with pytest.raises(NotFoundError, match="snapshot 2 has expired"):
        State(m, 2).load_snapshot()
    with pytest.raises(NotFoundError, match="snapshot 2 has expired"):
        check_range(m, 1, 2)
    check_range(m, 2, 4)


def test_it_is_not_tagged_nor_rolled_back_to(table: Table) -> None:
    with pytest.raises(NotFoundError, match="snapshot 2 has expired"):
        create_tag(table.metadata, "t", snapshot_id=2)
    with pytest.raises(NotFoundError, match="snapshot 2 has expired"):
        roll_back_table(table.metadata, table.schema, snapshot_id=2)
    assert table.metadata.snapshot_ids() == [4]


def test_a_stream_says_that_what_it_has_not_read_has_expired(table: Table) -> None:
    with pytest.raises(NotFoundError, match="snapshot 2 has expired"):
        next(ChangeFollower(table.metadata).steps(Position(1, "of the real one")))
    # The one it read last has expired, and is neither rolled back nor replaced.
    with pytest.raises(NotFoundError, match="snapshot 3"):
        next(ChangeFollower(table.metadata).steps(Position(2, "of the real one")))
    steps = ChangeFollower(table.metadata).steps(Position(3, "of the real one"), held=True)
    assert [s.snapshot.id for s in steps] == [4]


def test_an_expiry_takes_it_away_whatever_stays(table: Table) -> None:
    report = expire_table(table.metadata, table.schema, now_ms=LATER_MS, retention=ALL_STAY, dry_run=True)
    assert [f.path for f in report.files] == [table.paths.snapshot_path(2)]
    assert table.metadata.listed_snapshot_ids() == [2, 4]
    report = expire_table(table.metadata, table.schema, now_ms=LATER_MS, retention=ALL_STAY)
    assert [f.path for f in report.files] == [table.paths.snapshot_path(2)]
    assert table.metadata.listed_snapshot_ids() == [4]
    upsert(table, [(1, 1, "dead")], batch_id="b")
    assert content(table) == {(1, 1): "dead", **{(2, n): "other" for n in range(3)}}


def test_it_is_not_kept_as_the_changelog_of_the_one_that_had_its_id(tmp_path: Path) -> None:
    options = {"changelog-producer": "input", "changelog.num-retained.min": "50", "changelog.num-retained.max": "50"}
    made = filled_table(tmp_path, [(1, 1, "first")], options=options)
    retention = Retention(num_min=1, num_max=1, time_ms=0, changelogs_live_longer=True, has_changelog_producer=True)

    def overtake() -> None:
        others(made)
        expire_table(made.metadata, made.schema, now_ms=LATER_MS, retention=retention)

    put_and_die(made, 2, overtake, lambda t: upsert(t, [(1, 1, "dead")]))
    table = Table.open(made.uri)
    path = table.paths.changelog_path(2)
    before = table.store.get(path)
    assert decode_snapshot(before, path).identity != table.metadata.load_snapshot(2).identity
    upsert(table, [(1, 2, "more")])
    expire_table(table.metadata, table.schema, now_ms=LATER_MS, retention=retention)
    assert table.metadata.listed_snapshot_ids() == [5]
    assert table.store.get(path) == before
    rows = [r for s in ChangeFollower(table.metadata).steps(Position(1)) for r in s.changes.to_arrow().to_pylist()]
    assert {r["v"] for r in rows} == {"other", "more"}


def test_while_a_branch_is_put_in_the_place_of_snapshots_nothing_is_taken_for_a_gap(table: Table) -> None:
    """Java's fast-forward takes LATEST away, then snapshots in any order, and copies the branch's then, in any order."""
    table.store.delete(table.paths.latest)
    with pytest.raises(CommitUnknownError, match="as during the fast-forward of a branch"):
        upsert(table, [(1, 1, "dead")], batch_id="b")
    expire_table(table.metadata, table.schema, now_ms=LATER_MS, retention=ALL_STAY)
    assert table.metadata.listed_snapshot_ids() == [2, 4]
    # The next commit of another batch puts the hint.
    upsert(table, [(3, 1, "other")])
    upsert(table, [(1, 1, "dead")], batch_id="b")
    assert content(table)[1, 1] == "dead"
    assert table.metadata.listed_snapshot_ids() == [4, 5, 6]


def test_a_rollback_to_a_tag_takes_nothing_for_a_gap_then_either(made: Table) -> None:
    create_tag(made.metadata, "first", snapshot_id=1)

    put_and_die(made, 2, partial(others_go_on, made), lambda t: upsert(t, [(1, 1, "dead")]))
    table = Table.open(made.uri)
    table.store.delete(table.paths.latest)
    with pytest.raises(CommitConflictError, match="as during the fast-forward of a branch"):
        roll_back_table(table.metadata, table.schema, tag="first")
    assert table.metadata.listed_snapshot_ids() == [2, 4]


def test_a_key_index_is_not_told_of_it(tmp_path: Path) -> None:
    """The snapshot of a batch has expired when the key index is updated, and a dead writer's stands on its id."""
    table = filled_table(tmp_path, [(1, 1, "first")], options={"index.type": "bloom"})
    mine = table.metadata.load_snapshot(1)
    assert _own_snapshot(table.metadata, 1, mine.commit_user) == mine
    assert _own_snapshot(table.metadata, 1, "another writer") is None
    assert _own_snapshot(table.metadata, 2, mine.commit_user) is None


# Two processes ran a batch that had lost a conflict. One wrote its second attempt and committed it, and others let that expire;
# the other one was still writing that attempt, missed a file of the state it was planned on, planned a third, and committed it,
# too:
# it looked at the snapshots since, which were gone, and at the report of the third attempt only.
#
# Its sibling: staging clean-up asked the newest attempt only whether a batch that stopped had been committed.

OPTIONS = {**LISTAGG, "snapshot.num-retained.min": "1", "manifest.merge-min-count": "2"}
ROWS = [(1, 1, "second"), (1, 3, "new")]


@pytest.fixture
def listed(tmp_path: Path) -> Table:
    """A table that joins the values of a key."""
    return filled_table(tmp_path, [(1, 1, "first")], options=OPTIONS)


def expected(batches: int) -> dict[tuple[int, int], str]:
    return {(1, 1): "first,second", (1, 3): "new"} | {(2, number): "other" for number in range(batches)}


def context_of(table: Table, store: FaultStore | None = None) -> BatchContext:
    """The batch, as a process of its own runs it."""
    return make_context(Table(store or table.store, table.paths).metadata, "b")


def test_a_batch_that_stopped_after_a_third_attempt_counts_as_committed(listed: Table) -> None:
    ingest_rows(context_of(listed), rows(ROWS))
    run_bucket_assignment(context_of(listed), 1)
    write_attempt(context_of(listed), 1)
    upsert(listed, [(1, 9, "it loses to this one")])
    # Both have planned the second attempt; one commits it, and dies before it says so.
    run_bucket_assignment(context_of(listed), 2)
    store = FaultStore(listed.store)
    store.fail("put_if_absent", "/commit.json", error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        commit_batch(context_of(listed, store))
    run_compaction(Table.open(listed.uri).metadata, LocalRunner(1), full=True)
    others_go_on(listed, 1)
    run_bucket_assignment(context_of(listed), 3)
    write_attempt(context_of(listed), 3)
    handle = Table.open(listed.uri)
    assert context_of(listed).files.latest_attempt() == 3
    report = clean_staging(handle.metadata, now_ms=LATER_MS)
    assert report.abandoned == ("b",)
    committed = context_of(listed).files.read(CommitReport)
    assert committed is not None
    assert committed.attempt == 2
    assert content(handle) == expected(1) | {(1, 9): "it loses to this one"}


# A batch was acknowledged, and none of its rows were in the table: while it was committed as snapshot 2, others wrote 2 and 3 and
# let 1 and 2 expire, so the put succeeded on a free name, and snapshot 3 looked like its successor.
#
# Its sibling: a batch was committed twice when its own snapshot and the next one expired before it looked at what it had put.


def test_a_put_that_was_done_and_not_answered_is_looked_at_too(listed: Table) -> None:
    store = FaultStore(listed.store)
    store.fail("put_if_absent", "/snapshot/", act=lambda *_: others_go_on(listed, 2))
    store.fail("put_if_absent", "/snapshot/", when="after")
    upsert(Table(store, listed.paths), ROWS, batch_id="b")
    assert content(Table.open(listed.uri)) == expected(2)


# A snapshot that was put on an expired id is taken away by its writer, or by another process that runs the same batch. In between:
#
# - the other one saw it, and when it looked again it was gone: it took that for "expired in its turn", and the batch for committed;
# - the writer, when the other one had been faster to take it away, did so, too;
# - its files counted as those of a state that is read, so as committed;
# - a batch that comes again found the id of its expired snapshot to be another commit's, which a compaction had left there, and
#   took that for a rollback: it was run anew, and its rows were added a second time;
# - two of them, one after the other, were taken for the history, the first one was named as the newest, and others went on from it.


def overtaken(table: Table) -> FaultStore:
    """The store of a process that is overtaken before it puts snapshot 2, so that it puts it on an expired id."""
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot-2", act=lambda *_: others_go_on(table))
    return store


def take_away(table: Table) -> Callable[..., None]:
    return lambda *_: table.store.delete(table.metadata.paths.snapshot_path(2))


def test_the_writer_does_not_find_what_another_process_has_taken_away(listed: Table) -> None:
    store = overtaken(listed)
    gone = store.fail("put_if_absent", "/snapshot-2", when="after", act=take_away(listed))
    upsert(Table(store, listed.paths), ROWS, batch_id="b")
    assert gone.hits == 1
    assert content(Table.open(listed.uri)) == expected(3)


@pytest.mark.parametrize("comes_at", range(1, 13))
def test_another_process_sees_it_come_and_go(listed: Table, comes_at: int) -> None:
    """Whenever the snapshot comes while the other process looks for one of the batch, and goes when it looks again."""
    path = listed.metadata.paths.snapshot_path(2)
    store = overtaken(listed)
    store.fail("put_if_absent", "/snapshot-2", when="after", error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        upsert(Table(store, listed.paths), ROWS, batch_id="b")
    stray = listed.store.get(path)
    listed.store.delete(path)
    second = FaultStore(listed.store)
    second.fail(("list", "get"), "/snapshot", act=lambda *_: listed.store.put(path, stray), skip=comes_at)
    second.fail("exists", "/snapshot-2", act=take_away(listed))
    context = make_context(Table(second, listed.paths).metadata, "b")
    commit_batch(context, sleep=lambda _: None)
    listed.store.delete(path)
    assert content(Table.open(listed.uri)) == expected(3)
