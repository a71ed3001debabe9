"""Asset checks: rules of `lakeidx.quality` over what a run touched.

==================  ===========================  =====================================================================
on                  checks                       looks at
==================  ===========================  =====================================================================
ingest              rows_rejected                the rows of the batch that were rejected
bucket_assignment   batch_rows_accounted         the batch's own counts, before anything is written
the table           all that guard rows,         the buckets the batch has rows for, the hash indexes of their partitions, the
                    some `_TOGETHER`              file indexes the batch has written, keys of some of these buckets looked up
compaction          rules over the table         the buckets it has rewritten, in the same way
lookup_store        lookup_store_agrees          keys of the whole table
verification        all, and orphans             the whole table
==================  ===========================  =====================================================================

A failed check of severity ERROR blocks what follows; WARN is for what costs space or speed, not answers.

Each is judged by the step of the asset it is on, after its work. They have no partitions: a verdict is about the asset as the last
run has left it, also a run over a range of partitions. One that a run does not reach stays as it was (`last_verdicts`).
"""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakeidx.batch.artifacts import IngestReport
from lakeidx.dagster.assets.kept_checks import kept_checks
from lakeidx.dagster.expectations.figures import figures_of
from lakeidx.dagster.last_verdicts import CHECKS_STEP, last_verdicts, leave_verdicts, repeat_overtaken
from lakeidx.dagster.metadata.reports import records_table, rejected_metadata
from lakeidx.dagster.names import asset_key, table_id
from lakeidx.dagster.resources import SparkResource, StoreResource, TableResource
from lakeidx.errors import RejectedRowsError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality.result import RuleResult
from lakeidx.storage import ObjectStore

#: What a step says: its assets, or why they stay as they are, then the verdicts of their checks.
StepEvents = Iterator[dg.MaterializeResult[Any] | dg.AssetObservation | dg.AssetCheckEvaluation]
#: What a stage says; it returns whether a check that blocks has failed, after which nothing follows.
StageEvents = Generator[dg.MaterializeResult[Any] | dg.AssetObservation | dg.AssetCheckEvaluation, None, bool]
REJECTED = "rows_rejected"
#: Checks after a batch that each judge several rules about the same things: Dagster stores 2 kB for each check of each run.
_TOGETHER = {
    "files_whole": ("files_readable", "referenced_files_exist", "snapshot_chain"),
    "keys_in_place": ("primary_key_once", "index_files_agree", "hash_in_one_bucket", "live_keys_indexed"),
}
_CHECK_OF = {rule: check for check, rules in _TOGETHER.items() for rule in rules}
#: Reasons that the text of a check names; its metadata has more.
_REASONS = 3
_DESCRIPTIONS = {
    "files_whole": "Every file that the snapshot refers to exists with its size, those the batch wrote could be decoded, and the "
    "chain of snapshots adds up.",
    "keys_in_place": "No key occurs twice, each is in one bucket, and the hash indexes of the buckets say so.",
    "files_readable": "Every page of every data file, and every snapshot examined, could be decoded.",
    "referenced_files_exist": "Every file the snapshot refers to exists with its size.",
    "snapshot_chain": "Snapshot ids are contiguous, and totals add up from one to the next.",
    "options_followed": "Every option that enables maintenance is acted on, and every option name is known.",
    "iceberg_metadata": "Iceberg metadata is of the newest snapshot, and lists files that it has.",
    "deletes_counted": "Manifests count the deletes in each data file.",
    "primary_key_once": "No primary key is in two buckets of its partition, none occurs twice after a merge.",
    "index_files_agree": "Hash index files have 4 bytes per hash, the manifest's count, their checksum, and no duplicate hash.",
    "hash_in_one_bucket": "Every hash of the index is in exactly one bucket of its partition.",
    "live_keys_indexed": "The hash of every live key is in the index of the key's own bucket.",
    "stale_hashes": "Few hashes of the index belong to keys that were deleted.",
    "bucket_rows_within_target": "No bucket holds more keys than dynamic-bucket.target-row-num.",
    "bucket_skew": "No bucket holds far more keys than the mean of its partition.",
    REJECTED: "No row of the batch was rejected. One with more than max_rejected allows is refused.",
    "batch_rows_accounted": "Ingested rows = inserted + updated + upserted (fixed buckets) + deleted + rejected.",
    "staged_rows_committed": "Staged rows = committed rows + rows replaced by later rows of the batch.",
    "orphans_below_limit": "Files that nothing refers to stay below the limit.",
    "file_indexes_answer": "File indexes have no false negatives.",
    "changelog_agrees": "The changelog, applied to the rows before the batch, gives the rows after it.",
    "lookup_store_agrees": "The lookup store and a scan return the same rows.",
}
#: Space, speed or balance suffers; answers stay right.
WARNINGS = frozenset({REJECTED, "stale_hashes", "bucket_skew", "orphans_below_limit", "options_followed"})
#: Checks whose failure does not make query results wrong; they never block downstream assets.
NOT_BLOCKING = WARNINGS | {"bucket_rows_within_target", "deletes_counted", "iceberg_metadata"}


