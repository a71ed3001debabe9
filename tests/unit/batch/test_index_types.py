"""Index types through the stages: which options go together, moves between partitions, state on another machine."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

from lakeidx.api import Table
from lakeidx.batch.commit_priority import EVERY_PARTITION, CommitPriority
from lakeidx.batch.committed_batch import read_reports
from lakeidx.batch.context import make_context
from lakeidx.batch.index_types import TableIndex, check_index_type, index_folder
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.given_rows import stage_table
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.upsert import commit_batch
from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.format.schema.schema_file import encode_schema, new_schema
from lakeidx.key_index.registry import index_types
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.pipeline_file.batch_checks import check_batch
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.tasks.runner import LocalRunner
from tests.kit.index_history import (
    GLOBAL_TYPES,
    LOCAL_TYPES,
    IndexedTable,
    Model,
    apply,
    fixed_history,
    hbase_stand_in,
)
from tests.kit.small_tables import SPEC, content, filled_table, make_table, rows, staged_batch, upsert
from tests.unit.key_index.hbase.test_hbase_index import StandIn

CROSS = {**SPEC, "primaryKeys": ["k"]}


def _schema(options: Mapping[str, str], spec: Mapping[str, Any] = SPEC) -> Any:
    return new_schema({**spec, "options": {**spec["options"], **options}})


# -- which options go together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [t.name for t in index_types()])
def test_every_type_goes_with_dynamic_buckets(kind: str) -> None:
    schema = _schema({"index.type": kind, "hoodie.index.hbase.table": "t"})
    check_index_type(schema)
    index = TableIndex.of(schema)
    assert (index.name, index.type is not None, index.locator is None) == (kind, True, kind == "hash")
    assert (index.limits == "") == (kind == "hash")


@pytest.mark.parametrize(
    ("options", "keys", "words"),
    [
        ({"index.type": "bloom", "bucket": "4"}, ["p", "k"], "'index.type' = bloom needs 'bucket' = '-1'"),
        ({"index.type": "state", "bucket": "4"}, ["p", "k"], "'index.type' = state needs 'bucket' = '-1'"),
        ({"index.type": "bucket", "bucket": "4", "hoodie.bucket.index.num.buckets": "8"}, ["p", "k"], "num.buckets"),
        ({"index.type": "bucket", "bucket": "4", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, ["p", "k"], "engine"),
        ({"index.type": "bucket", "bucket": "4", "hoodie.bucket.index.hash.field": "v"}, ["p", "k"], "bucket-key"),
        ({"index.type": "bloom"}, ["k"], "use state or inmemory"),
        ({"index.global.enabled": "false"}, ["k"], "each key lives in one partition"),
        ({"index.partition.regex": "p=1"}, ["k"], "written a second time"),
        ({"index.type": "bloom"}, [], "needs a primary key"),
        ({"index.type": "global-bloom", "sequence.field": "v"}, ["p", "k"], "sequence.field"),
        ({"index.type": "state", "ignore-delete": "true"}, ["p", "k"], "ignore-delete"),
        ({"index.type": "surprise"}, ["p", "k"], "index.type"),
    ],
)  # fmt: skip
def test_bad_combinations_are_refused(options: dict[str, str], keys: list[str], words: str, tmp_path: Path) -> None:
    spec = {**SPEC, "primaryKeys": keys}
    with pytest.raises(InvalidInputError) as error:
        check_index_type(_schema(options, spec))
    assert words in error.value.message
    assert "\n" not in error.value.message
    # A table that came to such options some other way is not written.
    with mock.patch("lakeidx.api.table.check_index_type"), mock.patch("lakeidx.api.table.TableIndex"):
        table = make_table(tmp_path, options=options, spec=spec)
    with pytest.raises(InvalidInputError):
        upsert(table, [(1, 1, "a")])
    assert table.snapshot is None


def test_python_users_are_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidInputError):
        Table.create(f"{tmp_path}/wh/d.db/bad", {**SPEC, "options": {"bucket": "4", "index.type": "bloom"}})
    assert not (tmp_path / "wh").exists()
    with caplog.at_level(logging.WARNING):
        made = Table.create(f"{tmp_path}/wh/d.db/t", {**SPEC, "options": {"bucket": "-1", "index.type": "inmemory"}})
    assert TableIndex.of(made.schema).limits in caplog.text
    made.upsert(rows([(1, 1, "a")]))
    assert content(made) == {(1, 1): "a"}


def test_moving_off_makes_order_and_ignored_deletes_fine() -> None:
    off = {"index.type": "global-bloom", "hoodie.bloom.index.update.partition.path": "false"}
    check_index_type(_schema({**off, "sequence.field": "v"}))
    check_index_type(_schema({**off, "ignore-delete": "true"}))
    check_index_type(_schema({"index.type": "state", "index.global.enabled": "false", "sequence.field": "v"}))


def test_a_key_with_some_partition_columns_is_one_of_all_partitions() -> None:
    fields = [*SPEC["fields"], {"name": "q", "type": "INT"}]
    schema = _schema({}, {**SPEC, "fields": fields, "partitionKeys": ["p", "q"]})
    check_index_type(schema)
    assert schema.identity_columns == schema.primary_keys == ("p", "k")
    assert schema.trimmed_primary_keys == ("k",)


def test_cross_partition_tables_use_the_state() -> None:
    schema = _schema({"cross-partition-upsert.index-ttl": "2 d"}, CROSS)
    assert TableIndex.of(schema).name == "state"
    assert TableIndex.of(schema).options.index_state_ttl == 2.0
    assert TableIndex.of(_schema({"index.type": "hash"}, CROSS)).name == "state"
    assert TableIndex.of(_schema({"index.type": "inmemory"}, CROSS)).name == "inmemory"


# -- moves -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def moving(tmp_path: Path) -> Table:
    return make_table(tmp_path, options={"index.type": "global-simple"})


def test_a_move_is_one_commit(moving: Table) -> None:
    upsert(moving, [(1, 1, "a"), (1, 2, "x"), (2, 3, "c")])
    assert upsert(moving, [(1, 2, "b"), (1, 9, None)], ["+U", "-D"]).assign.moves_path is None
    result = upsert(moving, [(2, 1, "moved"), (1, 2, "stays"), (2, 4, "new"), (2, 3, None)], ["+U", "+U", "+I", "-D"])
    assert content(moving) == {(2, 1): "moved", (1, 2): "stays", (2, 4): "new"}
    assert result.commit.snapshot_ids == (3,)
    assert (result.assign.moved, result.assign.dropped) == (1, 0)
    assert (result.assign.inserts, result.assign.updates, result.assign.deletes) == (1, 2, 1)
    assert result.assign.index_type == "global-simple"
    assert result.assign.index_metrics["found"] == 3
    assert result.assign.moves_path is not None
    reports = read_reports(make_context(moving.metadata, result.ingest.batch_id).files)
    assert all(r.passed for r in check_batch(moving.metadata, reports))


@pytest.mark.slow
@pytest.mark.parametrize("off", ["option", "partial-update", "first-row"])
def test_where_keys_do_not_move(tmp_path: Path, off: str) -> None:
    options = {"index.type": "global-simple"}
    options |= {"hoodie.simple.index.update.partition.path": "false"} if off == "option" else {"merge-engine": off}
    table = filled_table(tmp_path, [(1, 1, "a"), (1, 2, "b")], options=options)
    result = upsert(table, [(2, 1, "x"), (2, 1, None), (3, 9, "first"), (2, 9, "second")])
    run_compaction(table.metadata, LocalRunner(1), full=True)
    expected = {
        "option": {(1, 1): None, (1, 2): "b", (3, 9): "second"},
        "partial-update": {(1, 1): "x", (1, 2): "b", (3, 9): "second"},
        "first-row": {(1, 1): "a", (1, 2): "b", (3, 9): "first"},
    }[off]
    assert content(Table.open(table.uri)) == expected
    assert result.assign.moved == 0
    assert result.assign.dropped == (3 if off == "first-row" else 0)


def test_overwriting_one_partition_of_a_table_over_partitions(moving: Table) -> None:
    upsert(moving, [(1, 1, "a"), (2, 2, "b")])
    with pytest.raises(UnsupportedError, match="overwrite the whole table"):
        upsert(moving, [(1, 2, "x")], overwrite="partitions")
    upsert(moving, [(1, 2, "x"), (2, 2, "y"), (3, 3, "z")], overwrite="table")
    assert content(moving) == {(2, 2): "y", (3, 3): "z"}


def test_overwriting_a_table_that_hbase_knows(tmp_path: Path) -> None:
    with hbase_stand_in(StandIn()):
        table = filled_table(tmp_path, [(1, 1, "a")], options=GLOBAL_TYPES["hbase"])
        for mode in ("table", "partitions"):
            with pytest.raises(UnsupportedError, match="cannot be overwritten"):
                upsert(table, [(2, 2, "b")], overwrite=mode)
        assert content(table) == {(1, 1): "a"}


# -- bloom footers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_carry_filters_when_asked_to(tmp_path: Path) -> None:
    """Also those that compaction writes."""
    table = make_table(tmp_path, options={"index.type": "bloom", "hoodie.index.bloom.num_entries": "50"})
    for n in range(2):
        upsert(table, [(1, k, f"{n}") for k in range(20)])
    run_compaction(table.metadata, LocalRunner(1), full=True)
    files = sorted(Path(table.uri).rglob("data-*.parquet"))
    assert len(files) == 6  # two batches and a compaction, two buckets
    for file in files:
        metadata = pq.read_metadata(file).metadata
        assert b"org.apache.hudi.bloomfilter" in metadata
        assert metadata[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"
    plain = filled_table(tmp_path / "plain", [(1, 1, "a")], options={"index.type": "simple"})
    (file,) = Path(plain.uri).rglob("data-*.parquet")
    assert b"org.apache.hudi.bloomfilter" not in (pq.read_metadata(file).metadata or {})


# -- the key state ---------------------------------------------------------------------------------------------------------


def _state_table(tmp_path: Path, **more: str) -> Table:
    return make_table(tmp_path, options={"index.type": "state", **more})


def _action(result: Any) -> tuple[str, int]:
    metrics = result.assign.index_metrics
    (kind,) = [kind for kind in ("warm", "caught_up", "rebuilt") if f"state_{kind}" in metrics]
    return kind.replace("_", " "), int(metrics["state_keys_read"])


@pytest.mark.slow
def test_a_state_follows_its_table(tmp_path: Path) -> None:
    table = _state_table(tmp_path)
    assert _action(upsert(table, [(1, k, "a") for k in range(20)]))[0] == "rebuilt"
    assert _action(upsert(table, [(1, k, "b") for k in range(10, 30)])) == ("warm", 0)
    # It goes along with a compaction that it is told of, and with one that only changes levels.
    run_compaction(table.metadata, LocalRunner(1), full=True)
    assert _action(upsert(table, [(2, 5, "c")])) == ("warm", 0)
    run_compaction(table.metadata, LocalRunner(1), full=True)
    assert _action(upsert(table, [(2, 5, "d")])) == ("warm", 0)
    # One by somebody else may have compacted deletes away that it has not seen.
    with mock.patch("lakeidx.maintenance.compaction.on_compaction"):
        run_compaction(table.metadata, LocalRunner(1), full=True)
    assert _action(upsert(table, [(2, 5, "e")]))[0] == "rebuilt"
    assert content(table) == {(1, k): "a" if k < 10 else "b" for k in range(30) if k != 5} | {(2, 5): "e"}


def test_a_compaction_does_not_wait_for_the_state(tmp_path: Path) -> None:
    table = _state_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    upsert(table, [(1, 1, "b")])
    with mock.patch("lakeidx.batch.index_types.TableIndex.open", side_effect=UnavailableError("open elsewhere")):
        assert run_compaction(table.metadata, LocalRunner(1), full=True).snapshot_ids == (3,)


@pytest.mark.slow
def test_a_state_is_where_its_table_is(tmp_path: Path) -> None:
    """It lies beside the staged batches, as of the newest snapshots; a machine keeps nothing."""
    table = _state_table(tmp_path)
    for n in range(3):
        upsert(table, [(1, k, f"{n}") for k in range(10 * n, 10 * n + 20)])
    state = Table.open(f"{index_folder(table.paths)}/state/1")
    assert [json.loads(s.properties["lakeidx.key-state"])["snapshot"] for s in state.metadata.snapshots()] == [1, 2, 3]
    assert sorted(state.scan().to_arrow().column("k").to_pylist()) == list(range(40))
    assert _action(upsert(table, [(2, 3, "moved"), (1, 100, "new")])) == ("warm", 0)
    assert (content(table)[2, 3], (1, 3) in content(table)) == ("moved", False)
    assert _action(upsert(table, [(1, 3, "back")])) == ("warm", 0)


@pytest.mark.slow
def test_the_state_of_a_snapshot_that_was_rolled_back_to_still_belongs(tmp_path: Path) -> None:
    table = _state_table(tmp_path)
    upsert(table, [(1, k, "a") for k in range(20)])
    upsert(table, [(2, k, "b") for k in range(20)])
    roll_back(table.metadata, table.schema, snapshot_id=1)
    table = Table.open(table.uri)
    assert _action(upsert(table, [(3, 5, "c")])) == ("warm", 0)
    assert content(table) == {(1, k): "a" for k in range(20) if k != 5} | {(3, 5): "c"}


@pytest.mark.slow
def test_only_new_files_are_uploaded(tmp_path: Path) -> None:
    """What a small batch adds to the state is small."""
    table = _state_table(tmp_path)
    upsert(table, [(1, k, "a") for k in range(3000)])
    files = Path(index_folder(table.paths)) / "state"
    before = {f.name: f.stat().st_size for f in files.rglob("data-*")}
    upsert(table, [(1, 4000, "b")])
    after = {f.name: f.stat().st_size for f in files.rglob("data-*")}
    assert before.keys() < after.keys()
    assert sum(size for name, size in after.items() if name not in before) < 2000


@pytest.mark.slow
def test_staged_and_committed_by_different_processes(tmp_path: Path) -> None:
    """The process that commits tells the state, though another one tagged the batch."""
    table = _state_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    for stage in (
        lambda c: stage_table(c.files, table.schema, rows([(2, 1, "b"), (1, 2, "c")])),
        lambda c: run_bucket_assignment(c, 1),
        lambda c: run_index_write(c, 1),
        commit_batch,
    ):
        stage(make_context(Table.open(table.uri).metadata, "apart", runner=LocalRunner(1)))
    assert content(Table.open(table.uri)) == {(2, 1): "b", (1, 2): "c"}
    assert _action(upsert(Table.open(table.uri), [(1, 1, "d")])) == ("warm", 0)


@pytest.mark.parametrize("moves", [True, False])
def test_locations_of_a_rolled_back_commit_are_not_used_by_hbase(tmp_path: Path, moves: bool) -> None:
    """What a snapshot that was rolled back did to keys is forgotten: one that moved is found where it was before, one that came
    is new again."""
    options = {**GLOBAL_TYPES["hbase"], "hoodie.hbase.index.update.partition.path": str(moves).lower()}
    with hbase_stand_in(StandIn()):
        table = filled_table(tmp_path, [(1, 1, "a")], [(2, 1, "b"), (2, 2, "gone")], options=options)
        with pytest.raises(NotFoundError):
            roll_back_table(table.metadata, table.schema, snapshot_id=9)
        assert roll_back_table(table.metadata, table.schema, snapshot_id=1, dry_run=True).dry_run
        upsert(table, [(3, 2, "c")])
        assert content(table)[3 if moves else 2, 2] == "c"
        roll_back_table(table.metadata, table.schema, snapshot_id=1)
        table = Table.open(table.uri)
        upsert(table, [(3, 1, "d"), (3, 2, "new")])
        assert content(table) == {(3 if moves else 1, 1): "d", (3, 2): "new"}


# -- one type after another ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_table_may_change_its_type(tmp_path: Path) -> None:
    """Each type finds what the others wrote: files without filters, keys no state has seen."""
    table = IndexedTable.make(tmp_path, "hash", {})
    model: Model = {}
    names = ["hash", "bloom", "bucket", "state", "simple", "bucket ring", "inmemory", "hash", "bloom cache", "state"]
    for number, (name, batch) in enumerate(zip(names, fixed_history(23, batches=len(names), size=20), strict=True)):
        metadata = Table.open(table.table.uri).metadata
        old = metadata.latest_schema()
        kept = {k: v for k, v in old.options.items() if not k.startswith(("index.type", "index.global", "hoodie."))}
        new = dataclasses.replace(old, id=number + 1, options={**kept, **LOCAL_TYPES[name]})
        metadata.store.put(metadata.paths.schema_path(new.id), encode_schema(new))
        table.upsert(batch, f"b{number}")
        apply(model, batch, over_partitions=False)
    table.check(model)


# -- two writers -----------------------------------------------------------------------------------------------------------


def test_batches_over_partitions_do_not_pass_each_other(moving: Table) -> None:
    """Two batches take one key to two partitions: no bucket is touched by both, and still the later one is planned again."""
    upsert(moving, [(1, 1, "a"), (2, 50, "x"), (3, 51, "y")])
    late = staged_batch(moving, [(2, 1, "late")], "late")
    upsert(Table.open(moving.uri), [(3, 1, "early")])
    report = commit_batch(late, sleep=lambda _: None)
    assert report.replans == 1
    assert content(Table.open(moving.uri)) == {(2, 1): "late", (2, 50): "x", (3, 51): "y"}


def test_a_batch_over_partitions_waits_for_one_of_other_partitions(moving: Table) -> None:
    """A batch that lost often enough goes first, though the two touch no partition in common."""
    upsert(moving, [(1, 1, "a")])
    losing = CommitPriority(moving.store, moving.paths, "losing")
    losing.request((EVERY_PARTITION, "00"), 2, 1.0)
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        losing.done()

    late = staged_batch(moving, [(2, 2, "b")], "late")
    commit_batch(late, sleep=sleep)
    assert len(naps) == 1


def test_compactions_may_pass(moving: Table) -> None:
    upsert(moving, [(1, 1, "a")])
    upsert(moving, [(1, 1, "b")])
    late = staged_batch(moving, [(2, 1, "late")], "late")
    run_compaction(Table.open(moving.uri).metadata, LocalRunner(1), full=True)
    assert commit_batch(late, sleep=lambda _: None).replans == 0
    assert content(Table.open(moving.uri)) == {(2, 1): "late"}


# -- cross-partition tables ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_buckets_of_cross_partition_tables_fill_by_keys(tmp_path: Path) -> None:
    """The smallest bucket with room, counting keys that live there, not rows in files."""
    table = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "4"},
                       spec=CROSS)  # fmt: skip
    for _ in range(3):
        upsert(table, [(1, k, "a") for k in range(3)])
    upsert(table, [(1, 3, "b"), (1, 4, "c"), (1, 5, "d")])
    assert _buckets(table) == {0: {0, 1, 2, 3}, 1: {4, 5}}
    # A key that leaves makes room.
    upsert(table, [(2, 0, "gone")])
    upsert(table, [(1, 6, "e"), (1, 7, "f")])
    assert _buckets(table, 1) == {0: {1, 2, 3, 6}, 1: {4, 5, 7}}


def _buckets(table: Table, partition: int = 1) -> dict[int, set[int]]:
    scan = Table.open(table.uri).scan(where=f"p = {partition}")
    out: dict[int, set[int]] = {}
    for place in scan.plan.buckets:
        for part in scan.read_bucket(place):
            found = {r["k"] for r in part.to_pylist() if r["p"] == partition}
            if found:
                out.setdefault(place.bucket, set()).update(found)
    return out
