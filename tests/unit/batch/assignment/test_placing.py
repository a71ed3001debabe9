"""Batches that cannot fit say so before anything is written, with what to change."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from lakeidx.batch import index_types
from lakeidx.batch.assignment import placing
from lakeidx.batch.assignment.placement import PlaceWork
from lakeidx.batch.assignment.placing import _PlacingTasks, check_buckets_fit, check_rows_fit, fits_driver
from lakeidx.batch.assignment.row_keys import RowKeys, rows_to_route
from lakeidx.batch.context import make_context
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import InvalidInputError
from lakeidx.tasks.routed_rows import Block
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.peak_memory import peak_mib
from tests.kit.reachable import files_on_disk
from tests.kit.small_tables import content, make_table, upsert
from tests.kit.small_tables import rows as rows_of
from tests.kit.upserts import upsert_table

GIB, ROWS, BLOCK = 1 << 30, 12_000_000, 250_000


@pytest.mark.parametrize(
    ("options", "fits", "too_many"),
    [
        ({}, 53_000_000, 54_000_000),
        ({"bucket": "4"}, 89_000_000, 90_000_000),
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
    check_rows_fit(schema, 530_000_000, GIB, tasks=10)
    with pytest.raises(
        InvalidInputError,
        match=r"540000000 rows, and each of its 10 placing tasks can assign 53687091 at a time .* with 1\.0 GiB for a task, or"
        r" with more tasks, by more slots or option 'dynamic-bucket\.assigner-parallelism'",
    ):
        check_rows_fit(schema, 540_000_000, GIB, tasks=10)


def bytes_of_a_row(folder: str, options: dict[str, str]) -> float:
    """What a placing task of two takes of each row that it is sent, of one partition."""
    table = make_table(folder, options={"dynamic-bucket.target-row-num": "2000000", **options})
    context = make_context(table.metadata, "b")
    work = PlaceWork.of(context, table.schema, None, folder, 2)
    tasks = _PlacingTasks(work, 1, ROWS)
    partition = with_arity(encode_row([1], table.schema.partition_types), 1)

    def blocks(rows: int) -> Iterator[Block]:
        rng = np.random.default_rng(0)
        for order, _ in enumerate(range(0, rows, BLOCK)):
            hashes = rng.integers(0, 4, BLOCK) if "bucket" in options else rng.integers(-(1 << 31), 1 << 31, BLOCK)
            keys = RowKeys((partition,), np.zeros(BLOCK, np.int32), hashes.astype(np.int32))
            yield Block(0, order, rows_to_route(keys, None))

    tasks.combine(0, blocks(2 * BLOCK))
    before = peak_mib()
    tasks.combine(0, blocks(ROWS))
    return (peak_mib() - before) * (1 << 20) / ROWS


@pytest.mark.slow
@pytest.mark.parametrize(("options", "least"), [({}, 20), ({"bucket": "4"}, 12)])
def test_the_bound_is_what_a_placing_task_takes(tmp_path: Path, options: dict[str, str], least: int) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(bytes_of_a_row, str(tmp_path), options).result(HANGS_SECONDS)
    assert least - 1 < found < 1.5 * least


def test_tasks_without_memory_for_their_share_write_no_file_into_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks have 50 rows each; where four have 25 the same batch goes on."""
    table = make_table(tmp_path)
    before = files_on_disk(table)
    batch = rows_of([(1, k, "a") for k in range(100)])
    monkeypatch.setattr(placing, "available_bytes", lambda: 49 * 20)
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
    assert [r.assign.in_tasks for r in results] == [False, True, False]
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


@pytest.mark.parametrize("room", [99, 5000])
def test_a_batch_that_does_not_fit_writes_no_file_into_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Too many rows for the first, too many buckets for the second; with more memory the same batch goes on."""
    table = make_table(tmp_path)
    before = files_on_disk(table)
    values = [(p, 0, "a") for p in range(5)]
    with monkeypatch.context() as small:
        small.setattr(placing, "available_bytes", lambda: room)
        with pytest.raises(InvalidInputError, match="5 rows" if room == 99 else "5 buckets"):
            upsert(table, values, batch_id="b")
    assert files_on_disk(table) == before
    upsert(table, values, batch_id="b")
    assert content(table) == {(p, 0): "a" for p in range(5)}
