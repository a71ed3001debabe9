"""state and inmemory: every way to come to a snapshot gives the answers that the records themselves give."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeidx.api import Table
from lakeidx.batch.key_state import load, state_table
from lakeidx.batch.key_state.index import MemoryKeyIndex, StateKeyIndex
from lakeidx.batch.key_state.state_table import StateTables
from lakeidx.batch.key_state.update import StateUpdate
from lakeidx.errors import CommitConflictError
from lakeidx.key_index.locations import CommitInfo, KeyLocations
from lakeidx.key_index.port import TagTasks
from lakeidx.storage import LocalStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.told_index import tell_index
from tests.unit.key_index.bloom.test_bloom_index import MAKERS, build, histories
from tests.unit.key_index.fake_table import FakeTable, partition_bytes


def check(
    table: FakeTable, rows: list[Any], key_index: StateKeyIndex, options: dict[str, str] | None = None
) -> KeyLocations:
    """Tag, and compare every row with the records; deleted keys may have a location or none."""
    found = key_index.tag(table.batch(rows), table.context(options))
    expected = table.expected(rows, anywhere=key_index.is_global)
    alive = {(p, k) for (p, _, k), r in table.newest().items() if r.kind == 0}
    living = {k for _, k in alive}
    names = [table.name_of(p) for p in found.partitions]
    for i, ((partition, key), want) in enumerate(zip(rows, expected, strict=True)):
        got = (names[found.partition[i]], int(found.bucket[i])) if found.bucket[i] >= 0 else None
        if want is None and not key_index.is_global:
            # A deleted key that compaction has swept away may be remembered, as the HASH index does.
            assert got is None or got in table.ever(partition, key), (partition, key)
        elif want is None:
            assert got is None, (partition, key)
        elif key_index.is_global and key not in living:
            # A deleted key has no place over partitions.
            assert got is None, (partition, key)
        else:
            assert got == want, (partition, key)
    return found


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path / "t")


@pytest.fixture(params=[True, False], ids=["global", "by partition"])
def key_index(request: pytest.FixtureRequest) -> Iterator[StateKeyIndex]:
    made = StateKeyIndex(is_global=request.param)
    yield made
    made.close()


def _keys(*keys: int) -> list[tuple[tuple[int], int]]:
    return [((k,), 0) for k in keys]


def _action(key_index: StateKeyIndex) -> str:
    assert key_index.last_action is not None
    return key_index.last_action.kind


ROWS = [(p, (k,)) for p in "ab" for k in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["inmemory", "state", "state in tasks"])
@pytest.mark.parametrize("is_global", [True, False], ids=["global", "by partition"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=histories(),
    cut=st.integers(0, 8),
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 25)), max_size=20),
    kind=st.sampled_from(["BIGINT", "STRING", "two columns"]),
    cache=st.sampled_from(["8", "256"]),
)
def test_answers_equal_the_records(
    where: str, is_global: bool, steps: Any, cut: int, rows: Any, kind: str, cache: str
) -> None:
    """Built in the middle of a history, then brought up to its end; by tasks that own few of many shards, too."""
    types, make_key = MAKERS[kind]
    keys = [(p, make_key(k)) for p, k in rows]  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        table = FakeTable(Path(folder) / "t", types)
        options = {"index.state.cache-mb": cache}
        made = MemoryKeyIndex if where == "inmemory" else StateKeyIndex
        key_index = made(is_global=is_global)
        build(table, steps[:cut], make_key, moving=is_global)
        check(table, keys, key_index, options)
        build(table, steps[cut:], make_key, moving=is_global)
        if where == "state in tasks":
            _bring_in_tasks(table, key_index, options)
        check(table, keys, key_index, options)
        if is_global:
            counts = (key_index.count_keys(table.context(options)) or {}).items()
            assert {place: n for place, n in counts if n} == _living(table)
        check(table, keys, key_index, options)
        assert _action(key_index) == "warm"
        key_index.close()


def _bring_in_tasks(table: FakeTable, key_index: StateKeyIndex, options: dict[str, str]) -> None:
    """Bring a state to the table's snapshot as for a batch that is placed in tasks; the driver may hold nothing."""
    context = table.context({**options, "index.driver-memory": "0"})
    with mock.patch.object(state_table, "BUCKET_KEYS", 3):
        key_index.prepare_tag(context, TagTasks(LocalRunner(3), lambda: context, "key_state"))


