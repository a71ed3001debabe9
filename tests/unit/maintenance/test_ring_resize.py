"""Ring resizes: rows stay, every key is where the ring says, and a death at any step leaves a sound table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.format.snapshot import CommitKind
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.ring_resize import run_ring_resize
from lakeidx.quality.changelog_agrees import check_changelog_agrees
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.changes import scan_changes
from lakeidx.table.scan.states import State
from lakeidx.table.view import decode_partition_dict, load_view
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.kit.ring_table import RingTable, Row
from tests.kit.small_tables import keep_newest

#: Every bucket with rows is above it / every pair of buckets is below it.
SPLIT, MERGE = 1, 1 << 40


def _rows(n: int, *, p: int = 1, value: str | None = "a") -> list[Row]:
    return [(p, f"key-{i}", value) for i in range(n)]


@pytest.fixture
def table(tmp_path: Path) -> RingTable:
    made = RingTable(tmp_path)
    made.upsert([*_rows(60), *_rows(40, p=2)])
    made.upsert([*_rows(20, value="b"), (1, "key-59", None)])
    return made


@pytest.mark.slow
def test_splits_and_merges_keep_every_row(table: RingTable) -> None:
    table.check()
    assert set(table.buckets(1)) == {0, 1, 2}
    report = table.resize(SPLIT)
    # Up to eight buckets: three splits each in two partitions.
    assert (report.splits, report.merges) == (6, 0)
    assert report.rows == len(table.rows)
    assert set(table.buckets(1)) == {3, 4, 5, 6, 7, 8}
    table.check()
    metadata = table.metadata
    assert metadata.latest_snapshot().commit_kind is CommitKind.COMPACT  # type: ignore[union-attr]
    # Deleted rows were merged away.
    assert metadata.latest_snapshot().total_record_count == len(table.rows)  # type: ignore[union-attr]
    table.upsert(_rows(70, value="c"))
    table.check()
    merged = table.resize(MERGE)
    assert (merged.splits, merged.merges) == (0, 2)
    assert len(table.buckets(1)) == len(table.buckets(2)) == 1
    table.check()
    assert table.resize(MERGE).snapshot_ids == ()
    # Older states are read as they were.
    old = Table.open(table.handle.uri).scan(snapshot=2).batches()
    assert sum(part.num_rows for part in old) == 99


def test_only_the_partitions_asked_for_and_a_dry_run_writes_nothing(table: RingTable) -> None:
    before = sorted(p for p in table.folder.rglob("*") if p.is_file())
    metadata = table.metadata
    report = run_ring_resize(metadata, LocalRunner(1), index_dir=table.index_dir, target_bytes=SPLIT, dry_run=True)
    assert report.dry_run
    assert report.splits == 6
    assert {r["partition"] for r in report.resized} == {"p=1", "p=2"}
    assert sorted(p for p in table.folder.rglob("*") if p.is_file()) == before
    schema = metadata.latest_schema()
    entries = load_view(metadata, metadata.latest_snapshot()).entries
    only = next(e.partition for e in entries if decode_partition_dict(e.partition, schema)["p"] == 2)
    run_ring_resize(metadata, LocalRunner(1), index_dir=table.index_dir, target_bytes=SPLIT, partitions={only})
    assert set(table.buckets(1)) == {0, 1, 2}
    assert set(table.buckets(2)) == {3, 4, 5, 6, 7, 8}
    table.check()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"index.type": "hash"}, "have rings"),
        ({"hoodie.index.bucket.engine": "SIMPLE"}, "have rings"),
        ({"bucket": "4"}, "'bucket' = '-1'"),
    ],
)
def test_tables_without_rings(tmp_path: Path, options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        RingTable(tmp_path, options).resize(SPLIT)


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_tables_whose_compaction_writes_changelog_rows(tmp_path: Path, producer: str) -> None:
    """They are resized once every row is in a changelog; nothing is told twice, and what comes later once."""
    table = RingTable(tmp_path, {"changelog-producer": producer})
    table.upsert([(1, f"k{n}", "a" * 50) for n in range(60)])
    with pytest.raises(InvalidInputError, match=r"has rows that are not in the changelog yet.* run `lakeidx compact"):
        table.resize(SPLIT)
    full = producer == "full-compaction"
    run_compaction(table.metadata, LocalRunner(1), full=full)
    assert table.resize(SPLIT).splits > 0
    table.check()
    table.upsert([(1, "k1", "b"), (1, "new", "c"), (1, "k2", None)])
    run_compaction(table.metadata, LocalRunner(1), full=full)
    table.check()
    changes = scan_changes(
        table.handle.schema, State(table.metadata, 0), State(table.metadata, table.metadata.latest_snapshot_id() or 0)
    ).to_arrow()
    told = Counter(changes.column("_rowkind").to_pylist())
    assert told == {"+I": 61, "-U": 1, "+U": 1, "-D": 1}
    result = check_changelog_agrees(Table.open(table.handle.uri))
    assert result.passed, result
    assert result.metrics["changelog_rows"] == 64


class _Died(BaseException):
    """The process is gone."""


def _dying(table: RingTable, n: int, *, after: bool) -> TableMetadata:
    """A store on which the process dies before or after the n-th change."""
    metadata = table.metadata
    store, changes = FaultStore(metadata.store), ("put", "put_if_absent", "open_output", "delete", "delete_many")
    store.fail(changes, when="after" if after else "before", error=_Died, skip=n)
    store.fail(changes, error=_Died, skip=n + after, times=1000)
    return TableMetadata(store, metadata.paths)


def _without_marks(table: RingTable) -> None:
    for mark in Path(table.index_dir).rglob("*.commit"):
        mark.unlink()


@pytest.mark.slow
def test_a_rolled_back_resize_has_its_old_ring_again(table: RingTable) -> None:
    table.resize(SPLIT)
    table.upsert(_rows(10, value="gone"))
    metadata = table.metadata
    roll_back(metadata, metadata.latest_schema(), snapshot_id=2)
    table.rows |= {(p, k): v for p, k, v in _rows(20, value="b") if v is not None}
    table.check()
    assert set(table.buckets(1)) == {0, 1, 2}
    table.upsert(_rows(60, value="d"))
    table.check()
    assert table.resize(SPLIT).splits == 6
    # The numbers of the resize that was undone are not given again.
    assert set(table.buckets(1)) == {9, 10, 11, 12, 13, 14}
    table.check()


class _BatchInBetween(LocalRunner):
    """Another writer commits while the rows are rewritten."""

    def __init__(self, write: Callable[[], None]) -> None:
        super().__init__(1)
        self._write: Callable[[], None] | None = write

    def map(self, task: Any, items: Any, *, label: str = "") -> Any:
        out = super().map(task, items, label=label)
        if self._write is not None:
            write, self._write = self._write, None
            write()
        return out


@pytest.mark.slow
@pytest.mark.parametrize("rows", [_rows(5, value="late"), [(1, "new", "late")], [(1, "key-7", None)]])
def test_a_batch_in_between_makes_it_plan_again(table: RingTable, rows: list[Row]) -> None:
    report = table.resize(SPLIT, runner=_BatchInBetween(lambda: table.upsert(rows)))
    assert report.rounds == 2
    table.check()
    assert len(list(Path(table.index_dir).rglob("*.hashing_meta"))) == 2


@pytest.mark.slow
def test_two_resizes_at_once(table: RingTable) -> None:
    report = table.resize(SPLIT, runner=_BatchInBetween(lambda: table.resize(SPLIT) and None))  # type: ignore[arg-type]
    assert report.rounds == 2
    table.check()
    assert len(table.buckets(1)) <= 8


def test_a_foreign_bucket_is_refused(table: RingTable) -> None:
    for file in Path(table.index_dir).rglob("*.hashing_meta"):
        file.unlink()
    table.resize(SPLIT)
    for file in Path(table.index_dir).rglob("*.hashing_meta"):
        file.unlink()
    with pytest.raises(InvalidInputError, match=r"no ring of partition 'p=[12]'"):
        table.resize(MERGE)


_keys = st.integers(0, 40)
_batch = st.lists(
    st.tuples(st.integers(1, 2), _keys.map(lambda i: f"k{i}"), st.one_of(st.none(), st.sampled_from("abc"))),
    min_size=1,
    max_size=25,
    unique_by=lambda r: r[:2],
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), _batch),
        st.tuples(st.just("resize"), st.sampled_from([SPLIT, MERGE, 900, 2500])),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("roll back"), st.integers(0, 100)),
        st.tuples(st.just("expire and lose marks"), st.integers(1, 3)),
        st.tuples(st.just("die"), st.tuples(st.sampled_from([SPLIT, MERGE]), st.integers(0, 30), st.booleans())),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.slow
@settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(first=_batch, steps=_steps)
@example(
    first=_rows(60),
    steps=[
        ("resize", SPLIT),
        ("upsert", _rows(1)),
        ("upsert", _rows(1)),
        ("expire and lose marks", 1),
        ("upsert", _rows(70)),
    ],
)
def test_any_history_equals_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, first: list[Row], steps: list[tuple[str, Any]]
) -> None:
    table = RingTable(tmp_path_factory.mktemp("ring"))
    table.upsert(first)
    states = {1: dict(table.rows)}
    for action, argument in steps:
        if action == "upsert":
            table.upsert(argument)
        elif action == "resize":
            table.resize(argument)
        elif action == "compact":
            run_compaction(table.metadata, LocalRunner(1), full=argument, shrink=argument)
        elif action == "roll back":
            kept = sorted(set(states) & set(table.metadata.snapshot_ids()))
            target = kept[argument % len(kept)]
            roll_back(table.metadata, table.metadata.latest_schema(), snapshot_id=target)
            table.rows = dict(states[target])
        elif action == "expire and lose marks":
            keep_newest(table.handle, argument)
            _without_marks(table)
            for path in Path(table.index_dir, "commits").glob("*"):
                path.unlink()
        else:
            target, n, after = argument
            with suppress(_Died):
                table.resize(target, metadata=_dying(table, n, after=after))
        table.check()
        states[max(table.metadata.snapshot_ids())] = dict(table.rows)
