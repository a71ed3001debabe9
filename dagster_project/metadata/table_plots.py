"""Which pictures of a table are shown, from the files its newest snapshot names."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from dagster_project.metadata.plots import batch_history, hash_distribution, levels_per_bucket, rows_per_bucket
from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import Snapshot
from lakeidx.quality.load import TableEvidence
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import SnapshotView, decode_partition_dict

#: Snapshots the history goes back.
_HISTORY = 40


def view_plots(view: SnapshotView) -> dict[str, Any]:
    """Plot rows and levels per bucket of the live files of a view."""
    rows: Counter[str] = Counter()
    levels: dict[str, Counter[int]] = {}
    for entry in sorted(view.entries, key=lambda e: (e.partition, e.bucket)):
        name = _bucket_name(view, entry.partition, entry.bucket)
        rows[name] += entry.file.row_count
        levels.setdefault(name, Counter())[entry.file.level] += 1
    index = view.hash_index()
    if index:
        rows = Counter({_bucket_name(view, p, b): e.row_count for p, files in sorted(index.items())
                        for b, e in sorted(files.items())})  # fmt: skip
    if not rows:
        return {}
    target = view.schema.table_options.dynamic_bucket_target_row_num
    return {
        "lakeidx/plot_rows_per_bucket": rows_per_bucket(rows, target),
        "lakeidx/plot_levels_per_bucket": levels_per_bucket(levels),
    }


def hash_plot(evidence: TableEvidence) -> dict[str, Any]:
    """Plot the distribution of key hashes in the scope."""
    hashes = [h for h in evidence.index.values() if len(h)] or [h for h in evidence.live.values() if len(h)]
    return {"lakeidx/plot_hash_distribution": hash_distribution(np.concatenate(hashes))} if hashes else {}


def history_plot(metadata: TableMetadata, latest: Snapshot | None) -> dict[str, Any]:
    """Draw the newest snapshots, one bar each."""
    found: list[Snapshot] = []
    for number in range(latest.id, max(0, latest.id - _HISTORY), -1) if latest else ():
        try:
            found.append(metadata.snapshot(number))
        except NotFoundError:
            break
    if not found:
        return {}
    found.reverse()
    deltas = [s.delta_record_count or 0 for s in found]
    totals = [s.total_record_count or 0 for s in found]
    return {"lakeidx/plot_batch_history": batch_history([s.id for s in found], deltas, totals)}


def _bucket_name(view: SnapshotView, partition: bytes, bucket: int) -> str:
    values = decode_partition_dict(partition, view.schema)
    return "/".join([*(str(v) for v in values.values()), str(bucket)])
