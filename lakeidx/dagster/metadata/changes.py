"""Changes as asset metadata: changelog rows, lag behind the source, and lag of the readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import dagster as dg

from lakeidx.dagster.metadata.reports import records_table
from lakeidx.errors import NotFoundError
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.expiration.read import read_consumers
from lakeidx.table.metadata import TableMetadata


def changelog_metadata(
    metadata: TableMetadata, commits: tuple[int, int] | None, newest_change_ms: int | None
) -> dict[str, Any]:
    """Return the changelog rows of a batch's snapshots, and the time between the source's newest change and their commit.

    commits            the snapshots before and after the batch; None = it has put none
    newest_change_ms   None for landing files that do not say
    """
    if commits is None:
        return {}
    found = list(_there(metadata, range(commits[0] + 1, commits[1] + 1)))
    out: dict[str, Any] = {}
    if found and metadata.latest_schema().table_options.changelog_producer != "none":
        out["lakeidx/changelog_rows"] = sum(s.changelog_record_count or 0 for s in found)
    if found and newest_change_ms is not None:
        out["lakeidx/newest_change"] = dg.MetadataValue.timestamp(newest_change_ms / 1000)
        out["lakeidx/lag_seconds"] = (found[0].time_millis - newest_change_ms) / 1000
    return out


def consumer_metadata(metadata: TableMetadata, newest: Snapshot | None) -> dict[str, Any]:
    """Return the positions of the table's consumers; nothing for a table without one.

    newest   the newest snapshot. A consumer is behind by the snapshots it has not read, and by the time from the oldest of
             these to the newest snapshot
    """
    found = read_consumers(metadata)
    if not found or newest is None:
        return {}
    from lakeidx.table.stream.consumer import LEASE_PREFIX

    rows: list[dict[str, Any]] = []
    for name, (next_snapshot, _) in sorted(found.items()):
        if name.startswith(LEASE_PREFIX):
            continue
        behind = max(newest.id + 1 - next_snapshot, 0)
        waits = next(_there(metadata, [next_snapshot]), None) if behind else None
        seconds = 0.0 if waits is None else (newest.time_millis - waits.time_millis) / 1000
        row = {"consumer": name, "next_snapshot": next_snapshot, "snapshots_behind": behind}
        rows.append({**row, "seconds_behind": seconds})
    if not rows:
        return {}
    furthest = max(row["snapshots_behind"] for row in rows)
    return {"lakeidx/consumers": records_table(rows), "lakeidx/consumer_lag_snapshots": furthest}


def _there(metadata: TableMetadata, ids: Iterable[int]) -> Iterator[Snapshot]:
    for number in ids:
        try:
            yield metadata.load_snapshot(number)
        except NotFoundError:
            continue
