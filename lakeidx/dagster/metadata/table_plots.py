"""Plots of a table, from the files its newest snapshot names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from lakeidx.dagster.metadata.plots import batch_history, hash_distribution, levels_per_bucket, rows_per_bucket
from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import SnapshotView, decode_partition_dict

#: Snapshots the history goes back.
_HISTORY = 40


def view_plots(view: SnapshotView) -> dict[str, Any]:
    """Plot rows and levels per bucket of the live files of a view."""
    numbers, places = view.entries.places()
    counts = np.zeros(len(places), np.int64)
    np.add.at(counts, numbers, view.entries.column("row_count"))
    levels: list[Counter[int]] = [Counter() for _ in places]
    for (place, level), files in Counter(
        zip(numbers.tolist(), view.entries.column("level").tolist(), strict=True)
    ).items():
        levels[place][level] = files
    order = sorted(range(len(places)), key=places.__getitem__)
    names = {i: _bucket_name(view, *places[i]) for i in order}
    rows = {names[i]: int(counts[i]) for i in order}
    index = view.hash_index()
    if index:
        rows = {_bucket_name(view, p, b): e.row_count for p, files in sorted(index.items())
                for b, e in sorted(files.items())}  # fmt: skip
    if not rows:
        return {}
    target = view.schema.table_options.dynamic_bucket_target_row_num
    return {
        "lakeidx/plot_rows_per_bucket": rows_per_bucket(rows, target),
        "lakeidx/plot_levels_per_bucket": levels_per_bucket({names[i]: levels[i] for i in order}),
    }


def hash_plot(counts: Sequence[int]) -> dict[str, Any]:
    """Plot the distribution of key hashes, counted in equal parts of their space."""
    return {"lakeidx/plot_hash_distribution": hash_distribution(counts)} if any(counts) else {}


def history_plot(metadata: TableMetadata, latest: Snapshot | None) -> dict[str, Any]:
    """Draw the newest snapshots, one bar each."""
    found: list[Snapshot] = []
    for number in range(latest.id, max(0, latest.id - _HISTORY), -1) if latest else ():
        try:
            found.append(metadata.load_snapshot(number))
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
