"""Expiry as the command line and the job `snapshot_expiry` run it: the table, the staging of its batches, its lookup files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakeidx.format.schema.rules import check_schema
from lakeidx.maintenance.lookup_store import clean_lookup_files
from lakeidx.maintenance.partitions.done import run_partition_upkeep
from lakeidx.maintenance.staging_cleanup import FINISHED_AGE_MS, clean_staging
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.limits import peak_bytes


def run_snapshot_expiry(
    table: TableHandle,
    *,
    staging: bool = True,
    staging_age_ms: int = FINISHED_AGE_MS,
    dry_run: bool = False,
    retention: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Expire partitions, snapshots, tags, consumers and changelogs by the table's options, mark idle partitions done, and clean up
    after batches and lookups.

    staging   clean the staging of finished and abandoned batches, too
    staging_age_ms   how long rows of a finished batch, and rejected ones, stay staged after its last file was written
    dry_run   delete nothing; ``list`` names every file of the table that would go
    retention options in place of the table's own, for this run: ``snapshot.num-retained.max`` and the like
    returns   metrics for people and programs, as JSON takes them; seconds of a dry run are those of all that the run reads, beside
              which it makes a request for each file or each 1,000; memory: bytes that the process had at most until then
    errors    see `expire_table`; running again finishes a job that was cut off
    """
    begun, now_ms = time.monotonic(), int(time.time() * 1000)
    schema = table.schema
    if retention:
        schema = replace(schema, options={**schema.options, **retention})
        check_schema(schema)
    partitions = run_partition_upkeep(table, dry_run=dry_run)
    report = expire_table(table.metadata, schema, now_ms=now_ms, dry_run=dry_run)
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
        "notes": [*report.notes, *partitions.notes],
        "partitions_expired": list(partitions.expired),
        "partitions_done": list(partitions.done),
    }
    if dry_run:
        out["list"] = [{"role": f.role.value, "path": f.path, "bytes": f.size} for f in report.files]
    if staging:
        cleaned = clean_staging(table.metadata, now_ms=now_ms, finished_age_ms=staging_age_ms, dry_run=dry_run)
        out["staging"] = {
            "finished": len(cleaned.finished),
            "abandoned": list(cleaned.abandoned),
            "held": list(cleaned.held),
            "files": len(cleaned.files),
            "bytes": cleaned.bytes,
        }
    lookup = clean_lookup_files(table.metadata, dry_run=dry_run)
    out["lookup"] = {"files": len(lookup), "bytes": sum(f.size for f in lookup)}
    return {**out, "seconds": round(time.monotonic() - begun, 6), "memory": peak_bytes()}