def _living(table: FakeTable) -> dict[tuple[bytes, int], int]:
    """How many keys live in each bucket, by the newest records."""
    out: Counter[tuple[bytes, int]] = Counter()
    for (partition, bucket, _), record in table.newest().items():
        out[partition_bytes(partition), bucket] += record.kind == 0
    return {place: n for place, n in out.items() if n}


def commit_rows(
    table: FakeTable,
    key_index: StateKeyIndex,
    rows: list[Any],
    options: dict[str, str] | None = None,
    *,
    bucket: int = 0,
    deleted: list[bool] | None = None,
    tell: bool = True,
) -> CommitInfo:
    """Tag a batch, write it where `bucket` says for new keys, commit, and tell the key_index."""
    batch = table.batch(rows)
    was = key_index.tag(batch, table.context(options))
    target = np.where(was.bucket >= 0, was.bucket, bucket).astype(np.int32)
    base = table.snapshot_id
    gone = deleted or [False] * len(rows)
    for partition in dict.fromkeys(p for p, _ in rows):
        for b in sorted(set(target.tolist())):
            part = [
                ((k), 3 if d else 0)
                for (p, k), t, d in zip(rows, target.tolist(), gone, strict=True)
                if (p, t) == (partition, b)
            ]
            if part:
                table.write(partition, b, part)
    snapshot = table.commit(f"c{table.snapshot_id}")
    commit = CommitInfo(
        instant=f"c{base}",
        snapshot_id=snapshot,
        base_id=base,
        batch=batch,
        partition=batch.partition,
        bucket=target,
        deleted=np.array(gone),
        partitions=batch.partitions,
        was=was,
    )
    if tell:
        tell_index(key_index, commit, table.context(options))
    return commit


def test_a_commit_between_is_caught_up(table: FakeTable, key_index: StateKeyIndex) -> None:
    commit_rows(table, key_index, [("a", (1,))])
    table.write("a", 3, _keys(5))
    table.commit()
    commit_rows(table, key_index, [("a", (2,))], tell=False)
    check(table, ROWS, key_index)
    assert _action(key_index) == "caught up"
    # Told of a commit that was tagged on a snapshot the state is not at: it is not believed blindly.
    late = commit_rows(table, key_index, [("a", (6,))], tell=False)
    table.write("a", 4, _keys(7))
    table.commit()
    tell_index(key_index, late, table.context())
    check(table, ROWS, key_index)
    assert _action(key_index) == "caught up"


def test_parts_of_a_batch(table: FakeTable, key_index: StateKeyIndex) -> None:
    """Prepared once, any process locates any part; keys are counted without any of them."""
    table.write("a", 0, _keys(*range(6)))
    table.write("b", 1, _keys(6, 7))
    table.commit()
    key_index.prepare_tag(table.context(), TagTasks(LocalRunner(2), lambda: table.context(), "load"))
    assert _action(key_index) == "rebuilt"
    assert key_index.last_action is not None
    assert key_index.last_action.keys == 8
    for start in range(0, len(ROWS), 3):
        other = StateKeyIndex(is_global=key_index.is_global)
        check(table, ROWS[start : start + 3], other)
        assert _action(other) == "warm"
    counts = StateKeyIndex(is_global=key_index.is_global).count_keys(table.context())
    assert counts == {(partition_bytes("a"), 0): 6, (partition_bytes("b"), 1): 2}


def test_a_batch_that_was_planned_before_the_state(table: FakeTable, key_index: StateKeyIndex) -> None:
    commit_rows(table, key_index, [("a", (1,))])
    early = table.snapshot_id
    for n in range(4):
        commit_rows(table, key_index, [("a", (n,))])
    key_index.close()
    table.snapshot_id, now = early, table.snapshot_id
    with pytest.raises(CommitConflictError, match="plan it again"):
        key_index.tag(table.batch(ROWS), table.context())
    table.snapshot_id = now
    check(table, ROWS, key_index)
    assert _action(key_index) == "warm"


