"""What a table of a million data files (`bench.metadata_table`) is asked for, each case in a process that imports what it needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench import metadata_table as made
from lakeidx.table.handle import TableHandle
from lakeidx.table.view import load_view
from lakeidx.testing.metered_store import MeteredStore
from lakeidx.testing.peak_memory import peak_mib

if TYPE_CHECKING:
    from lakeidx.table.commit.changes import CommitRequest

#: Seconds, MiB and requests that issue 13 allows for a million files and 100,000 buckets.
TARGETS: Mapping[str, Mapping[str, float]] = {
    "plan batch": {"seconds": 3, "peak_mib": 500},
    "plan scan": {"seconds": 3, "peak_mib": 500},
    "whole view": {"seconds": 12, "peak_mib": 800},
    "commit": {"seconds": 3, "requests": 25 + 2 * 100},
    "full merge": {},
    "plan compaction": {"seconds": 5},
    "compaction sensor": {"seconds": 5},
}
#: The batch writes to the hundred files of one partition's ten buckets.
TOUCHED, NEW_FILES = 7, 100


def opened(uri: str) -> tuple[TableHandle, MeteredStore]:
    """Return the table, with its requests counted."""
    table = TableHandle.open(uri)
    store = MeteredStore(table.metadata.store)
    table.metadata.store = store
    return table, store


def plan_batch(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """Return the live files and index of the partitions a batch touches."""
    table, store = opened(uri)
    raw = made.partition_bytes(TOUCHED, table.schema)
    view = load_view(table.metadata, table.snapshot, partitions={raw})
    assert {(e.partition, e.bucket) for e in view.entries} == {(raw, b) for b in range(made.BUCKETS_PER_PARTITION)}
    assert len(view.entries) == 100
    assert len(view.index) == made.BUCKETS_PER_PARTITION
    return {"requests": store.total.requests}


def plan_scan(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """Plan a scan of one partition."""
    from lakeidx.codec.rows.binary_row import decode_row

    table, store = opened(uri)
    plan = table.scan(where=f"p = {TOUCHED}").plan
    assert sum(len(b.files()) for b in plan.buckets) == 100
    assert {decode_row(b.partition[4:], table.schema.partition_types)[0] for b in plan.buckets} == {TOUCHED}
    return {"requests": store.total.requests}


def whole_view(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """List all live files."""
    table, store = opened(uri)
    view = load_view(table.metadata, table.snapshot)
    assert len(view.entries) == files
    assert len(view.index) == files // made.FILES_PER_BUCKET
    assert len(view.max_sequence_numbers()) == files // made.FILES_PER_BUCKET
    return {"requests": store.total.requests}


def _request(table: TableHandle, files: int) -> CommitRequest:
    """Return a batch of new level-0 files for the buckets of one partition."""
    import numpy as np

    from lakeidx.table.commit.changes import CommitRequest, TableChanges

    schema, random = table.schema, np.random.default_rng(1)
    stats = made.random_stats(NEW_FILES, random)
    start = TOUCHED * made.BUCKETS_PER_PARTITION * made.FILES_PER_BUCKET
    entries = []
    for i in range(NEW_FILES):
        entry = made.entry_of(start + i, stats[i], schema)
        sequence = (made.FILES_PER_BUCKET + 1 + i) * made.ROWS_PER_FILE
        file = replace(
            entry.file, file_name=f"data-new-{i}.parquet", level=0, min_sequence_number=sequence,
            max_sequence_number=sequence + made.ROWS_PER_FILE - 1,
        )  # fmt: skip
        entries.append(replace(entry, file=file))
    snapshot = table.snapshot
    view = load_view(table.metadata, snapshot, partitions={entries[0].partition})
    index = tuple(replace(e, file_name=f"index-new-{e.bucket}") for e in view.index)
    assigned = {p: {b: e.file_name for b, e in found.items()} for p, found in view.hash_index().items()}
    return CommitRequest(
        commit_user="bench-batch", changes=TableChanges(append=tuple(entries), append_index=index),
        base_snapshot_id=1, assigned_on=assigned,
    )  # fmt: skip


def commit(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """Commit a batch into the touched buckets; its planning is not counted."""
    from lakeidx.table.commit.commit_changes import commit_changes

    copy = made.linked_copy(uri, folder)
    request = _request(TableHandle.open(copy), files)
    table, store = opened(copy)
    started, cpu = time.monotonic(), time.process_time()
    result = commit_changes(table.metadata, request)
    work, cpu = time.monotonic() - started, time.process_time() - cpu
    verbs = {v: c.requests for v, c in sorted(store.counts.items())}
    assert result.snapshot_ids == (2,)
    raw = next(iter(request.assigned_on or ()))
    view = load_view(table.metadata, table.snapshot, partitions={raw})
    assert len(view.entries) == 100 + NEW_FILES
    return {"requests": sum(verbs.values()), "work": work, "seconds": work, "cpu_seconds": cpu, "verbs": verbs}


def full_merge(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """Make the same commit when every manifest must be written anew."""
    from lakeidx.table.commit.commit_changes import commit_changes

    copy = made.linked_copy(
        uri, folder, **{"manifest.target-file-size": "64 mb", "manifest.full-compaction-threshold-size": "1 kb"}
    )
    request = _request(TableHandle.open(copy), files)
    table, store = opened(copy)
    started, cpu = time.monotonic(), time.process_time()
    commit_changes(table.metadata, request)
    work, cpu = time.monotonic() - started, time.process_time() - cpu
    snapshot = table.snapshot
    assert snapshot is not None
    metas = table.metadata.manifest_list(snapshot.base_manifest_list)
    assert sum(m.num_added_files for m in metas) == files
    return {"requests": store.total.requests, "work": work, "seconds": work, "cpu_seconds": cpu,
            "note": f"{len(metas)} manifests"}  # fmt: skip


def plan_compaction(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """Plan a compaction of the table; the view is loaded before."""
    from lakeidx.compaction.pick import PickReason
    from lakeidx.compaction.plan_buckets import plan_buckets

    table, _ = opened(uri)
    view = load_view(table.metadata, table.snapshot)
    started, cpu = time.monotonic(), time.process_time()
    work = plan_buckets(table.metadata, table.schema, view, full=False, now_ms=0)
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    assert len(work) == files // made.FILES_PER_BUCKET // made.DUE_EVERY
    assert {w.task.reason for w in work} <= set(PickReason)
    assert all(w.index for w in work)
    return {"work": seconds, "seconds": seconds, "cpu_seconds": cpu, "note": f"{len(work)} of {files // 10:,} buckets"}


def compaction_sensor(uri: str, files: int, folder: Path) -> Mapping[str, Any]:
    """Do what the sensor does for a new batch, when nothing was due before it; a look at the whole table is in the note."""
    from lakeidx.compaction.plan_buckets import plan_due
    from lakeidx.table.commit.commit_changes import commit_changes

    copy = made.linked_copy(uri, folder)
    table = TableHandle.open(copy)
    clean = table.snapshot
    commit_changes(table.metadata, _request(table, files))
    figures = []
    for since in (clean, None):
        fresh = TableHandle.open(copy)
        assert fresh.snapshot is not None
        started, cpu = time.monotonic(), time.process_time()
        work = plan_due(fresh.metadata, fresh.schema, fresh.snapshot, clean=since)
        figures.append((time.monotonic() - started, time.process_time() - cpu, len(work)))
    (seconds, cpu, some), (all_seconds, _, all_due) = figures
    # Ten buckets got ten more runs each; of the others every hundredth was due before.
    touched = files // made.FILES_PER_BUCKET // made.DUE_EVERY
    assert some == made.BUCKETS_PER_PARTITION
    assert touched < all_due <= touched + some
    return {"work": seconds, "seconds": seconds, "cpu_seconds": cpu, "note": f"whole table {all_seconds:.1f} s"}


CASES: Mapping[str, Callable[[str, int, Path], Mapping[str, Any]]] = {
    "plan batch": plan_batch,
    "plan scan": plan_scan,
    "whole view": whole_view,
    "commit": commit,
    "full merge": full_merge,
    "plan compaction": plan_compaction,
    "compaction sensor": compaction_sensor,
}


def run_case(name: str, uri: str, files: int, folder: Path) -> dict[str, Any]:
    """Run one case in this process."""
    started = time.monotonic()
    found = dict(CASES[name](uri, files, folder))
    work = time.monotonic() - started
    process = psutil.Process()
    times = process.cpu_times()
    out = {
        "case": name, "files": files, "seconds": time.time() - process.create_time(), "work": work,
        "cpu_seconds": times.user + times.system, "peak_mib": peak_mib(), **found, "load": os.getloadavg()[0],
    }  # fmt: skip
    over = [f"{k} over {v:g}" for k, v in TARGETS[name].items() if float(out[k]) > v]
    limit = ", ".join(f"{k} {v:g}" for k, v in TARGETS[name].items())
    out["target"] = f"{'over' if over else 'within'}: {limit}" if limit else ""
    return {k: round(v, 2) if isinstance(v, float) else v for k, v in out.items()}
