"""Stage reports as asset metadata: numbers that Dagster plots over time, the column schema, samples of rejected rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakeidx.batch.artifacts import BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.index_types import COMPUTED_BUCKETS
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.errors import RejectedRowsError
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.storage import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX, SnapshotView

#: Rejected rows and offenders that are shown.
SAMPLE_ROWS = 10
_TEXT = 200


def column_schema(schema: TableSchema) -> dg.TableSchema:
    """Return the table's columns as Dagster shows them."""
    columns = []
    for field in schema.fields:
        tags = {"primary_key": ""} if field.name in schema.primary_keys else {}
        if field.name in schema.partition_keys:
            tags["partition_key"] = ""
        columns.append(
            dg.TableColumn(
                field.name,
                str(field.type.with_nullable(True)),
                field.description,
                dg.TableColumnConstraints(nullable=field.type.nullable),
                tags=tags,
            )
        )
    return dg.TableSchema(columns)


def table_metadata(name: str, uri: str, schema: TableSchema) -> dict[str, Any]:
    """Return what is known of a table before anything ran."""
    return {"dagster/table_name": name, "dagster/uri": uri, "dagster/column_schema": column_schema(schema)}


def ingest_metadata(report: IngestReport) -> dict[str, Any]:
    """Return the metrics of an ingest; of rejected rows the number: a check shows them."""
    out: dict[str, Any] = {
        "dagster/row_count": report.rows_staged,
        "lakeidx/batch_id": report.batch_id,
        "lakeidx/files": len(report.sources),
        "lakeidx/bytes_in": sum(s.size for s in report.sources),
        "lakeidx/rows_in": report.rows_in,
        "lakeidx/rows_rejected": report.rows_rejected,
        "lakeidx/seconds": round(report.seconds, 6),
    }
    if report.rows_ignored:
        out["lakeidx/rows_ignored"] = report.rows_ignored
    if report.skipped:
        out["lakeidx/skipped"] = records_table([{"what": w, "messages": n} for w, n in report.skipped.items()])
    return out


def rejected_metadata(found: IngestReport | RejectedRowsError, store: ObjectStore) -> dict[str, Any]:
    """Return the reasons why rows were rejected, the first rows, and where all are; nothing when none was."""
    if found.rejected_path is None:
        return {}
    rows = read_rejected(store, found.rejected_path, most=SAMPLE_ROWS).to_pylist()
    reasons = [{"reason": reason, "rows": count} for reason, count in list(found.reject_reasons.items())[:SAMPLE_ROWS]]
    return {
        "lakeidx/rejected_path": link(found.rejected_path),
        "lakeidx/reject_reasons": records_table(reasons),
        "lakeidx/rejected_rows": records_table(rows),
    }


def assign_metadata(report: BucketAssignmentReport) -> dict[str, Any]:
    """Return the metrics of an assignment; what the rows do is with the commit."""
    return {
        "dagster/row_count": report.rows,
        "lakeidx/batch_id": report.batch_id,
        **_attempt(report.attempt),
        "lakeidx/seconds": round(report.seconds, 6),
        **{f"lakeidx/{name}": value for name, value in report.index_metrics.items()},
    }


def write_metadata(report: IndexWriteReport, ingest: IngestReport) -> dict[str, Any]:
    """Return the metrics of a write, whose bytes are with the commit; amplification is bytes written for bytes that came in."""
    written = report.data_bytes + report.index_bytes
    came_in = sum(p.bytes for p in ingest.parts)
    return {
        "dagster/row_count": report.rows_written,
        "lakeidx/batch_id": report.batch_id,
        **_attempt(report.attempt),
        "lakeidx/data_files": report.data_files,
        "lakeidx/index_files": report.index_files,
        "lakeidx/write_amplification": round(written / came_in, 4) if came_in else 0.0,
        "lakeidx/seconds": round(report.seconds, 6),
    }


def commit_metadata(
    report: CommitReport,
    ingest: IngestReport,
    assign: BucketAssignmentReport,
    write: IndexWriteReport,
    snapshot_paths: Sequence[str],
) -> dict[str, Any]:
    """Return the metrics of a commit and of the whole batch; the snapshots it put."""
    out: dict[str, Any] = {
        "dagster/partition_row_count": ingest.rows_staged,
        "lakeidx/batch_id": report.batch_id,
        **_attempt(report.attempt),
        "lakeidx/already_committed": report.already,
        **({"lakeidx/replans": report.replans} if report.replans else {}),
        "lakeidx/rows_in": ingest.rows_in,
        "lakeidx/rows_rejected": ingest.rows_rejected,
        **_changes(assign),
        "lakeidx/buckets_touched": len(assign.targets),
        "lakeidx/new_buckets": assign.new_buckets,
        "lakeidx/data_bytes_written": write.data_bytes,
        "lakeidx/index_bytes_written": write.index_bytes,
        "lakeidx/seconds": round(report.seconds, 6),
    }
    if report.snapshot_ids:
        out["lakeidx/snapshot_id"] = report.snapshot_ids[-1]
        out["lakeidx/snapshot"] = link(snapshot_paths[-1])
    return out


#: Metrics of a commit that stay its own: those that mean something else with the table, and what batches are found by.
_OF_COMMIT = {f"lakeidx/{name}" for name in ("already_committed", "batch_id", "seconds")}


