"""Batches that cannot fit say so before anything is written, with what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.batch import index_types
from lakeidx.batch.assignment import room as rooms
from lakeidx.batch.assignment.room import check_buckets_fit, check_rows_fit, fits_driver
from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.errors import InvalidInputError
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.reachable import files_on_disk
from lakeidx.testing.small_tables import content, make_table, upsert
from lakeidx.testing.small_tables import rows as rows_of

GIB = 1 << 30


@pytest.mark.parametrize(
    ("options", "fits", "too_many"),
    [
        ({}, 26_000_000, 27_000_000),
        ({"bucket": "4"}, 26_000_000, 27_000_000),
        ({"index.type": "simple"}, 11_000_000, 12_000_000),
        ({"index.type": "state"}, 6_700_000, 6_800_000),
    ],
)
def test_rows_of_a_gibibyte(tmp_path: Path, options: dict[str, str], fits: int, too_many: int) -> None:
    schema = make_table(tmp_path, options=options).schema
    check_rows_fit(schema, fits, GIB)
    with pytest.raises(InvalidInputError, match=rf"{too_many} rows.*1\.0 GiB; load it as several batches"):
        check_rows_fit(schema, too_many, GIB)


def test_each_placing_task_has_its_share_of_the_rows(tmp_path: Path) -> None:
    schema = make_table(tmp_path).schema
    check_rows_fit(schema, 260_000_000, GIB, tasks=10)
    with pytest.raises(
        InvalidInputError,
        match=r"270000000 rows, and each of its 10 placing tasks can assign 26843545 at a time .* with 1\.0 GiB for a task, or"
        r" with more tasks, by more slots or option 'dynamic-bucket\.assigner-parallelism'",
    ):
        check_rows_fit(schema, 270_000_000, GIB, tasks=10)


def test_tasks_without_memory_for_their_share_write_no_file_into_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks have 50 rows each; where four have 25 the same batch goes on."""
    table = make_table(tmp_path)
    before = files_on_disk(table)
    batch = rows_of([(1, k, "a") for k in range(100)])
    monkeypatch.setattr(rooms, "available_bytes", lambda: 49 * 40)
    with pytest.raises(InvalidInputError, match="100 rows, and each of its 2 placing tasks can assign 49 at a time"):
        upsert_table(make_context(table.metadata, "b", runner=LocalRunner(2), driver_bytes=0), batch)
    assert files_on_disk(table) == before
    monkeypatch.setattr("lakeidx.batch.stages.bucket_assignment.check_buckets_fit", lambda *_: None)
    result = upsert_table(make_context(table.metadata, "b", runner=LocalRunner(4), driver_bytes=0), batch)
    assert result.assign.inserts == 100


def test_what_an_index_holds_counts_for_the_driver(tmp_path: Path) -> None:
    """A batch into a table whose keys are beyond the budget is placed in tasks, and what lay in memory is let go."""
    table = make_table(tmp_path, options={"index.type": "inmemory", "index.driver-memory": "128 mb"})
    assert fits_driver(table.schema, 800_000, 0)
    assert fits_driver(table.schema, 100_000, 2_000_000)
    assert not fits_driver(table.schema, 900_000, 0)
    assert not fits_driver(table.schema, 100_000, 3_000_000)
    held = index_types._in_memory
    held.clear()
    results = []
    for name, room in (("a", 5 * 160), ("b", 5 * 160), ("c", 5 * 160 + 10 * 45)):
        context = make_context(table.metadata, name, driver_bytes=room)
        results.append(upsert_table(context, rows_of([(1, k, name) for k in range(5)])))
        assert len(held) == (name != "b")
    assert [bool(r.assign.placing_tasks) for r in results] == [False, True, False]
    assert [r.assign.inserts for r in results] == [5, 0, 0]
    assert content(table) == {(1, k): "c" for k in range(5)}


def test_an_index_of_keys_numbers_its_rows_in_32_bits(tmp_path: Path) -> None:
    keyed, hashed = (make_table(tmp_path / t, options={"index.type": t}).schema for t in ("simple", "hash"))
    check_rows_fit(hashed, 1 << 31, 1 << 50)
    with pytest.raises(InvalidInputError, match=r"can assign 2147483647 at a time with index\.type=simple"):
        check_rows_fit(keyed, 1 << 31, 1 << 50)


@pytest.mark.parametrize(("bucket", "option"), [("-1", "dynamic-bucket.target-row-num"), ("4", "bucket")])
def test_buckets_of_a_gibibyte(tmp_path: Path, bucket: str, option: str) -> None:
    schema = make_table(tmp_path, options={"bucket": bucket}).schema
    check_buckets_fit(schema, 500_000, GIB)
    with pytest.raises(InvalidInputError, match=rf"600000 buckets, and 536870 fit .*\(option '{option}'\)"):
        check_buckets_fit(schema, 600_000, GIB)


@pytest.mark.parametrize("room", [100, 5000])
def test_a_batch_that_does_not_fit_writes_no_file_into_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Too many rows for the first, too many buckets for the second; with more memory the same batch goes on."""
    table = make_table(tmp_path)
    before = files_on_disk(table)
    values = [(p, 0, "a") for p in range(5)]
    with monkeypatch.context() as small:
        small.setattr(rooms, "available_bytes", lambda: room)
        with pytest.raises(InvalidInputError, match="5 rows" if room == 100 else "5 buckets"):
            upsert(table, values, batch_id="b")
    assert files_on_disk(table) == before
    upsert(table, values, batch_id="b")
    assert content(table) == {(p, 0): "a" for p in range(5)}
