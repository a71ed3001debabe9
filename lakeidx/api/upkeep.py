"""Keeping a table small, fast and right: compaction, expiry, orphans, tags, rollback, indexes, lookup stores, verification."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from lakeidx import arguments
from lakeidx.api.reports import ExpireResult, OrphansResult, RollbackResult, TagResult, VerifyResult
from lakeidx.api.runners import RunnerLike, make_runner
from lakeidx.api.verification import run_verification
from lakeidx.batch.index_types import index_folder
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.key_index.advice.advice import Advice
from lakeidx.key_index.advice.measures import Needs
from lakeidx.key_index.advice.model import Machine
from lakeidx.maintenance.advise import SAMPLE, Workload, advise_table
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.maintenance.file_index_rebuild import FileIndexRebuildReport, rebuild_spec, run_file_index_rebuild
from lakeidx.maintenance.hash_index_rebuild import run_hash_index_rebuild
from lakeidx.maintenance.lookup_store import LookupStoreReport, run_lookup_store
from lakeidx.maintenance.partition_argument import find_partitions
from lakeidx.maintenance.ring_resize import ResizeReport, run_ring_resize
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.snapshot_expiry import run_snapshot_expiry
from lakeidx.maintenance.staging_cleanup import clean_orphans
from lakeidx.options.descriptors import parse_duration_ms, parse_size
from lakeidx.quality.verify import Limits
from lakeidx.results import Listing, Result
from lakeidx.table.expiration.read import read_consumers
from lakeidx.table.expiration.tags import create_tag, delete_tag, list_tags
from lakeidx.table.handle import TableHandle
from lakeidx.table.stream.consumer import LEASE_PREFIX
from lakeidx.table.times import iso_utc
from lakeidx.tasks.runner import Progress

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Result)


class UpkeepMixin(TableHandle):
    """The maintenance methods of a table. All are safe beside writers except `rollback`, and can be repeated after a crash.

    partitions   texts ``k=v,k=v``, one per partition; None = all; NotFoundError for one that the newest snapshot has no data of
    progress     called with (done, total) after every task, where work runs in this process
    """

    def compact(
        self,
        *,
        full: bool = False,
        partitions: Sequence[str] | None = None,
        shrink_index: bool | None = None,
        dry_run: bool = False,
        runner: RunnerLike = None,
        progress: Progress | None = None,
    ) -> CompactionReport:
        """Compact the buckets that need it, or with `full` all of them.

        shrink_index   with `full`: drop hashes of deleted keys; None = as option ``lakeidx.hash-index.shrink`` says
        """
        chosen = find_partitions(self, partitions)
        made = make_runner(None if dry_run else runner, progress=progress)
        return self._logged(
            run_compaction(self.metadata, made, full=full, partitions=chosen, shrink=shrink_index, dry_run=dry_run)
        )

    def expire(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        retain_time: str | None = None,
        staging: bool = True,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Expire snapshots, tags and consumers, and clean the staging of batches.

        retain_min, retain_max, retain_time   in place of the table's options ``snapshot.num-retained.min``, ``.max`` and
                                              ``snapshot.time-retained``, for this call
        """
        retention = {
            "snapshot.num-retained.min": retain_min,
            "snapshot.num-retained.max": retain_max,
            "snapshot.time-retained": retain_time,
        }
        given = {k: str(v) for k, v in retention.items() if v is not None}
        metrics = run_snapshot_expiry(self, staging=staging, dry_run=dry_run, retention=given)
        return self._logged(ExpireResult.of(metrics, self.schema, given))

    def orphans(self, *, older_than: str = "1 d", remove: bool = False) -> OrphansResult:
        """Find files that nothing refers to and that are older than a time; with `remove` delete them."""
        report = clean_orphans(
            self.metadata, now_ms=int(time.time() * 1000), older_than_ms=duration(older_than), dry_run=not remove
        )
        return self._logged(OrphansResult(files=tuple(report.files), bytes=report.bytes, removed=report.removed))

    def create_tag(self, name: str, *, snapshot: int | None = None, retain: str | None = None) -> TagResult:
        """Name a snapshot, by default the newest, so that it stays.

        retain   delete the tag after this time (``30 d``); None = never
        """
        kept = None if retain is None else duration(retain)
        tag = create_tag(
            self.metadata,
            arguments.text(name, name="the name of a tag"),
            snapshot_id=_snapshot_id(snapshot),
            retained_ms=kept,
        )
        return self._logged(TagResult(tag=name, snapshot=tag.snapshot.id))

    def delete_tag(self, name: str, *, dry_run: bool = False) -> TagResult:
        """Delete a tag, and the files that only it kept."""
        report = delete_tag(self.metadata, self.schema, name, dry_run=dry_run)
        return self._logged(
            TagResult(tag=name, dry_run=dry_run, deleted=report.files, notes=tuple(str(n) for n in report.notes))
        )

    def tags(self) -> Listing:
        """Return the tags: name, snapshot, rows."""
        return Listing(
            [
                {"tag": n, "snapshot": t.snapshot.id, "rows": t.snapshot.total_record_count}
                for n, t in list_tags(self.metadata).items()
            ]
        )

    def consumers(self) -> Listing:
        """Return the consumers: id, oldest snapshot that expiry leaves for it, when it was written last (UTC), if it is a lease."""
        return Listing(
            [
                {"consumer": c, "keeps_from": first, "written": iso_utc(written), "lease": c.startswith(LEASE_PREFIX)}
                for c, (first, written) in read_consumers(self.metadata).items()
            ]
        )

    def delete_consumer(self, id: str) -> None:
        """Delete a consumer: expiry no longer waits for it, and a stream with its id starts without a position.

        errors   NotFoundError naming the consumers there are
        """
        known = read_consumers(self.metadata)
        if id not in known:
            have = ", ".join(known) or "none"
            raise NotFoundError(f"consumer {id!r} does not exist; consumers: {have}", path=self.metadata.paths.root)
        self.store.delete(self.metadata.paths.consumer_path(id))

    def rollback(self, *, snapshot: int | None = None, tag: str | None = None, dry_run: bool = False) -> RollbackResult:
        """Make an older state the newest again; no writer may be at work in the meantime."""
        report = roll_back_table(
            self.metadata, self.schema, snapshot_id=_snapshot_id(snapshot), tag=tag, dry_run=dry_run
        )
        return self._logged(RollbackResult.of(report))

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
        made = make_runner(None if dry_run else runner, progress=progress)
        if index_type == "hash":
            if columns or drop:
                raise InvalidInputError(
                    "the hash index is of the primary key: it takes no columns, and cannot be dropped"
                )
            chosen = find_partitions(self, partitions)
            return self._logged(run_hash_index_rebuild(self.metadata, made, partitions=chosen, dry_run=dry_run))
        spec = rebuild_spec(self.schema, index_type, list(columns), drop=drop)
        chosen = find_partitions(self, partitions)
        return self._logged(run_file_index_rebuild(self.metadata, made, spec, partitions=chosen, dry_run=dry_run))

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
        chosen = find_partitions(self, partitions)
        made = make_runner(None if dry_run else runner, progress=progress)
        wanted = None if target_size is None else size(str(target_size))
        return self._logged(
            run_ring_resize(
                self.metadata,
                made,
                index_dir=index_folder(self.paths),
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
        chosen = find_partitions(self, partitions)
        return self._logged(run_lookup_store(self.metadata, make_runner(runner, progress=progress), partitions=chosen))

    def advise(
        self,
        batches: Sequence[pa.Table] | None = None,
        *,
        batch_rows: int | None = None,
        sample: int = SAMPLE,
        needs: Needs | None = None,
        machine: Machine | None = None,
    ) -> Advice:
        """Recommend an index type for the table, and predict the cost of each per batch.

        batches   key and partition columns of some batches; None = the last one that was appended
        """
        if batches is None and batch_rows is not None:
            raise InvalidInputError("batch_rows (--batch-rows) needs batches (--keys)")
        work = Workload(batches=list(batches), batch_rows=batch_rows, sample=sample) if batches else None
        return advise_table(self.metadata, work, needs=needs, machine=machine, sample=sample)

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
        limits = Limits(max_skew=max_skew, max_stale_share=max_stale_share)
        results = run_verification(
            self,
            limits,
            sample_rows=sample_rows,
            lookup_store=lookup_store,
            runner=None if runner is None else make_runner(runner),
            checkpoint=checkpoint,
            progress=progress,
        )
        return self._logged(VerifyResult(table=self.uri, results=tuple(results)))

    def _logged(self, result: R) -> R:
        log.info("%s: %r", self.uri, result)
        return result


def _snapshot_id(value: int | None) -> int | None:
    return None if value is None else arguments.whole_number(value, name="snapshot")


def duration(text: str) -> int:
    """Parse a duration like ``12 h`` into milliseconds; InvalidInputError otherwise."""
    try:
        return parse_duration_ms(arguments.text(text, name="a length of time"))
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not a duration; write e.g. '12 h' or '7 d'") from error


def size(text: str) -> int:
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
