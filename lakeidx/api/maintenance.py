"""Maintenance of a table: compaction, expiry, orphans, tags, rollback, held batches, indexes, lookup stores, advice, verification.

What a verb needs is imported when it is called: no program calls all of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pyarrow as pa

from lakeidx.api.history import History, milliseconds
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.options.descriptors import parse_size
from lakeidx.plugins import TOOLS, load_plugin
from lakeidx.results import Listing, Result
from lakeidx.table.times import iso_utc
from lakeidx.tasks.runner import Progress, Runner, RunnerLike, make_runner
from lakeidx.types import Field

if TYPE_CHECKING:
    from lakeidx.api.dry_run.plan import BatchPlan
    from lakeidx.api.reports import (
        ConsumerResult,
        DiscardResult,
        ExpireResult,
        HeldBatch,
        OrphansResult,
        VerifyResult,
    )
    from lakeidx.api.system_table import SystemTable
    from lakeidx.batch.committed_batch import BatchResult
    from lakeidx.batch.upsert import OnStage
    from lakeidx.key_index.advice.advice import Advice
    from lakeidx.key_index.advice.measures import Needs
    from lakeidx.key_index.advice.model import Machine
    from lakeidx.maintenance.compaction import CompactionReport
    from lakeidx.maintenance.file_index_rebuild import FileIndexRebuildReport
    from lakeidx.maintenance.lookup_store import LookupStoreReport
    from lakeidx.maintenance.partitions.done import DoneResult
    from lakeidx.maintenance.partitions.drop import PartitionsResult
    from lakeidx.maintenance.ring_resize import ResizeReport
    from lakeidx.predicate import Predicate
    from lakeidx.quality.result import RuleResult
    from lakeidx.quality.verify import Limits

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
Report = TypeVar("Report", bound=Result)


class Maintenance(History):
    """The maintenance verbs of a table. All are safe beside writers except `rollback`, and can be repeated after a crash.

    partitions   texts ``k=v,k=v``, one per partition; None = all; NotFoundError for one that the newest snapshot has no data of
    progress     called with (done, total) after every task, where work runs in this process
    """

    def compact(
        self,
        *,
        full: bool = False,
        partitions: Sequence[str] | None = None,
        shrink_index: bool | None = None,
        manifests: bool = False,
        dry_run: bool = False,
        runner: RunnerLike = None,
        progress: Progress | None = None,
    ) -> CompactionReport:
        """Compact the buckets that need it, or with `full` all of them.

        shrink_index   with `full`: drop hashes of deleted keys; None = as option ``lakeidx.hash-index.shrink`` says
        manifests      merge the manifests, too: statistics of files that are not live go
        """
        from lakeidx.maintenance.compaction import compact_manifests, run_compaction
        from lakeidx.maintenance.partition_argument import find_partitions

        chosen = find_partitions(self.table, partitions)
        made = make_runner(None if dry_run else runner, progress=progress)
        metadata = self.table.metadata
        report = run_compaction(metadata, made, full=full, partitions=chosen, shrink=shrink_index, dry_run=dry_run)
        if manifests and not dry_run:
            ids = (*report.snapshot_ids, *compact_manifests(metadata))
            report = report.model_copy(update={"snapshot_ids": ids})
        return self._logged(report)

    def expire(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        retain_time: str | None = None,
        staging: bool = True,
        staging_age: str = "1 h",
        dry_run: bool = False,
    ) -> ExpireResult:
        """Expire snapshots, tags and consumers, and clean the staging of batches.

        retain_min, retain_max, retain_time   in place of the table's options ``snapshot.num-retained.min``, ``.max`` and
                                              ``snapshot.time-retained``, for this call
        staging_age   how long rows of a finished batch, and rejected ones, stay staged: ``"0 s"`` keeps none
        """
        from lakeidx.api.reports import ExpireResult
        from lakeidx.maintenance.snapshot_expiry import run_snapshot_expiry

        retention = {
            "snapshot.num-retained.min": retain_min,
            "snapshot.num-retained.max": retain_max,
            "snapshot.time-retained": retain_time,
        }
        given = {k: str(v) for k, v in retention.items() if v is not None}
        metrics = run_snapshot_expiry(
            self.table, staging=staging, staging_age_ms=milliseconds(staging_age), dry_run=dry_run, retention=given
        )
        return self._logged(ExpireResult.of(metrics, self.table.schema, given))

    def partitions(self) -> Listing:
        """List the partitions: columns, rows (stored versions), bytes, files, buckets, when last written (UTC)."""
        from lakeidx.maintenance.partitions.drop import list_partitions

        return list_partitions(self.table)

    def drop_partitions(
        self, partitions: Sequence[str] | None = None, *, where: str | Predicate | None = None, dry_run: bool = False
    ) -> PartitionsResult:
        """Drop partitions, in one commit: those that are named, or those that a condition over their columns holds for.

        errors   InvalidInputError without exactly one of the two, or for a condition over other columns
        """
        from lakeidx.batch.stages.overwrite import bind_partitions
        from lakeidx.maintenance.partition_argument import find_partitions
        from lakeidx.maintenance.partitions.drop import drop_partitions

        if (partitions is None) == (where is None):
            raise InvalidInputError("give the partitions to drop, or a condition over the partition columns (where)")
        if where is not None:
            return drop_partitions(self.table, bind_partitions(self.table.metadata, where), dry_run=dry_run)
        return drop_partitions(self.table, find_partitions(self.table, partitions) or (), dry_run=dry_run)

    def expire_partitions(self, *, older_than: str | None = None, dry_run: bool = False) -> PartitionsResult:
        """Drop the partitions that are older than option ``partition.expiration-time``, or than `older_than` (``30 d``).

        Their time is read from their values, or is that of their last write, as option ``partition.expiration-strategy`` says.
        """
        from lakeidx.maintenance.partitions.drop import expire_partitions

        age = None if older_than is None else milliseconds(older_than)
        return expire_partitions(self.table, older_than_ms=age, dry_run=dry_run)

    def mark_done(self, partitions: Sequence[str] | None = None, *, dry_run: bool = False) -> DoneResult:
        """Mark partitions done by option ``partition.mark-done-action``; None = those that are idle and were not marked since."""
        from lakeidx.maintenance.partition_argument import find_partitions
        from lakeidx.maintenance.partitions.done import mark_partitions_done

        chosen = None if partitions is None else sorted(find_partitions(self.table, partitions) or ())
        return self._logged(mark_partitions_done(self.table, chosen, dry_run=dry_run))

    def metrics(self) -> str:
        """Return the table's figures, those of its newest batch and of its upkeep, as OpenMetrics (``lakeidx[metrics]``)."""
        from lakeidx.maintenance.metrics.exposition import metrics_text

        return metrics_text(lambda: [self.table])

    def orphans(self, *, older_than: str = "1 d", remove: bool = False) -> OrphansResult:
        """Find files that nothing refers to and that are older than a time; with `remove` delete them."""
        from lakeidx.api.reports import OrphansResult
        from lakeidx.maintenance.staging_cleanup import clean_orphans

        report = clean_orphans(
            self.table.metadata,
            now_ms=int(time.time() * 1000),
            older_than_ms=milliseconds(older_than),
            dry_run=not remove,
        )
        return self._logged(OrphansResult(files=tuple(report.files), bytes=report.bytes, removed=report.removed))

    def system(self, name: str) -> SystemTable:
        """Return one of Paimon's system tables, an Arrow stream: ``files``, ``snapshots``, ``ro`` …; see `SystemTable`.

        errors   InvalidInputError naming the tables there are
        """
        from lakeidx.api.system_table import SystemTable
        from lakeidx.api.table import Table

        return SystemTable(Table(self.table.store, self.table.paths, self.table.metadata), name)

    def consumers(self) -> Listing:
        """Return the consumers: id, oldest snapshot that expiry leaves for it, when it was written last (UTC), if it is a lease."""
        from lakeidx.table.expiration.read import read_consumers
        from lakeidx.table.stream.consumer import LEASE_PREFIX

        return Listing(
            [
                {"consumer": c, "keeps_from": first, "written": iso_utc(written), "lease": c.startswith(LEASE_PREFIX)}
                for c, (first, written) in read_consumers(self.table.metadata).items()
            ]
        )

    def delete_consumer(self, id: str, *, dry_run: bool = False) -> ConsumerResult:
        """Delete a consumer: expiry no longer waits for it, and a stream with its id starts without a position.

        errors   NotFoundError naming the consumers there are
        """
        from lakeidx.api.reports import ConsumerResult
        from lakeidx.table.expiration.read import read_consumers

        known = read_consumers(self.table.metadata)
        if id not in known:
            have = ", ".join(known) or "none"
            raise NotFoundError(
                f"consumer {id!r} does not exist; consumers: {have}", path=self.table.metadata.paths.root
            )
        if not dry_run:
            self.table.store.delete(self.table.metadata.paths.consumer_path(id))
        return self._logged(ConsumerResult(deleted=id, next_snapshot=known[id][0], dry_run=dry_run))

    def rebuild_index(
        self,
        *,
        index_type: str | None = None,
        columns: Sequence[str] = (),
        drop: bool = False,
        partitions: Sequence[str] | None = None,
        dry_run: bool = False,
        runner: RunnerLike = None,
        progress: Progress | None = None,
    ) -> FileIndexRebuildReport:
        """Add, replace or drop file indexes of the data files there are; without a type as the table's options say.

        index_type   ``hash``: make the hash index of a table with dynamic buckets anew from its data files, in one commit
        """
        from lakeidx.maintenance.file_index_rebuild import rebuild_spec, run_file_index_rebuild
        from lakeidx.maintenance.hash_index_rebuild import run_hash_index_rebuild
        from lakeidx.maintenance.partition_argument import find_partitions

        made = make_runner(None if dry_run else runner, progress=progress)
        if index_type == "hash":
            if columns or drop:
                raise InvalidInputError(
                    "the hash index is of the primary key: it takes no columns, and cannot be dropped"
                )
            chosen = find_partitions(self.table, partitions)
            return self._logged(run_hash_index_rebuild(self.table.metadata, made, partitions=chosen, dry_run=dry_run))
        spec = rebuild_spec(self.table.schema, index_type, list(columns), drop=drop)
        chosen = find_partitions(self.table, partitions)
        return self._logged(run_file_index_rebuild(self.table.metadata, made, spec, partitions=chosen, dry_run=dry_run))

    def held_batches(self) -> Listing:
        """Return the batches that stopped before their commit, staged: beyond a limit, or with a failed check; the oldest first."""
        from lakeidx.batch.held.hold import held_batches

        return Listing(held_batches(self.table.metadata))

    def held_batch(self, batch_id: str) -> HeldBatch:
        """Return why a batch is held, its rows, where they came from and what they would do; NotFoundError."""
        from lakeidx.api.reports import HeldBatch
        from lakeidx.batch.held.hold import describe_held

        return HeldBatch(describe_held(self.table.metadata, batch_id))

    def explain_batch(self, batch_id: BatchResult | str) -> BatchPlan:
        """Return what a finished batch did, in the form that its dry run has, with what was measured.

        batch_id   what the verb returned, or an id whose reports are still staged (`lakeidx expire --staging-age`)
        errors     NotFoundError when there is none, or a snapshot that it is compared with has expired
        """
        from lakeidx.api.dry_run.plan import explain_batch
        from lakeidx.api.table import Table

        return explain_batch(Table(self.table.store, self.table.paths), batch_id)

    def release_batch(
        self, batch_id: str, *, runner: RunnerLike = None, on_stage: OnStage | None = None
    ) -> BatchResult:
        """Commit a held batch: placed anew where others have committed since, its rows newer than theirs. Limits do not count.

        errors   NotFoundError when it is not held; InvalidInputError when it was discarded; CommitConflictError when its rows
                 were made of rows that others have changed since: discard it, and run it again
        """
        from lakeidx.batch.held.release import release_batch
        from lakeidx.maintenance.after_commit import compact_after_commit

        made = make_runner(runner)
        result = release_batch(self.table.metadata, batch_id, runner=made, on_stage=on_stage)
        compact_after_commit(self.table.metadata, made, result.assign)
        return self._logged(result)

    def discard_batch(self, batch_id: str, *, dry_run: bool = False) -> DiscardResult:
        """Delete the files of a held batch: its rows do not come into the table, and its id is done.

        errors   NotFoundError when it is not held; InvalidInputError when it was released
        """
        from lakeidx.api.reports import DiscardResult
        from lakeidx.batch.held.hold import describe_held, discard_batch

        rows = int(describe_held(self.table.metadata, batch_id)["rows"])
        if not dry_run:
            discard_batch(self.table.metadata, batch_id)
        return self._logged(DiscardResult(batch=batch_id, rows=rows, dry_run=dry_run))

    def resize_rings(
        self,
        *,
        target_size: str | int | None = None,
        partitions: Sequence[str] | None = None,
        dry_run: bool = False,
        runner: RunnerLike = None,
        progress: Progress | None = None,
    ) -> ResizeReport:
        """Split buckets that have grown and merge small ones (index.type = bucket with engine CONSISTENT_HASHING).

        target_size   wanted size of a bucket, ``256 mb`` or bytes; None = the table's target-file-size
        """
        from lakeidx.batch.index_types import index_folder
        from lakeidx.maintenance.partition_argument import find_partitions
        from lakeidx.maintenance.ring_resize import run_ring_resize

        chosen = find_partitions(self.table, partitions)
        made = make_runner(None if dry_run else runner, progress=progress)
        wanted = None if target_size is None else _size(str(target_size))
        return self._logged(
            run_ring_resize(
                self.table.metadata,
                made,
                index_dir=index_folder(self.table.paths),
                partitions=chosen,
                target_bytes=wanted,
                dry_run=dry_run,
            )
        )

    def build_lookup_store(
        self,
        *,
        partitions: Sequence[str] | None = None,
        runner: RunnerLike = None,
        progress: Progress | None = None,
    ) -> LookupStoreReport:
        """Build missing lookup files, which `lookup` reads, for the newest snapshot."""
        from lakeidx.maintenance.lookup_store import run_lookup_store
        from lakeidx.maintenance.partition_argument import find_partitions

        chosen = find_partitions(self.table, partitions)
        return self._logged(
            run_lookup_store(self.table.metadata, make_runner(runner, progress=progress), partitions=chosen)
        )

    def advise(
        self,
        batches: Sequence[pa.Table] | None = None,
        *,
        batch_rows: int | None = None,
        sample: int | None = None,
        needs: Needs | None = None,
        machine: Machine | None = None,
    ) -> Advice:
        """Recommend an index type for the table, and predict the cost of each per batch.

        batches   key and partition columns of some batches; None = the last one that was appended
        sample    rows of a batch that are looked at; None = `lakeidx.maintenance.advise.SAMPLE`
        """
        tool = load_plugin(TOOLS, "advise")
        if batches is None and batch_rows is not None:
            raise InvalidInputError("batch_rows (--batch-rows) needs batches (--keys)")
        sample = tool.SAMPLE if sample is None else sample
        work = tool.Workload(batches=list(batches), batch_rows=batch_rows, sample=sample) if batches else None
        found: Advice = tool.advise_table(self.table.metadata, work, needs=needs, machine=machine, sample=sample)
        return found

    def verify(
        self,
        *,
        max_skew: float = 4.0,
        max_stale_share: float = 0.1,
        sample_rows: int = 1000,
        lookup_store: bool | None = None,
        runner: RunnerLike = None,
        checkpoint: str | None = None,
        progress: Progress | None = None,
    ) -> VerifyResult:
        """Judge the whole table by every rule: all pages of all files, keys, index, file indexes, lookup store.

        max_skew, max_stale_share   from when on balance and leftovers of the index are findings
        lookup_store                compare answers of the lookup store, too; None = when there is one
        runner                      where data files are read; None = all processors of this machine
        checkpoint                  path or URI of a folder for finished work: an interrupted run resumes from it
        progress                    called with (done, total) after every group of partitions
        returns                     one result per rule; nothing is raised because of what is found
        """
        from lakeidx.api.reports import VerifyResult
        from lakeidx.quality.verify import Limits, unreadable_table

        limits = Limits(max_skew=max_skew, max_stale_share=max_stale_share)
        try:
            results = self._verified(
                limits, sample_rows, lookup_store, None if runner is None else make_runner(runner), checkpoint, progress
            )
        except CorruptFileError as error:
            results = [unreadable_table(error)]
        return self._logged(VerifyResult(table=self.table.uri, results=tuple(results)))

    def _verified(
        self,
        limits: Limits,
        sample_rows: int,
        lookup_store: bool | None,
        runner: Runner | None,
        checkpoint: str | None,
        progress: Progress | None,
    ) -> list[RuleResult]:
        """Apply all rules that suit the table; CorruptFileError for a newest snapshot that cannot be read."""
        from lakeidx.maintenance.lookup_store import lookup_coverage
        from lakeidx.quality.lookup_agrees import check_lookup_agrees
        from lakeidx.quality.whole_table import Checkpoint, verify_table
        from lakeidx.storage import open_store

        place = None if checkpoint is None else Checkpoint(open_store(checkpoint), checkpoint)
        found = verify_table(
            self.table.metadata, limits, sample_rows=sample_rows, runner=runner, checkpoint=place, progress=progress
        )
        results = list(found.results)
        if lookup_store is None:
            keyed = bool(self.table.metadata.latest_schema().primary_keys)
            lookup_store = keyed and lookup_coverage(self.table.metadata)[0] > 0
        if lookup_store:
            results.append(check_lookup_agrees(self.table, sample_rows=sample_rows))
        return results


