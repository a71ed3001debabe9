"""Expiry as the command line and `jobs/expire.py` run it: the table, the staging of its batches, its lookup files."""

from __future__ import annotations

import time
from typing import Any

from lakeidx.pipeline.cleanup import clean_staging
from lakeidx.pipeline.lookup_store import clean_lookup_files
from lakeidx.table.expire import expire_table
from lakeidx.table.handle import TableHandle


def expire_everything(table: TableHandle, *, staging: bool = True, dry_run: bool = False) -> dict[str, Any]:
    """Expire snapshots, tags, consumers and changelogs by the table's options, then clean up after batches and lookups.

    staging   clean the staging of finished and abandoned batches, too
    dry_run   delete nothing; ``list`` names every file of the table that would go
    returns   figures for people and programs, as JSON takes them
    errors    see `expire_table`; running again finishes a job that was cut off
    """
    now_ms = int(time.time() * 1000)
    report = expire_table(table.metadata, table.schema, now_ms=now_ms, dry_run=dry_run)
    out: dict[str, Any] = {
        "dry_run": dry_run,
        "snapshots": list(report.snapshots),
        "earliest": report.earliest,
        "tags": list(report.tags),
        "consumers": list(report.consumers),
        "changelogs": list(report.changelogs),
        "files": len(report.files),
        "bytes": report.bytes,
        "by_role": dict(report.count_by_role),
        "notes": list(report.notes),
    }
    if dry_run:
        out["list"] = [{"role": f.role.value, "path": f.path, "bytes": f.size} for f in report.files]
    if staging:
        cleaned = clean_staging(table.metadata, now_ms=now_ms, dry_run=dry_run)
        out["staging"] = {
            "finished": len(cleaned.finished),
            "abandoned": list(cleaned.abandoned),
            "files": len(cleaned.files),
            "bytes": cleaned.bytes,
        }
    lookup = clean_lookup_files(table.metadata, dry_run=dry_run)
    out["lookup"] = {"files": len(lookup.files), "bytes": lookup.bytes}
    return out