@pytest.mark.parametrize("what", ["another table", "a rolled back snapshot", "an overwrite", "an expired snapshot"])
def test_a_state_that_does_not_belong_is_refused(table: FakeTable, key_index: StateKeyIndex, what: str) -> None:
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)], bucket=1)
    assert table.snapshot_id is not None
    if what == "another table":
        table.table_id = "table-2"
    elif what == "a rolled back snapshot":
        table.snapshot_id -= 1
    if what != "an expired snapshot":
        table.drop([f.meta.file_name for f in table.live])
    table.write("a", 9, _keys(2, 3))
    table.commit()
    if what == "an overwrite":
        table.overwritten.append(table.snapshot_id)
    if what == "an expired snapshot":
        table.overwritten.append(table.snapshot_id)
        del table.tokens[table.snapshot_id - 1]
        table.drop([table.live[0].meta.file_name])
    check(table, ROWS, key_index)
    assert _action(key_index) == "rebuilt"
    key_index.close()
    _rebuilt_or_warm = StateKeyIndex(is_global=key_index.is_global)
    check(table, ROWS, _rebuilt_or_warm)
    assert _action(_rebuilt_or_warm) == "warm"
    _rebuilt_or_warm.close()


def test_keys_are_forgotten_after_their_ttl(table: FakeTable) -> None:
    now = [1_000_000.0]
    key_index = StateKeyIndex(is_global=False, clock=lambda: now[0])
    options = {"index.state.ttl": "1.5"}
    commit_rows(table, key_index, [("a", (1,)), ("a", (2,))], options)
    now[0] += 86400
    commit_rows(table, key_index, [("a", (2,))], options)
    now[0] += 86400
    found = key_index.tag(table.batch([("a", (1,)), ("a", (2,))]), table.context(options))
    # Key 1 was written two days ago and is forgotten, key 2 was refreshed by its update.
    assert found.bucket.tolist() == [-1, 0]
    assert key_index.count_keys(table.context(options)) == {(partition_bytes("a"), 0): 1}
    key_index.close()


def test_only_some_partitions(table: FakeTable) -> None:
    table.write("a", 0, _keys(1))
    table.write("b", 0, _keys(2))
    table.commit()
    key_index = StateKeyIndex(is_global=True)
    found = key_index.tag(table.batch([("a", (1,)), ("a", (2,))]), table.context({"index.partition.regex": "p=a"}))
    assert found.bucket.tolist() == [0, -1]
    table.write("a", 0, _keys(3))
    table.commit()
    found = key_index.tag(table.batch([("a", (3,)), ("a", (1,))]), table.context({"index.partition.regex": "p=a"}))
    assert found.bucket.tolist() == [0, 0]
    assert key_index.last_action is not None
    assert (key_index.last_action.kind, key_index.last_action.keys) == ("caught up", 1)
    key_index.close()


@pytest.mark.parametrize("left", [[], [9]], ids=["nothing left", "others left"])
def test_a_delete_that_was_compacted_away_unseen(table: FakeTable, key_index: StateKeyIndex, left: list[int]) -> None:
    """Deleted and compacted between two snapshots of the state: no live file tells of it."""
    table.write("a", 0, _keys(1, *left))
    table.write("b", 1, _keys(2))
    table.commit()
    check(table, ROWS, key_index)
    table.write("a", 0, [((1,), 3)])
    table.compact("a", 0)
    table.commit()
    found = check(table, [("b", (1,)), ("b", (2,)), ("a", (9,))], key_index)
    assert _action(key_index) == ("rebuilt" if key_index.is_global else "caught up")
    assert found.bucket.tolist() == [-1, 1, 0 if left else -1]


def _root(tmp_path: Path) -> Path:
    """The state table."""
    (found,) = (p for p in (tmp_path / "_index" / "state").iterdir() if (p / "snapshot").exists())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("is_global", [True, False], ids=["global", "by partition"])
