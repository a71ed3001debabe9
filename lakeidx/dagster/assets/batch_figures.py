"""Figures of the last batches as rows, for expectations `on: batches`: read from Dagster's own record of their commits."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa

from lakeidx.dagster.names import TABLE, asset_key
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.sections import BATCH_FIGURES

#: Batches that are looked at, and records that are read for them: a range of partitions leaves one record for each.
_MOST_BATCHES, _MOST_RECORDS = 30, 300


def batch_figures(config: PipelineConfig, instance: dg.DagsterInstance) -> pa.Table:
    """Return a row for each of the last batches, the oldest first, with the columns of `BATCH_FIGURES`.

    A figure that was not recorded is null. Batches that changed nothing, since they were committed before, have no row.
    """
    commits = _records(instance, asset_key(config, "commit"))
    states = _records(instance, asset_key(config, TABLE))
    done = [b for b, m in commits.items() if not m.get("lakeidx/already_committed")][:_MOST_BATCHES]
    target = new_schema(config.spec()).table_options.dynamic_bucket_target_row_num
    rows = []
    for ago, batch in enumerate(done):
        row = {name: commits[batch].get(f"lakeidx/{name}") for name in BATCH_FIGURES}
        state = states.get(batch, {})
        row["batches_ago"] = ago
        row["rejected_share"] = _share(row["rows_rejected"], row["rows_in"])
        row["table_rows"], row["table_buckets"] = state.get("dagster/row_count"), state.get("lakeidx/buckets")
        row["bucket_fill"] = _share(row["table_rows"], (row["table_buckets"] or 0) * target)
        rows.append(row)
    return pa.table({name: [row[name] for row in reversed(rows)] for name in BATCH_FIGURES})


def _records(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, dict[str, Any]]:
    """Return the metadata of an asset's materializations by batch, the newest first."""
    found: dict[str, dict[str, Any]] = {}
    for record in instance.fetch_materializations(key, limit=_MOST_RECORDS).records:
        materialization = record.asset_materialization
        if materialization is not None:
            values = {name: value.value for name, value in materialization.metadata.items()}
            batch = str(values.get("lakeidx/batch_id"))
            # A batch whose run came again keeps what its first run did.
            if batch not in found or found[batch].get("lakeidx/already_committed"):
                found[batch] = values
    return found


def _share(part: Any, whole: Any) -> float | None:
    return None if part is None or not whole else float(part) / float(whole)
