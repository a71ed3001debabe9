"""Assignment into a table of many buckets behind a slow store: in the driver, and in tasks, which read each index file once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.growth.points import Point, filled, make_table, rows
from bench.scale.figure import Clock, Figure, SlowStore, in_new_process
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import ingest_rows, make_context, upsert_table
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import LocalRunner

BATCH, TASKS = 100_000, 4
#: Keys of a bucket of the table.
BUCKET_KEYS = 500


def measure(buckets: int, folder: Path) -> list[Figure]:
    """Assign a batch of known keys from all over the table."""
    uri = filled(folder, Point("buckets", buckets, keys=buckets * BUCKET_KEYS, buckets=buckets))
    return [in_new_process(assign, uri, buckets, tasks) for tasks in (0, TASKS)]


def assign(uri: str, buckets: int, tasks: int) -> Figure:
    """Assign in this process, which has read nothing of the table; in so many placing tasks, or (0) without."""
    runner, most = LocalRunner(max(1, tasks)), 0 if tasks else None
    opened = TableHandle.open(uri)
    warm = make_table(Path(uri).parents[2], Point("buckets", 1), f"warm_{tasks}")
    for turn in range(2):
        upsert_table(
            make_context(warm.metadata, f"w{turn}", runner=runner, driver_bytes=most), rows(np.arange(1000), 1, 0)
        )
    known = np.random.default_rng(1).choice(buckets * BUCKET_KEYS, min(BATCH, buckets * BUCKET_KEYS), replace=False)
    ingest_rows(make_context(opened.metadata, f"b{tasks}"), rows(known, 1, 1))
    store = SlowStore(opened.store)
    table = TableHandle(store, opened.paths)
    context = make_context(table.metadata, f"b{tasks}", runner=runner, driver_bytes=most)
    clock = Clock()
    assigned = run_bucket_assignment(context)
    seconds, cpu = clock.seconds()
    if (assigned.updates, assigned.inserts) != (len(known), 0):
        raise AssertionError(f"{assigned.updates} of {len(known)} known keys were found")
    if bool(assigned.placing_tasks) is not bool(tasks):
        raise AssertionError("the rows were not placed where they should be")
    where = f", {tasks} tasks" if tasks else ""
    return Figure(
        f"assignment, {buckets:,} buckets, 30 ms a request{where}",
        seconds,
        cpu,
        requests=store.counts["get"].requests,
    )
