"""A batch committed to a table of many data files (`bench.metadata_table`)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import metadata_table as made
from lakeidx.api.table import Table
from lakeidx.table.view import load_view
from tests.kit.metered_store import MeteredStore
from tests.kit.peak_memory import peak_mib

if TYPE_CHECKING:
    from lakeidx.table.commit.changes import CommitRequest

#: The batch writes to the hundred files of one partition's ten buckets.
TOUCHED, NEW_FILES = 7, 100


def opened(uri: str) -> tuple[Table, MeteredStore]:
    """Return the table, with its requests counted."""
    table = Table.open(uri)
    store = MeteredStore(table.metadata.store)
    table.metadata.store = store
    return table, store


def _request(table: Table) -> CommitRequest:
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


def commit(uri: str, folder: Path) -> Mapping[str, Any]:
    """Commit a batch into the touched buckets; its planning is not counted."""
    from lakeidx.table.commit.commit_changes import commit_changes

    copy = made.linked_copy(uri, folder)
    request = _request(Table.open(copy))
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


def run_commit(uri: str, files: int, folder: Path) -> dict[str, Any]:
    """Run the commit in this process; add the memory and the load."""
    out = {"case": "commit", "files": files, **commit(uri, folder), "peak_mib": peak_mib(), "load": os.getloadavg()[0]}
    return {k: round(v, 2) if isinstance(v, float) else v for k, v in out.items()}
