"""The rules over a table of a pipeline: all of it, or the buckets that a run has touched."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from lakeidx.batch.artifacts import staging_root
from lakeidx.file_index.options import indexed_columns
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality.load import load_evidence
from lakeidx.quality.result import BucketId, RuleResult
from lakeidx.quality.verify import Limits, has_changelog, rule_names, verify
from lakeidx.quality.whole_table import Checkpoint, Verified, of_evidence, verify_table
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import Progress, Runner

#: Where an interrupted verification leaves what it has found, beside the table's staged batches.
_VERIFICATION_DIR = "_verification"
#: After a run, keys of key ranges of so many rows are looked up; a verification takes all of them.
_LOOKUP_ROWS = 1_000_000


def table_rules(config: PipelineConfig) -> tuple[str, ...]:
    """Return the names of the rules over a table of this pipeline."""
    schema = config.first_schema
    names = rule_names(schema)
    if indexed_columns(schema.options):
        names += ("file_indexes_answer",)
    if has_changelog(schema):
        names += ("changelog_agrees",)
    if config.lookup_store:
        names += ("lookup_store_agrees",)
    return names


def limits_of(config: PipelineConfig) -> Limits:
    """Return the pipeline's limits as the rules take them."""
    return Limits(max_skew=config.checks.skew_ratio, max_stale_share=config.checks.stale_share)


def table_results(
    config: PipelineConfig,
    table: TableHandle,
    *,
    buckets: Collection[BucketId] | None = None,
    written: Collection[str] | None = None,
    commits: tuple[int, int] | None = None,
    seed: str = "",
    runner: Runner | None = None,
) -> Verified:
    """Read the buckets that a run has touched, and judge them by the rules of `table_rules`.

    buckets   of the run; None when they are not known: all
    seed      which of them are drawn for a look at their keys, where they have many (`checks.bucket_rows`)
    commits   the snapshots before and after it, for the changelog between; None = all that there are
    written   names of the data files it has written: they are decoded and their file indexes asked; None = all in scope
    runner    where data files are read; None = threads of this process
    """
    key_rows = None if buckets is None else config.checks.bucket_rows
    evidence = load_evidence(
        table.metadata, buckets=buckets, decode=written, key_rows=key_rows, seed=seed, runner=runner
    )
    results = verify(evidence, limits_of(config))
    wanted = table_rules(config)
    if "file_indexes_answer" in wanted:
        from lakeidx.quality.file_index_answers import check_file_indexes

        scope = set(evidence.scope)
        entries = [
            e
            for e in evidence.view.entries
            if (e.partition, e.bucket) in scope and (written is None or e.file.file_name in written)
        ]
        rows, name = config.checks.sample_rows, evidence.partition_name
        results.append(check_file_indexes(table.metadata, entries, sample_rows=rows, partition_name=name))
    results += _across_buckets(config, table, buckets, commits)
    return of_evidence(evidence, results)


def _across_buckets(
    config: PipelineConfig,
    table: TableHandle,
    buckets: Collection[BucketId] | None = None,
    commits: tuple[int, int] | None = None,
) -> Iterator[RuleResult]:
    """Yield the results of rules that compare what two ways of reading say."""
    wanted, rows = table_rules(config), config.checks.sample_rows
    if "changelog_agrees" in wanted:
        from lakeidx.quality.changelog_agrees import check_changelog_agrees

        after, upto = commits or (None, None)
        yield check_changelog_agrees(table, after=after, upto=upto, buckets=buckets)
    if "lookup_store_agrees" in wanted:
        from lakeidx.quality.lookup_agrees import check_lookup_agrees

        most = None if buckets is None else _LOOKUP_ROWS
        yield check_lookup_agrees(table, sample_rows=rows, buckets=buckets, max_rows=most)


def verify_whole(
    config: PipelineConfig, table: TableHandle, *, runner: Runner | None = None, progress: Progress | None = None
) -> Verified:
    """Judge the whole table by the rules of `table_rules`, some partitions at a time; an interrupted run is resumed.

    runner     where data files are read; None = threads of this process
    progress   called with (groups of partitions done, groups) after each
    errors     CorruptFileError when the newest snapshot or its manifests cannot be read, UnavailableError
    memory     8 bytes for each key of a group, and the view of the table's files
    """
    found = verify_table(
        table.metadata,
        limits_of(config),
        sample_rows=config.checks.sample_rows,
        runner=runner,
        checkpoint=Checkpoint(table.store, f"{staging_root(table.paths)}/{_VERIFICATION_DIR}"),
        progress=progress,
        file_indexes="file_indexes_answer" in table_rules(config),
    )
    return replace(found, results=(*found.results, *_across_buckets(config, table)))