def unsaid(metadata: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the metrics of a commit say beyond those of the table's own materialization, beside which they are stored."""
    return {name: value for name, value in metadata.items() if name in _OF_COMMIT or name not in table}


def run_metadata(reports: BatchResult | None) -> dict[str, Any]:
    """Return what a run did to the table: figures that Dagster plots over time, and a table of them to read at one glance.

    reports   those of its batch; None when an earlier run had committed it
    """
    if reports is None:
        said = dg.MetadataValue.md("The batch was in the table already: nothing was done.")
        return {"lakeidx/run": said, "lakeidx/already_committed": True}
    ingest, assign, write, commit = reports.ingest, reports.assign, reports.write, reports.commit
    figures: dict[str, int | float] = {
        "lakeidx/rows_in": ingest.rows_in,
        **_changes(assign),
        "lakeidx/rows_rejected": ingest.rows_rejected,
        "lakeidx/files_written": write.data_files,
        "lakeidx/buckets_touched": len(assign.targets),
        "lakeidx/bytes_written": write.data_bytes + write.index_bytes,
        "lakeidx/seconds": round(ingest.seconds + assign.seconds + write.seconds + commit.seconds, 6),
    }
    snapshots = ", ".join(map(str, commit.snapshot_ids)) or "none: nothing changed"
    cells = {
        **{name.partition("/")[2].replace("_", " "): f"{n:,}" for name, n in figures.items()},
        "snapshot": snapshots,
    }
    lines = [" | ".join(cells), " | ".join("---:" for _ in cells), " | ".join(cells.values())]
    return {"lakeidx/run": dg.MetadataValue.md("\n".join(f"| {line} |" for line in lines)), **figures}


def _attempt(number: int) -> dict[str, int]:
    """Return which attempt at a batch it was, where the first had to be planned again."""
    return {"lakeidx/attempt": number} if number > 1 else {}


def _changes(assign: BucketAssignmentReport) -> dict[str, int]:
    """Return rows by what they did; where nobody looks which keys there are (fixed buckets), new and changed ones as upserts."""
    counted = assign.index_type != COMPUTED_BUCKETS or assign.inserts
    names = ("inserts", "updates", "deletes") if counted else ("upserts", "deletes")
    return {f"lakeidx/{name}": getattr(assign, name) for name in names}


def state_metadata(metadata: TableMetadata, view: SnapshotView) -> dict[str, Any]:
    """Return the metrics of a state of the table, from its snapshot and index alone."""
    snapshot = view.snapshot
    if snapshot is None:
        return {}
    path = metadata.paths.snapshot_path(snapshot.id)
    count = _row_count(view, snapshot)
    return {
        **({} if count is None else {"dagster/row_count": count}),
        "lakeidx/snapshot_id": snapshot.id,
        "lakeidx/snapshot": link(path),
        "lakeidx/schema_id": snapshot.schema_id,
        "lakeidx/commit_kind": snapshot.commit_kind.value,
        # Versions of rows: a key that was updated counts once more until a compaction.
        "lakeidx/record_versions": snapshot.total_record_count,
        "lakeidx/committed_at": dg.MetadataValue.timestamp(snapshot.time_millis / 1000),
    }


def _row_count(view: SnapshotView, snapshot: Snapshot) -> int | None:
    """Count the rows of a state without reading them: those of an append table, the hashes of the hash index else; None when the
    table has another index, or deletion vectors only.
    """
    if not view.schema.primary_keys:
        return None if view.index else snapshot.total_record_count
    if view.schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        return None
    hashes = [e.row_count for e in view.index if e.index_type == HASH_INDEX]
    return sum(hashes) if hashes else None


def column_lineage(names: Sequence[str], source: dg.AssetKey) -> dg.TableColumnLineage:
    """Return the lineage of columns that are each derived from the column of its name in another asset."""
    return dg.TableColumnLineage({n: [dg.TableColumnDep(asset_key=source, column_name=n)] for n in names})


def link(path: str) -> Any:
    """Return a path or URI as Dagster shows it."""
    return dg.MetadataValue.url(path) if "://" in path else dg.MetadataValue.path(path)


def records_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Convert rows of plain values to a table; columns are all names that occur, in order of appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {n: [_cell(row.get(n)) for row in rows] for n in names}
    types = {n: _column_type(values) for n, values in columns.items()}
    for name, kind in types.items():
        if kind == "string":
            columns[name] = [str(v) for v in columns[name]]
    records = [dg.TableRecord({n: columns[n][i] for n in names}) for i in range(len(rows))]
    return dg.MetadataValue.table(records, dg.TableSchema([dg.TableColumn(n, types[n]) for n in names]))


def _cell(value: Any) -> str | int | float | bool:
    if value is None:
        return ""
    if isinstance(value, (bool, int, float)):
        return value
    return str(value)[:_TEXT]


def _column_type(values: Sequence[Any]) -> str:
    """Return the type of all values; Dagster itself would look at the first one only."""
    for name, kind in (("bool", bool), ("int", int), ("float", (int, float))):
        if values and all(isinstance(v, kind) and (kind is bool or not isinstance(v, bool)) for v in values):
            return name
    return "string"
