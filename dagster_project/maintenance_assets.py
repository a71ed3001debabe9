"""The assets around a table that are not about one batch: snapshot_expiry and verification."""

import time
from collections.abc import Callable
from typing import Any

import dagster as dg

from dagster_project.check_assets import build_specs, check_results, limits_of, table_rules
from dagster_project.failures import failures_explained, retry_policy
from dagster_project.names import SNAPSHOT_EXPIRY, VERIFICATION, asset_key, key_prefix, pool_name
from dagster_project.report_metadata import SAMPLE_ROWS, records_table
from dagster_project.resources import TableResource
from lakeidx.pipeline.config import PipelineConfig
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.expire import ExpireReport, expire_table


class ExpiryConfig(dg.Config):
    """What a run may ask of an expiry."""

    dry_run: bool = False


def common(pipeline: PipelineConfig) -> dict[str, Any]:
    """What all of a table's maintenance assets share."""
    return {
        "key_prefix": key_prefix(pipeline),
        "group_name": key_prefix(pipeline)[1],
        "owners": list(pipeline.owners) or None,
        "tags": pipeline.tags,
        "pool": pool_name(pipeline),
        "retry_policy": retry_policy(pipeline),
        "deps": [asset_key(pipeline, "commit")],
    }


def build_expiry_asset(pipeline: PipelineConfig, *, clock: Callable[[], float] = time.time) -> dg.AssetsDefinition:
    """Expiry of snapshots, tags and consumers by the table's own options (snapshot.num-retained.*, snapshot.time-retained)."""

    @dg.asset(
        name=SNAPSHOT_EXPIRY,
        kinds={"paimon"},
        description="Snapshots past their time, and the files only they needed, are deleted.",
        **common(pipeline),
    )
    def snapshot_expiry(
        context: dg.AssetExecutionContext, config: ExpiryConfig, tables: TableResource
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        with failures_explained():
            table = tables.open(pipeline)
            now_ms = int(clock() * 1000)
            report = expire_table(table.metadata, table.schema, now_ms=now_ms, dry_run=config.dry_run)
            return dg.MaterializeResult(metadata=expiry_metadata(report))

    return snapshot_expiry


def expiry_metadata(report: ExpireReport) -> dict[str, Any]:
    """Figures of an expiry, and the first files that went."""
    out: dict[str, Any] = {
        "lakeidx/dry_run": report.dry_run,
        "lakeidx/snapshots_expired": len(report.snapshots),
        "lakeidx/tags_expired": len(report.tags),
        "lakeidx/consumers_expired": len(report.consumers),
        "lakeidx/files_deleted": len(report.files),
        "lakeidx/bytes_deleted": report.bytes,
    }
    if report.earliest is not None:
        out["lakeidx/earliest_snapshot_id"] = report.earliest
    if report.files:
        shown = [{"role": f.role.value, "path": f.path, "bytes": f.size} for f in report.files[:SAMPLE_ROWS]]
        out["lakeidx/files"] = records_table(shown)
    if report.notes:
        out["lakeidx/notes"] = dg.MetadataValue.md("\n".join(f"- {n}" for n in report.notes))
    return out


def build_verification_asset(pipeline: PipelineConfig) -> dg.AssetsDefinition:
    """All rules over the whole table, and pictures of it."""
    names = list(table_rules(pipeline))

    @dg.asset(
        name=VERIFICATION,
        kinds={"python"},
        description="Every hash, key and file of the newest snapshot is read and checked, whatever the runs have checked before.",
        check_specs=build_specs(pipeline, VERIFICATION, names, partitioned=False),
        **common(pipeline),
    )
    def verification(context: dg.AssetExecutionContext, tables: TableResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        from dagster_project.table_plots import hash_plot, history_plot, view_plots

        with failures_explained():
            started = time.monotonic()
            table = tables.open(pipeline)
            evidence = load_evidence(table.metadata)
            results = list(check_results(pipeline, VERIFICATION, verify(evidence, limits_of(pipeline))))
            seconds = time.monotonic() - started
            return dg.MaterializeResult(
                check_results=results,
                metadata={
                    "dagster/row_count": sum(len(h) for h in evidence.live.values()),
                    "lakeidx/snapshot_id": evidence.snapshot.id if evidence.snapshot else -1,
                    "lakeidx/buckets": len(evidence.scope),
                    "lakeidx/data_files": len(evidence.view.entries),
                    "lakeidx/index_hashes": sum(len(h) for h in evidence.index.values()),
                    "lakeidx/seconds": round(seconds, 3),
                    **view_plots(evidence.view),
                    **hash_plot(evidence),
                    **history_plot(table.metadata, evidence.snapshot),
                },
            )

    return verification
