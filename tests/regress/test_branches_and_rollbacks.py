"""Tables that another history took the place of: by a branch, by a rollback, by one that is created again."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles
from lakeidx.batch.context import BatchContext, make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, finish_batch, ingest_rows, write_attempt
from lakeidx.cli.main import app
from lakeidx.errors import CommitConflictError, CorruptFileError, InvalidInputError, NotFoundError, TableReplacedError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.format.snapshot import encode_hint
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.staging_cleanup import clean_orphans
from lakeidx.storage.base import FileInfo
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.history import tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.shared_table.foreign import fast_forward, make_branch
from tests.kit.small_tables import LISTAGG, SPEC, branch_of, content, filled_table, make_table, upsert
from tests.kit.upserts import upsert_table

# A batch was rolled back, a branch with its snapshot was fast-forwarded, and the batch came again: its rows were added twice.
# `test_histories` has what happens otherwise.

DAY = [(1, 1, "day")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """The batch `day` is in branch x, and not in the table any more."""
    made = make_table(tmp_path, options=LISTAGG)
    upsert(made, [(1, 1, "first")], batch_id="first")
    upsert(made, DAY, batch_id="day")
    create_tag(made.metadata, "one")
    make_branch(Path(made.uri), "x", "one")
    roll_back_table(made.metadata, made.schema, snapshot_id=1)
    return made


def bring_back(table: Table) -> Table:
    fast_forward(Path(table.uri), "x")
    return Table.open(table.uri)


def files_of(table: Table) -> BatchFiles:
    return BatchFiles(table.store, table.paths, "day")


def test_it_is_refused_when_nobody_knows_what_it_was_made_of(table: Table) -> None:
    for report in Path(files_of(table).directory).glob("*.json"):
        if not report.name.startswith("superseded-"):
            report.unlink()
    again = bring_back(table)
    for _ in range(2):
        with pytest.raises(
            InvalidInputError, match=r"batch 'day' is in the table again, with snapshot 2 .* reports are gone"
        ):
            upsert(again, DAY, batch_id="day")
    assert content(Table.open(table.uri)) == {(1, 1): "first,day"}


# A fast-forwarded branch brought another schema under the id of staged rows: it was taken for theirs, and columns read null.

NIGHT = pa.table({"p": pa.array([2], pa.int32()), "k": [1], "main": ["night"]})
FIRST = {"p": 1, "k": 1, "branch": "a"}


@pytest.fixture
def table_schema(tmp_path: Path) -> Table:
    """Column v is called `branch` in schema 1 of branch x, and `main` in schema 1 of the table."""
    made = filled_table(tmp_path, [(1, 1, "old")], [(1, 1, "a")])
    create_tag(made.metadata, "one")
    make_branch(Path(made.uri), "x", "one")
    alter_table(branch_of(made), SchemaEdits(rename={"v": "branch"}))
    alter_table(made, SchemaEdits(rename={"v": "main"}))
    return made


def seen(table: Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = Table.open(table.uri).scan().to_arrow().to_pylist()
    return found


def stage(table: Table, stages: int) -> BatchContext:
    context = make_context(table.metadata, "night")
    ingest_rows(context, NIGHT)
    if stages > 1:
        run_bucket_assignment(context)
    if stages > 2:
        write_attempt(context, 1)
    return context


@pytest.mark.parametrize("handle", ["open", "new"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_it_is_refused_and_runs_anew(table_schema: Table, stages: int, handle: str) -> None:
    context = stage(table_schema, stages)
    fast_forward(Path(table_schema.uri), "x")
    if handle == "new":
        context = make_context(Table.open(table_schema.uri).metadata, "night")
    with pytest.raises(CommitConflictError, match="another schema 1 has taken its place"):
        commit_batch(context) if stages == 3 else finish_batch(context, lambda _: None)
    assert seen(table_schema) == [FIRST]
    again = make_context(Table.open(table_schema.uri).metadata, "night")
    assert not upsert_table(again, NIGHT.rename_columns(["p", "k", "branch"])).already
    assert seen(table_schema) == [FIRST, {"p": 2, "k": 1, "branch": "night"}]


def test_it_is_staged_again_when_it_comes_as_a_whole(table_schema: Table) -> None:
    stage(table_schema, 3)
    fast_forward(Path(table_schema.uri), "x")
    upsert_table(make_context(table_schema.metadata, "night"), NIGHT.rename_columns(["p", "k", "branch"]))
    assert seen(table_schema) == [FIRST, {"p": 2, "k": 1, "branch": "night"}]


def test_a_schema_that_the_branch_does_not_have(table_schema: Table) -> None:
    alter_table(table_schema, SchemaEdits(add={"more": "INT"}))
    context = make_context(table_schema.metadata, "night")
    ingest_rows(context, NIGHT, missing="null")
    fast_forward(Path(table_schema.uri), "x")
    with pytest.raises(CommitConflictError, match="schema 2 was taken away"):
        finish_batch(make_context(Table.open(table_schema.uri).metadata, "night"), lambda _: None)


def test_rows_staged_under_a_schema_of_both_are_committed(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    context = make_context(table.metadata, "night")
    ingest_rows(context, NIGHT.rename_columns(["p", "k", "v"]))
    create_tag(table.metadata, "one")
    make_branch(Path(table.uri), "x", "one")
    alter_table(branch_of(table), SchemaEdits(rename={"v": "branch"}))
    fast_forward(Path(table.uri), "x")
    finish_batch(make_context(Table.open(table.uri).metadata, "night"), lambda _: None)
    assert seen(table) == [FIRST, {"p": 2, "k": 1, "branch": "night"}]


def test_a_compaction_is_planned_again(table_schema: Table) -> None:
    store = FaultStore(table_schema.store)
    fault = store.fail((), "data-", when="after", act=lambda *_: fast_forward(Path(table_schema.uri), "x"))
    run_compaction(TableMetadata(store, table_schema.paths), LocalRunner(1), full=True)
    assert fault.hits == 1
    assert seen(table_schema) == [FIRST]


# EARLIEST outlives the snapshots that a fast-forwarded branch replaces, and no snapshot of the branch could be tagged.


@pytest.fixture
def table_tags(tmp_path: Path) -> Table:
    """A table whose newest snapshot is 2 again, while EARLIEST says 4."""
    made = make_table(tmp_path)
    for key in (1, 2):
        upsert(made, [(1, key, "before")])
    create_tag(made.metadata, "start")
    make_branch(Path(made.uri), "x", "start")
    for key in (3, 4, 5):
        upsert(made, [(1, key, "gone")])
    keep(made, 2)
    assert made.metadata.earliest_hint() == 4
    fast_forward(Path(made.uri), "x")
    return Table.open(made.uri)


def keep(table: Table, snapshots: int) -> None:
    retention = Retention(num_min=snapshots, num_max=snapshots, time_ms=0, limit=100)
    later = int(time.time() * 1000) + 86_400_000
    expire_table(table.metadata, table.schema, retention=retention, now_ms=later)


def test_its_snapshots_can_be_tagged(table_tags: Table) -> None:
    create_tag(table_tags.metadata, "mine", snapshot_id=2)
    assert content(table_tags, tag="mine") == {(1, 1): "before", (1, 2): "before"}


def test_the_next_expiry_mends_the_hint(table_tags: Table) -> None:
    keep(table_tags, 10)
    assert table_tags.metadata.earliest_hint() == 2


def test_a_hint_that_names_a_snapshot_counts(table_tags: Table) -> None:
    """Another program is expiring what comes before it."""
    upsert(table_tags, [(1, 3, "after")])
    table_tags.store.put(table_tags.paths.earliest, encode_hint(3))
    with pytest.raises(NotFoundError, match="while it was tagged"):
        create_tag(table_tags.metadata, "late", snapshot_id=2)
    assert "late" not in tag_names(table_tags.metadata)


# A compaction was rolled back just before the key state followed it: the state kept no identity of the snapshot that was gone, and
# as "none" equalled "none", every later batch was told that it had been planned before that snapshot.


def test_the_only_state_that_is_kept_was_rolled_back(tmp_path: Path) -> None:
    options = {"index.type": "inmemory", "index.global.enabled": "false", "index.state.keep-checkpoints": "1"}
    table = filled_table(tmp_path, [(1, 1, "first")], [(1, 2, "gone")], options=options)
    roll_back(table.metadata, table.schema, snapshot_id=1)
    again = Table.open(table.uri)
    upsert(again, [(1, 1, "second"), (1, 2, "new")])
    assert content(again) == {(1, 1): "second", (1, 2): "new"}


# An empty or broken newest snapshot file is named by readers and `verify`, and a rollback goes below it.

DAMAGES = [b"", b'{"version":3,"id":3,', b"[]", b"\xff\xfe"]


def damaged(folder: Path, damage: bytes, *ids: int) -> str:
    """Make a table of snapshots 1 to 4, of which some are damaged."""
    table = make_table(folder)
    for number in range(1, 5):
        upsert(table, [(1, 1, f"v{number}"), (1, 1 + number, "x")])
        if number == 2:
            Table.open(table.uri).create_tag("kept")
    for number in ids:
        (Path(table.uri) / f"snapshot/snapshot-{number}").write_bytes(damage)
    return table.uri


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_file_and_the_way_out_are_named(tmp_path: Path, damage: bytes) -> None:
    uri = damaged(tmp_path, damage, 4)
    with pytest.raises(CorruptFileError, match=r"snapshot-4 .*newest snapshot is damaged.*lakeidx rollback TABLE"):
        Table.open(uri).scan()
    (found,) = Table.open(uri).verify().findings
    assert found.name == "files_readable"
    assert str(found.sample[0]["file"]).endswith("snapshot/snapshot-4")
    assert "lakeidx rollback TABLE" in str(found.sample[0]["fault"])


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ids", [(4,), (3,), (3, 4)])
def test_the_rollback_goes_below(tmp_path: Path, damage: bytes, ids: tuple[int, ...]) -> None:
    uri = damaged(tmp_path, damage, *ids)
    assert Table.open(uri).rollback(snapshot=2, dry_run=True).snapshots_gone == [4, 3]
    done = CliRunner().invoke(app, ["rollback", uri, "--snapshot", "2"])
    assert done.exit_code == 0, done.output
    assert all(f"files of damaged snapshot {i}" in done.output for i in ids)
    assert content(Table.open(uri))[1, 1] == "v2"
    assert Table.open(uri).metadata.listed_snapshot_ids() == [1, 2]
    # What the damaged one alone had is found, and nothing else.
    assert Table.open(uri).orphans(older_than="0 s", remove=True).files
    assert content(Table.open(uri)) == {(1, 1): "v2", (1, 2): "x", (1, 3): "x"}
    upsert(Table.open(uri), [(1, 9, "new")])
    assert Table.open(uri).verify().passed


def test_a_tag_gives_the_way_out_too(tmp_path: Path) -> None:
    uri = damaged(tmp_path, b"", 3, 4)
    Table.open(uri).rollback(tag="kept")
    assert content(Table.open(uri))[1, 1] == "v2"


def test_what_lies_below_must_be_whole(tmp_path: Path) -> None:
    """Which files a damaged snapshot that stays needs is not known."""
    uri = damaged(tmp_path, b"", 1)
    with pytest.raises(CorruptFileError, match="snapshot-1"):
        Table.open(uri).rollback(snapshot=2)
    assert Table.open(uri).metadata.listed_snapshot_ids() == [1, 2, 3, 4]


# A rollback deleted the files of branches; a tag made during an expiry kept nothing; a rollback left late snapshots.

NEWEST_ONLY = Retention(num_min=1, num_max=1, time_ms=0)


@pytest.fixture
def table_late(tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={"snapshot.num-retained.min": "1"})
    for k in range(3):
        upsert(made, [(1, k, f"{k}")])
    return made


def test_a_snapshot_put_on_a_dropped_one_goes_with_it(table_late: Table) -> None:
    store = FaultStore(table_late.store)
    writer = Table.open(table_late.uri)
    copied = Path(table_late.paths.snapshot_path(3)).read_text()

    def put_late(verb: str, path: str) -> None:
        Path(writer.paths.snapshot_path(4)).write_text(copied.replace('"id" : 3', '"id" : 4'))

    fault = store.fail("delete", "snapshot-3", act=put_late)
    roll_back_table(Table(store, table_late.paths).metadata, table_late.schema, snapshot_id=1)
    assert fault.hits == 1
    assert Table.open(table_late.uri).metadata.snapshot_ids() == [1]
    upsert(Table.open(table_late.uri), [(1, 9, "new")])
    assert content(Table.open(table_late.uri)) == {(1, 0): "0", (1, 9): "new"}


# A handle that stayed open over a rollback, or over a drop and re-creation, answered old rows and damaged the table.


def other_process(table: Table) -> Table:
    """The table as another process holds it."""
    return Table.open(table.uri)


def roll_back_open(table: Table, snapshot_id: int) -> None:
    """Roll back as the command line does: in a process of its own."""
    other = other_process(table)
    roll_back_table(other.metadata, other.schema, snapshot_id=snapshot_id)


@pytest.fixture(params=["dynamic", "fixed"])
def table_open(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = make_table(tmp_path, options={} if request.param == "dynamic" else {"bucket": "2"})
    upsert(made, [(1, 1, "one")])
    upsert(made, [(1, 2, "two, rolled back")])
    return made


@pytest.mark.slow
def test_scan_and_time_travel_after_a_rollback(table_open: Table) -> None:
    assert len(content(table_open, snapshot=2)) == 2
    roll_back_open(table_open, 1)
    assert content(table_open) == {(1, 1): "one"}
    with pytest.raises(NotFoundError, match="snapshot 2 does not exist"):
        content(table_open, snapshot=2)
    upsert(other_process(table_open), [(1, 3, "three")])
    assert content(table_open, snapshot=2) == content(table_open) == {(1, 1): "one", (1, 3): "three"}


def replace_table(table: Table) -> Table:
    """Drop the table as SQL engines do, and create it again."""
    shutil.rmtree(table.uri)
    return Table.create(table.uri, {**SPEC, "comment": "again"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.scan().to_arrow(),
        lambda t: t.scan(snapshot=1).to_arrow(),
        lambda t: t.schema,
        lambda t: t.snapshot,
        lambda t: upsert(t, [(1, 4, "four")]),
        lambda t: commit_changes(t.metadata, CommitRequest(commit_user="u", changes=TableChanges())),
        lambda t: clean_orphans(t.metadata, now_ms=4_000_000_000_000, older_than_ms=0, dry_run=False),
    ],
    ids=["scan", "time travel", "schema", "snapshot", "upsert", "commit", "clean"],
)
@pytest.mark.parametrize("written", [True, False])
def test_a_handle_of_a_dropped_table_stops(tmp_path: Path, use: Callable[[Table], object], written: bool) -> None:
    table = filled_table(tmp_path, [(1, 1, "one")])
    if not written:
        content(table)
    new = replace_table(table)
    if written:
        upsert(new, [(1, 9, "new")])
    files = sorted(p for p in Path(table.uri).rglob("*") if p.is_file())
    with pytest.raises(TableReplacedError, match="open it again"):
        use(table)
    assert sorted(p for p in Path(table.uri).rglob("*") if p.is_file()) == files
    assert content(Table.open(table.uri)) == ({(1, 9): "new"} if written else {})
    assert content(Table(table.store, table.paths)) == ({(1, 9): "new"} if written else {})


def test_a_handle_that_travels_to_a_task_keeps_its_table(table_open: Table) -> None:
    content(table_open)
    metadata = pickle.loads(pickle.dumps(table_open.metadata))
    replace_table(table_open)
    with pytest.raises(TableReplacedError):
        metadata.latest_schema()
    assert metadata.reopened().latest_schema().comment == "again"


def test_a_dropped_table_is_not_taken_for_a_wrong_path(table_open: Table) -> None:
    content(table_open)
    shutil.rmtree(table_open.uri)
    with pytest.raises(TableReplacedError, match="was dropped"):
        table_open.scan()
    with pytest.raises(NotFoundError, match="not a Paimon table"):
        Table.open(table_open.uri)


def test_a_lookup_over_a_dropped_table_stops(table_open: Table) -> None:
    lookup = TableLookup(table_open.metadata)
    keys = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([1], pa.int64())})
    assert lookup.lookup(keys).found.tolist() == [True]
    upsert(replace_table(table_open), [(1, 2, "new")])
    with pytest.raises(TableReplacedError):
        lookup.lookup(keys)


# A table was dropped, and created again, just before a batch put its snapshot: the put made the first snapshot of the new table,
# of manifests that had gone with the old one, and the new table could not be read.


@pytest.mark.parametrize("created_again", [True, False])
@pytest.mark.parametrize("batches", [0, 1])
def test_the_new_table_is_left_alone(tmp_path: Path, batches: int, created_again: bool) -> None:
    table = make_table(tmp_path)
    for number in range(batches):
        upsert(table, [(1, number, "first")])
    store = FaultStore(table.store)

    def replaced(*_: object) -> None:
        shutil.rmtree(table.uri)
        if created_again:
            make_table(tmp_path, options={"comment": "another one"})

    fault = store.fail("put_if_absent", "/snapshot/", act=replaced)
    with pytest.raises(TableReplacedError):
        upsert(Table(store, table.paths), [(1, 1, "second")])
    assert fault.hits == 1
    assert not list(Path(table.uri).glob("snapshot/*"))
    if created_again:
        upsert(Table.open(table.uri), [(7, 7, "new")])
        assert content(Table.open(table.uri)) == {(7, 7): "new"}


# A handle did not notice that its table was dropped and created again when both first schema files had one size and time: within a
# tick of the disk's clock, or within the second that object stores count in.


def make_again_at_the_same_time(table: Table, folder: Path) -> None:
    schema = table.paths.schema_path(0)
    then = os.stat(schema)
    shutil.rmtree(table.paths.root)
    # Each has the time it was created in its schema, in milliseconds.
    time.sleep(0.002)
    make_table(folder)
    os.utime(schema, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert os.stat(schema).st_size == then.st_size


def test_a_disk_is_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    assert table.metadata.latest_schema().id == 0
    make_again_at_the_same_time(table, tmp_path)
    with pytest.raises(TableReplacedError):
        table.metadata.latest_schema()


def test_an_etag_tells_and_nothing_is_read_while_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    store = table.metadata.store
    listing, get, got = store.list, store.get, []

    def list_with_etags(directory: str) -> list[FileInfo]:
        return [f._replace(etag=Path(f.path).read_text()) for f in listing(directory)]

    def counted(path: str) -> Any:
        got.append(path)
        return get(path)

    monkeypatch.setattr(store, "list", list_with_etags)
    monkeypatch.setattr(store, "get", counted)
    handle = Table(store, table.paths)
    handle.metadata.latest_schema()
    assert got == [table.paths.schema_path(0)]
    got.clear()
    handle.metadata.latest_schema()
    assert got == []
    make_again_at_the_same_time(table, tmp_path)
    with pytest.raises(TableReplacedError):
        handle.metadata.latest_schema()
