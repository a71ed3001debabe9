"""The asset `changes`: what each commit changed, as a file, for downstream assets.

Its consumer is registered in the table, so expiry leaves what it has not read. A run takes all commits since: each is a file of its
own, named after the snapshot, and a materialization of its own. A run that dies writes the same file again.
"""

import time
from collections import Counter
from functools import partial
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.dagster.assets.checks import StepEvents
from lakeidx.dagster.assets.maintenance import Upkeep, build_upkeep_asset
from lakeidx.dagster.metadata.reports import column_lineage
from lakeidx.dagster.names import CHANGES, TABLE, asset_key
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.sections import ChangesConfig
from lakeidx.storage import ObjectStore
from lakeidx.table.scan.layout import ROW_KIND
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.follow import ChangeFollower, StreamStep, run_stream
from lakeidx.table.stream.start import Start


def build_changes_asset(pipeline: PipelineConfig, wanted: ChangesConfig) -> dg.AssetsDefinition:
    """Build the asset of a pipeline's consumer: one Parquet file and one materialization per commit with changes."""
    return build_upkeep_asset(
        pipeline,
        CHANGES,
        partial(_follow, wanted),
        kinds={"parquet"},
        description=f"What each commit changed, as Parquet with the kind of each row in {ROW_KIND}: a file per snapshot.",
        output_required=False,
    )


def _follow(wanted: ChangesConfig, step: Upkeep) -> StepEvents:
    metadata, out = step.table.metadata, step.store.open(wanted.path)
    consumer = StreamConsumer(metadata, wanted.consumer)
    for found in run_stream(ChangeFollower(metadata), consumer, Start.parse(metadata, wanted.start)):
        written = _write_step(out, wanted.path, found)
        if written is not None:
            newest = metadata.latest_snapshot_id() or found.snapshot.id
            facts = _step_metadata(asset_key(step.pipeline, TABLE), found, *written, newest=newest, now=time.time())
            # Said before the consumer advances, so that none is lost when the run ends here.
            tags = {"dagster/data_version": found.snapshot.identity}
            key = asset_key(step.pipeline, CHANGES)
            step.context.log_event(dg.AssetMaterialization(key, metadata=facts, tags=tags))
    # All materializations were events: the step has no other result.
    yield from ()


def _write_step(store: ObjectStore, folder: str, step: StreamStep) -> tuple[str, Counter[str]] | None:
    """Write what a commit changed as a Parquet file, whole at once.

    returns   its path, and how many rows of each kind it has; None, and no file, when nothing has changed
    memory    one batch of rows
    """
    batches = step.changes.batches()
    first = next(batches, None)
    if first is None:
        return None
    path = f"{folder.rstrip('/')}/snapshot-{step.snapshot.id:012d}{'-whole' if step.whole else ''}.parquet"
    kinds: Counter[str] = Counter()
    with store.open_output(path) as sink, pq.ParquetWriter(sink, step.changes.arrow_schema) as writer:
        rows: pa.Table | None = first
        while rows is not None:
            writer.write_table(rows)
            kinds.update({c["values"]: c["counts"] for c in rows.column(ROW_KIND).value_counts().to_pylist()})
            rows = next(batches, None)
    return path, kinds


def _step_metadata(
    source: dg.AssetKey, step: StreamStep, path: str, kinds: Counter[str], *, newest: int, now: float
) -> dict[str, Any]:
    """Return the metrics of a commit that was read."""
    columns = step.changes.arrow_schema.names
    names = {"+I": "inserts", "+U": "updates", "-D": "deletes"}
    return {
        "dagster/uri": path,
        "dagster/row_count": kinds.total(),
        "dagster/column_lineage": column_lineage([n for n in columns if n != ROW_KIND], source),
        **{f"lakeidx/{word}": kinds[kind] for kind, word in names.items()},
        "lakeidx/snapshot_id": step.snapshot.id,
        "lakeidx/whole_state": step.whole,
        "lakeidx/committed_at": dg.MetadataValue.timestamp(step.snapshot.time_millis / 1000),
        "lakeidx/lag_seconds": round(now - step.snapshot.time_millis / 1000, 3),
        "lakeidx/snapshots_behind": newest - step.snapshot.id,
    }