def test_tasks_build_what_one_process_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_global: bool, parallelism: int
) -> None:
    """Also where keys are deleted, or came several times, and with less memory than all of them need."""
    monkeypatch.setattr(state_table, "BUCKET_KEYS", 8)
    monkeypatch.setattr(load, "ROW_BYTES", 1 << 18)
    table, options = FakeTable(tmp_path / "t"), {"index.state.cache-mb": "8"}
    for number in range(4):
        for bucket in range(3):
            for name in "a" if is_global else "ab":
                keys = range(bucket * 20, bucket * 20 + 20)
                table.write(name, bucket, [((k,), 3 if (k + number) % 5 == 0 else 0) for k in keys if k % 4 >= number])
        table.commit()
    asked = [(p, (k,)) for p in "ab" for k in range(70)]
    one, other = StateKeyIndex(is_global=is_global), StateKeyIndex(is_global=is_global)
    one.prepare_tag(table.context(options), TagTasks(LocalRunner(parallelism), lambda: table.context(options), "load"))
    assert _action(one) == "rebuilt"
    check(table, asked, one, options)
    counts = one.count_keys(table.context(options))
    shutil.rmtree(tmp_path / "_index")
    check(table, asked, other, options)
    assert _action(other) == "rebuilt"
    assert counts == other.count_keys(table.context(options))


def test_two_processes_bring_it_to_one_snapshot(table: FakeTable, key_index: StateKeyIndex) -> None:
    """The one that comes second uses what the first one put."""
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)])
    table.write("a", 7, _keys(7))
    table.commit()
    key_index.close()
    other = StateKeyIndex(is_global=key_index.is_global)
    put = StateTables.commit

    def late(self: StateTables, *args: Any) -> Any:
        with mock.patch.object(StateTables, "commit", put):
            check(table, ROWS, other)
        return put(self, *args)

    with mock.patch.object(StateTables, "commit", late):
        check(table, ROWS, key_index)
    assert (_action(other), _action(key_index)) == ("caught up", "warm")


def test_two_processes_tell_it_of_two_commits(table: FakeTable, key_index: StateKeyIndex) -> None:
    """The first one is told late: what the second one read of its files stays."""
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)])
    first = commit_rows(table, key_index, [("a", (7,))], bucket=3, tell=False)
    at_first = table.snapshot_id
    other = StateKeyIndex(is_global=key_index.is_global)
    commit_rows(table, other, [("a", (8,)), ("a", (0,))], bucket=4, deleted=[False, True])
    now, table.snapshot_id = table.snapshot_id, at_first
    tell_index(key_index, first, table.context())
    table.snapshot_id = now
    check(table, ROWS, key_index)
    assert _action(key_index) == "warm"


def test_one_object_is_told_of_a_commit_while_it_stores_another(table: FakeTable, key_index: StateKeyIndex) -> None:
    """The type that stays in the process has one for all batches of it."""
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)])
    first = commit_rows(table, key_index, [("a", (7,))], bucket=3, tell=False)
    route = StateUpdate.route

    def between(self: StateUpdate, commit: CommitInfo) -> Any:
        with mock.patch.object(StateUpdate, "route", route):
            commit_rows(table, key_index, [("a", (8,)), ("a", (0,))], bucket=4, deleted=[False, True])
        return route(self, commit)

    with mock.patch.object(StateUpdate, "route", between):
        tell_index(key_index, first, table.context())
    check(table, ROWS, key_index)
    assert _action(key_index) == "warm"


@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "snapshot", "schema", "property", "everything gone"])
def test_a_damaged_state_is_left_aside(table: FakeTable, key_index: StateKeyIndex, damage: str, tmp_path: Path) -> None:
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)])
    key_index.close()
    root = _root(tmp_path)
    if damage == "everything gone":
        shutil.rmtree(tmp_path / "_index")
    files = {"snapshot": "snapshot/snapshot-*", "schema": "schema/schema-0", "property": "snapshot/snapshot-*"}
    for file in root.glob(files.get(damage, "bucket-*/data-*")):
        data = file.read_bytes()
        if damage == "missing":
            file.unlink()
        elif damage == "property":
            file.write_bytes(data.replace(b"token", b"t0ken"))
        else:
            middle = len(data) // 2
            file.write_bytes(data[: middle - 50] + bytes(100) + data[middle + 50 :] if damage == "flip" else data[:-1])
    made = StateKeyIndex(is_global=key_index.is_global)
    check(table, ROWS + [("c", k) for _, k in ROWS], made)
    assert _action(made) == "rebuilt"
    check(table, ROWS, StateKeyIndex(is_global=key_index.is_global))
    for n in range(4):
        commit_rows(table, made, [("a", (k,)) for k in range(n, n + 5)])
        check(table, ROWS, made)


