"""Asset checks of the expectations in a pipeline file: of landed rows after ingest, of the last batches' figures after a commit, of
the table's rows in a verification.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.batch.artifacts import IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.parts import read_part
from lakeidx.batch.schema_drift import staged_schema
from lakeidx.dagster.expectations.set_aside import reason_of
from lakeidx.dagster.metadata.reports import link, records_table
from lakeidx.dagster.names import TABLE, asset_key
from lakeidx.dagster.resources import StoreResource
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.format.snapshot import Snapshot
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.sections import BATCH_FIGURES, ExpectationConfig
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.table_scan import scan_table

Where = Literal["landed", "table", "batches"]
#: Row kinds of rows that stay: +I and +U.
_STAYING = (0, 2)
#: Metadata of figures that would mean something else with the table.
_STORED_AS = {
    "buckets": "buckets_touched",
    "data_bytes": "data_bytes_written",
    "index_bytes": "index_bytes_written",
}
#: Batches that are looked at, and records that are read for them: a range of partitions leaves one record for each.
_MOST_BATCHES, _MOST_RECORDS = 30, 300


def _expectations_on(config: PipelineConfig, where: Where) -> list[ExpectationConfig]:
    """Return the expectations of landed rows, of the table's, or of the figures of the last batches."""
    return [e for e in config.expectations if e.on == where]


def expectation_specs(config: PipelineConfig, asset: str, where: Where) -> list[dg.AssetCheckSpec]:
    """Build the specs of the checks on an asset."""
    return [
        dg.AssetCheckSpec(
            e.check_name,
            asset=asset_key(config, asset),
            description=f"{e.type} {', '.join(f'{k} = {v}' for k, v in e.args.items())}",
            blocking=e.blocks,
            metadata={"lakeidx/severity": e.severity.upper()},
        )
        for e in _expectations_on(config, where)
    ]


def landed_expectation_results(
    config: PipelineConfig, batch: BatchContext, store: StoreResource
) -> Iterator[dg.AssetCheckResult]:
    """Judge a batch's rows, which are staged and not yet in the table."""
    expected = _expectations_on(config, "landed")
    if not expected:
        return
    report = batch.files.require(IngestReport)
    for e in expected:
        if e.set_aside:
            aside = report.reject_reasons.get(reason_of(e), 0)
            metadata = {"lakeidx/rows": report.rows_staged, "lakeidx/set_aside": aside}
            key = asset_key(config, "ingest")
            yield dg.AssetCheckResult(passed=True, asset_key=key, check_name=e.check_name, metadata=metadata)
    judged = [e for e in expected if not e.set_aside]
    if judged:
        pieces = _staged(batch, report, _columns(config, judged))
        yield from _expectation_results(config, "ingest", judged, pieces, store, f"landed-{report.batch_id}")


def table_expectation_results(
    config: PipelineConfig, asset: str, table: TableHandle, store: StoreResource
) -> Iterator[dg.AssetCheckResult]:
    """Judge all rows of the table."""
    expected = _expectations_on(config, "table")

    def judged(_: Snapshot | None) -> list[dg.AssetCheckResult]:
        scan = scan_table(table, columns=_columns(config, expected))
        # An empty table is judged, too: by how many rows it should have.
        pieces = chain([scan.arrow_schema.empty_table()], scan.batches())
        snapshot = scan.plan.snapshot
        name = "table" if snapshot is None else f"table-snapshot-{snapshot.id}"
        return list(_expectation_results(config, asset, expected, pieces, store, name))

    if expected:
        yield from on_newest(table.metadata, judged)


def batches_expectation_results(
    config: PipelineConfig,
    instance: dg.DagsterInstance,
    store: StoreResource,
    batch_id: str,
    newest: Mapping[str, Any] | None = None,
) -> Iterator[dg.AssetCheckResult]:
    """Judge the figures of the last batches; `newest`: of one that is not published yet."""
    expected = _expectations_on(config, "batches")
    if expected:
        figures = iter([_batch_figures(config, instance, newest)])
        yield from _expectation_results(config, TABLE, expected, figures, store, f"batches-{batch_id}")