def advise_new_table(
    files: Sequence[str],
    *,
    key: Sequence[str],
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    batch_rows: int | None = None,
    sample: int | None = None,
    needs: Needs | None = None,
    machine: Machine | None = None,
) -> Advice:
    """Recommend an index type for a table that would be made of landing files (`Table.advise_files`).

    key, partition_by   columns of the key, and of the partitions
    keys                files that stand for a batch; without one the last of `files` does
    batch_rows          rows of a whole batch, where those are a sample
    errors              InvalidInputError when there are too few files, no key, or a column that is not there
    """
    from lakeidx.landing.key_rows import column_names, landing_types, read_key_rows
    from lakeidx.storage.landing_folders import open_landing

    if not files:
        raise InvalidInputError("give the landing files that the table would be made of")
    if not key:
        names = column_names(open_landing(files[0]), files[0])
        raise InvalidInputError(f"name the key columns with key (--key); {files[0]} has {', '.join(names)}")
    held, batches = list(files), list(keys)
    if not batches:
        if len(held) < 2:
            raise InvalidInputError(
                "give at least two files, the last of which stands for a batch, or a batch with keys (--keys)"
            )
        batches = [held.pop()]
    wanted = list(dict.fromkeys([*partition_by, *key]))
    types = landing_types([*held, *batches], wanted)
    fields = [Field(i, n, types[n]) for i, n in enumerate(wanted)]
    rows = [read_key_rows(p, fields) for p in batches]
    if not any(batch.num_rows for batch in rows):
        raise InvalidInputError(f"there are no rows in {', '.join(batches)}")
    tool = load_plugin(TOOLS, "advise")
    found: Advice = tool.advise_files(
        [tool.SourceRows(p, read_key_rows(p, fields), open_landing(p).size(p)) for p in held],
        tool.Workload(batches=rows, batch_rows=batch_rows, sample=tool.SAMPLE if sample is None else sample),
        keys=key,
        key_types=[types[n] for n in key],
        partition_by=partition_by,
        partition_types=[types[n] for n in partition_by],
        needs=needs,
        machine=machine,
    )
    return found


def _size(text: str) -> int:
    """Parse a size like ``256 mb`` into bytes, at least one; InvalidInputError otherwise."""
    try:
        found = parse_size(text)
    except ValueError as error:
        raise InvalidInputError(
            f"the target size (--target-size) {text!r} is not a size; write e.g. '256 mb' or '1 gb'"
        ) from error
    if found < 1:
        raise InvalidInputError("the target size (--target-size) must be at least one byte")
    return found