def test_old_states_go(table: FakeTable, key_index: StateKeyIndex, tmp_path: Path) -> None:
    """Snapshots expire, and a state that is built again takes those before it away, older releases' too."""
    old = tmp_path / "_index" / "state" / "0f00000000000000"
    old.mkdir(parents=True)
    (old / "run-1.keys").write_bytes(b"x")
    for n in range(9):
        commit_rows(table, key_index, [("a", (n,))])
    assert not old.exists()
    root = _root(tmp_path)
    assert len(list((root / "snapshot").glob("snapshot-*"))) == 4
    kept = TableMetadata.open(LocalStore(), str(root))
    named = {e.file.file_name for s in kept.snapshots() for e in load_view(kept, s).entries}
    assert {f.name for f in root.rglob("data-*")} <= named
    table.overwritten.append(table.commit())
    check(table, ROWS, key_index)
    assert (_action(key_index), root.exists(), _root(tmp_path).name) == ("rebuilt", False, "2")


def test_a_state_that_is_too_small_is_built_anew(
    table: FakeTable, key_index: StateKeyIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(state_table, "BUCKET_KEYS", 4)
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)])
    commit_rows(table, key_index, [("a", (k,)) for k in range(40)], bucket=1)
    check(table, ROWS, key_index)
    assert _action(key_index) == "rebuilt"
    commit_rows(table, key_index, [("a", (k,)) for k in range(5)])
    check(table, [("a", (k,)) for k in range(45)], key_index)
    assert _action(key_index) == "warm"
    assert len(list(_root(tmp_path).glob("bucket-*"))) > 4


def test_someone_else_wrote_into_the_state(table: FakeTable, key_index: StateKeyIndex, tmp_path: Path) -> None:
    commit_rows(table, key_index, [("a", (1,))])
    key_index.close()
    state = Table.open(str(_root(tmp_path)))
    rows = state.scan().to_arrow()
    state.upsert(rows.set_column(rows.column_names.index("_BUCKET"), "_BUCKET", pa.array([9], pa.int32())))
    check(table, ROWS, key_index)
    assert _action(key_index) == "rebuilt"


def test_its_compactions_keep_it(table: FakeTable, key_index: StateKeyIndex, tmp_path: Path) -> None:
    """Its own ones, when runs are many, and one by hand."""
    for n in range(12):
        commit_rows(table, key_index, [("a", (n,)), ("a", (n + 1,))], bucket=n)
        check(table, ROWS, key_index)
    root = _root(tmp_path)
    assert len(list(root.rglob("data-*"))) < 9
    Table.open(str(root)).compact(full=True)
    check(table, ROWS, StateKeyIndex(is_global=key_index.is_global))
    commit_rows(table, key_index, [("a", (0,)), ("a", (20,))], bucket=3)
    check(table, ROWS, key_index)
    assert _action(key_index) == "warm"


def test_what_programs_that_died_have_left_goes(table: FakeTable, key_index: StateKeyIndex, tmp_path: Path) -> None:
    commit_rows(table, key_index, [("a", (1,))])
    (data,) = _root(tmp_path).rglob("data-*")
    old, new = (data.with_name(data.name.replace("data-", f"data-{n}")) for n in range(2))
    for left in (old, new):
        left.write_bytes(b"x")
    os.utime(old, (time.time() - 90_000,) * 2)
    for n in range(8):
        commit_rows(table, key_index, [("a", (n,))])
    assert (old.exists(), new.exists()) == (False, True)


def test_nothing_is_stored_for_a_snapshot_that_does_not_follow(tmp_path: Path) -> None:
    table, key_index = FakeTable(tmp_path / "t"), StateKeyIndex()
    commit = commit_rows(table, key_index, [("a", (1,))], tell=False)
    work = TagTasks(LocalRunner(2), lambda: table.context(), "t")
    assert key_index.begin_update(replace(commit, base_id=7), commit.partitions, table.context(), 1, work) is None