def build_specs(config: PipelineConfig, asset: str, names: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """Build the specs of checks on one of a table's assets."""
    return [
        dg.AssetCheckSpec(
            name,
            asset=asset_key(config, asset),
            description=_DESCRIPTIONS[name],
            blocking=config.checks.blocking and name not in NOT_BLOCKING,
            metadata={"lakeidx/severity": "WARN" if name in WARNINGS else "ERROR"},
        )
        for name in names
    ]


def check_results(config: PipelineConfig, asset: str, results: Sequence[RuleResult]) -> Iterator[dg.AssetCheckResult]:
    """Convert rule results to Dagster's check results."""
    for result in results:
        figures = figures_of(result, config.checks)
        passed = all(f.holds for f in figures)
        # Every batch stores them: of a rule that passed only how much it has looked at.
        metadata: dict[str, Any] = {
            f"lakeidx/{name}": value for name, value in result.metrics.items() if value or not passed
        }
        # Of a rule that passed why it could not be judged; what holds is in its spec, and an event has it thrice.
        text = result.description if result.metrics.get("not_judged") else None
        if not passed:
            text = failure_text(result, [f.broken for f in figures if not f.holds])
            metadata["lakeidx/expectations"] = records_table([f.row for f in figures])
            if result.sample:
                metadata["lakeidx/sample"] = records_table(result.sample)
        yield dg.AssetCheckResult(
            passed=passed,
            asset_key=asset_key(config, asset),
            check_name=result.name,
            severity=dg.AssetCheckSeverity.WARN if result.name in WARNINGS else dg.AssetCheckSeverity.ERROR,
            description=text,
            metadata=metadata,
        )


def together(names: Iterable[str]) -> list[str]:
    """Return the checks after a batch that judge some rules."""
    return list(dict.fromkeys(_CHECK_OF.get(name, name) for name in names))


def joined_results(results: Iterable[dg.AssetCheckResult]) -> Iterator[dg.AssetCheckResult]:
    """Join the results of rules that are judged `_TOGETHER`; what a rule that failed has found is named after it."""
    found: dict[str, list[dg.AssetCheckResult]] = {}
    for result in results:
        found.setdefault(_CHECK_OF.get(str(result.check_name), str(result.check_name)), []).append(result)
    for name, parts in found.items():
        metadata: dict[str, Any] = {}
        for part in parts:
            named = str(part.check_name) + "_" if len(parts) > 1 and not part.passed else ""
            metadata |= {f"lakeidx/{named}{key.partition('/')[2]}": value for key, value in part.metadata.items()}
        # What failed; else why something could not be judged.
        said = [p for p in parts if not p.passed] or [p for p in parts if p.description]
        texts = [f"{p.check_name}: {p.description}" if len(parts) > 1 else p.description for p in said]
        yield dg.AssetCheckResult(
            passed=all(p.passed for p in parts),
            asset_key=parts[0].asset_key,
            check_name=name,
            severity=parts[0].severity,
            description=" ".join(map(str, texts)) or None,
            metadata=metadata,
        )


def failure_text(result: RuleResult, failed: Sequence[str]) -> str:
    """Show what a failed check found: the metrics that are not as they should be, and the first offender.

    failed   metrics as ``name = value (limit)``
    """
    text = f"FAILED: {', '.join(failed)}" if failed else "FAILED"
    if result.sample:
        shown = ", ".join(f"{name} {value}" for name, value in result.sample[0].items() if value is not None)
        text += f"; first: {shown}"
    return f"{text}. Expected: {_DESCRIPTIONS[result.name]}"


def rejected_result(
    config: PipelineConfig, found: IngestReport | RejectedRowsError, store: ObjectStore
) -> dg.AssetCheckResult:
    """Judge how many rows of a batch were rejected: none, some, or so many that the batch was refused."""
    refused = isinstance(found, RejectedRowsError)
    rows, rows_in = found.rows_rejected, found.rows_in
    text = None
    if rows:
        shown = ", ".join(f"{reason} ({n:,})" for reason, n in list(found.reject_reasons.items())[:_REASONS])
        text = f"{rows:,} of {rows_in:,} rows rejected: {shown}"
        text += f". The batch was refused: {found}" if refused else ". The others are staged."
    return dg.AssetCheckResult(
        passed=not rows,
        asset_key=asset_key(config, "ingest"),
        check_name=REJECTED,
        severity=dg.AssetCheckSeverity.ERROR if refused else dg.AssetCheckSeverity.WARN,
        description=text,
        metadata={
            "lakeidx/rows_in": rows_in,
            "lakeidx/rows_rejected": rows,
            "lakeidx/max_rejected": "0 (strict)" if config.strict else str(config.max_rejected or "any but all"),
            **rejected_metadata(found, store),
        },
    )


def reported_checks(config: PipelineConfig, specs: Sequence[dg.AssetCheckSpec]) -> dg.AssetChecksDefinition:
    """Define the checks of a table's assets, whose steps report them with `report_checks`.

    The step of this definition reports what those have left: their last verdicts. What follows an asset does not wait for it: a
    failed check that blocks fails the asset's own step.
    """
    planned = [
        dg.AssetCheckSpec(
            s.name, asset=s.asset_key, description=s.description, metadata={**s.metadata, "lakeidx/blocks": s.blocking}
        )
        for s in specs
    ]

    @dg.multi_asset_check(name=f"{table_id(config)}__{CHECKS_STEP}", specs=planned, can_subset=True)
    def reported(context: dg.AssetCheckExecutionContext) -> Iterator[Any]:
        yield from last_verdicts(context.instance, context.run.run_id, context.selected_asset_check_keys)

    return kept_checks(reported)


@dataclass(frozen=True, slots=True)
class Step:
    """A step at work on a table."""

    pipeline: PipelineConfig
    context: dg.AssetExecutionContext
    store: StoreResource
    spark: SparkResource
    tables: TableResource


def materialized(
    context: dg.AssetExecutionContext,
    metadata: Mapping[str, Any],
    key: dg.AssetKey | None = None,
    version: dg.DataVersion | None = None,
) -> dg.MaterializeResult[Any]:
    """Return what a step has made, with its metadata on the asset alone: Dagster stores that of a result with the output, too.

    key   None = the step's only asset
    """
    context.add_asset_metadata(metadata, key)
    return dg.MaterializeResult(asset_key=key, data_version=version)


def report_checks(
    context: dg.AssetExecutionContext,
    specs: Sequence[dg.AssetCheckSpec],
    results: Iterable[dg.AssetCheckResult],
    *,
    released: bool = False,
) -> Generator[dg.AssetCheckEvaluation, None, bool]:
    """Yield what a step has to yield after its asset, for one asset's checks: a failed one of severity ERROR that blocks fails it.

    specs     those that the results are of
    released  none blocks: somebody has released the batch, whatever they find
    returns   whether one has failed that blocks
    """
    key, stopped = specs[0].asset_key, False
    blocking: Mapping[str, bool] = {s.name: s.blocking and not released for s in specs}
    reported: list[dg.AssetCheckEvaluation] = []
    try:
        for result in _with_unjudged(specs, results):
            stops = blocking[str(result.check_name)]
            stopped |= stops and not result.passed and result.severity is dg.AssetCheckSeverity.ERROR
            verdict = dg.AssetCheckEvaluation(
                asset_key=key,
                check_name=str(result.check_name),
                passed=result.passed,
                metadata=result.metadata,
                target_materialization_data=_newest(context.instance, key),
                severity=result.severity,
                description=result.description,
                blocking=stops,
            )
            yield verdict
            reported.append(verdict)
    finally:
        repeat_overtaken(context.instance, context.run.run_id, reported)
    if stopped:
        leave_verdicts(context.instance, context.run)
    return stopped


def _with_unjudged(
    specs: Sequence[dg.AssetCheckSpec], results: Iterable[dg.AssetCheckResult]
) -> Iterator[dg.AssetCheckResult]:
    """Yield results; where an error ends them, the other checks of an asset that was made as failed, before it."""
    judged = set[str | None]()
    try:
        for result in results:
            judged.add(result.check_name)
            yield result
    except Exception as error:
        for spec in specs:
            if spec.name not in judged:
                yield dg.AssetCheckResult(
                    passed=False, check_name=spec.name, description=f"FAILED: it could not be judged: {error}"
                )
        raise


def _newest(instance: dg.DagsterInstance, key: dg.AssetKey) -> Any:
    """Return the newest materialization of an asset as its checks refer to it; None before the first."""
    found = instance.fetch_materializations(key, limit=1).records
    if not found:
        return None
    # Its class has no public name; what is stored has.
    kind, record = "AssetCheckEvaluationTargetMaterializationData", found[0]
    stored = {"storage_id": record.storage_id, "run_id": record.run_id, "timestamp": record.timestamp}
    return dg.deserialize_value(json.dumps({"__class__": kind, **stored}))