def _expectation_results(
    config: PipelineConfig,
    asset: str,
    expected: Sequence[ExpectationConfig],
    pieces: Iterator[pa.Table],
    store: StoreResource,
    page: str,
) -> Iterator[dg.AssetCheckResult]:
    """Judge rows; each expectation is a check result.

    page   name of the library's page of them, in the folder of the pipeline file that links to it
    """
    from lakeidx.dagster.expectations.of_rows import judge_rows, whole_result

    outcomes = judge_rows(expected, pieces)
    docs: dict[str, Any] = {}
    if config.data_docs is not None:
        from lakeidx.dagster.expectations.data_docs import data_docs_page

        path = f"{config.data_docs.rstrip('/')}/{config.table}/{page}.html"
        found = [r for o in outcomes if (r := whole_result(o)) is not None]
        store.open(path).put(path, data_docs_page(f"{config.table} {page}", found).encode())
        docs = {"lakeidx/data_docs": link(path)}
    for outcome in outcomes:
        wish = outcome.expected
        metadata: dict[str, Any] = {"lakeidx/rows": outcome.rows, "lakeidx/all_rows": outcome.complete, **docs}
        if outcome.unexpected is not None:
            metadata["lakeidx/unexpected"] = outcome.unexpected
        if outcome.observed is not None:
            metadata["lakeidx/observed"] = str(outcome.observed)
        if outcome.sample:
            metadata["lakeidx/sample"] = records_table([{"unexpected": v} for v in outcome.sample])
        seen = f"{outcome.unexpected} of {outcome.judged}" if outcome.unexpected is not None else f"{outcome.observed}"
        yield dg.AssetCheckResult(
            passed=outcome.passed,
            asset_key=asset_key(config, asset),
            check_name=wish.check_name,
            severity=dg.AssetCheckSeverity.ERROR if wish.severity == "error" else dg.AssetCheckSeverity.WARN,
            description=None if outcome.passed else f"FAILED: {wish.type} {wish.args}: {seen}",
            metadata=metadata,
        )


def _columns(config: PipelineConfig, expected: Sequence[ExpectationConfig]) -> list[str]:
    """Return the columns that are named; all, when an expectation names none."""
    wanted = {c for e in expected for c in e.reads}
    return [c.name for c in config.fields if c.name in wanted or not all(e.reads for e in expected)]


def _staged(batch: BatchContext, report: IngestReport, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the staged rows of a batch but deletes, part by part."""
    schema = staged_schema(batch.metadata, batch.files)
    for part in report.parts:
        rows = read_part(batch.files.store, report.source_of(part), part, schema, columns)
        if VALUE_KIND in rows.column_names:
            rows = rows.filter(pc.is_in(rows.column(VALUE_KIND), pa.array(_STAYING, pa.int8()))).drop_columns(
                VALUE_KIND
            )
        yield rows


def _batch_figures(config: PipelineConfig, instance: dg.DagsterInstance, newest: Mapping[str, Any] | None) -> pa.Table:
    """Return a row for each of the last batches, the oldest first, with the columns of `BATCH_FIGURES`.

    A figure that was not recorded is null. Batches that changed nothing, since they were committed before, have no row.
    """
    commits = _records(instance, asset_key(config, "commit"))
    states = _records(instance, asset_key(config, TABLE))
    if newest is not None:
        batch = str(newest["lakeidx/batch_id"])
        commits, states = {batch: dict(newest), **commits}, {**states, batch: dict(newest)}
    done = [b for b, m in commits.items() if not m.get("lakeidx/already_committed")][:_MOST_BATCHES]
    target = config.first_schema.table_options.dynamic_bucket_target_row_num
    rows = []
    for ago, batch in enumerate(done):
        state = states.get(batch, {})
        row = {name: _figure(name, commits[batch], state) for name in BATCH_FIGURES}
        row["batches_ago"] = ago
        row["rejected_share"] = _share(row["rows_rejected"], row["rows_in"])
        row["table_rows"], row["table_buckets"] = state.get("dagster/row_count"), state.get("lakeidx/buckets")
        row["bucket_fill"] = _share(row["table_rows"], (row["table_buckets"] or 0) * target)
        rows.append(row)
    return pa.table({name: [row[name] for row in reversed(rows)] for name in BATCH_FIGURES})


def _figure(name: str, commit: Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    """Return a figure of a batch: from what its commit says, or the table where it says so already."""
    stored = f"lakeidx/{_STORED_AS.get(name, name)}"
    # Earlier releases had all with the commit, by the names of the figures.
    return commit.get(stored, table.get(stored, commit.get(f"lakeidx/{name}")))


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
