"""Cleans up after batches: staging of finished and abandoned ones, and orphans with the staged batches' files protected.

Of a finished batch the reports stay: they are what makes a batch id count once for ever. A week later they are shortened to what
that takes, two kilobytes together whatever the batch wrote.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from lakeidx.batch.artifacts import BatchFiles, BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.batch.committed_batch import read_reports
from lakeidx.batch.stages.commit import commit_user
from lakeidx.batch.stages.rerun import shortened as ingest_in_short
from lakeidx.batch.staging_walk import StagedBatch, walk_staging
from lakeidx.errors import CommitUnknownError, CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.storage.base import FileInfo
from lakeidx.table.commit.changes import CommitRequest, TableChanges, decode_changes
from lakeidx.table.commit.earlier_commit import committed_id
from lakeidx.table.expiration.orphans import DEFAULT_AGE_MS, OrphanReport, Protected, find_orphans, remove_orphans
from lakeidx.table.metadata import TableMetadata

_log = logging.getLogger(__name__)

#: A batch without a commit that no one touched for so long is taken as abandoned.
_ABANDONED_AGE_MS = 7 * 86_400_000
#: What a finished batch has staged stays so long, for those who look at its rejected rows.
FINISHED_AGE_MS = 3_600_000
#: Reports of a finished batch that no one touched for so long are shortened, if they have more bytes together than that.
_SHORTENED_AGE_MS, _SHORTENED_BYTES = 7 * 86_400_000, 2048
#: Bytes of landing files' names in a shortened report.
_SOURCE_BYTES = 400
#: Stores tell the time of a change in whole seconds, some rounded.
_CLOCK_STEP_MS = 2_000
_RUN_FOLDER = re.compile(r"run-([0-9]+)")


@dataclass(frozen=True, slots=True)
class StagingReport:
    """Report of a cleaning of staging, or in a dry run its plan.

    finished, abandoned   batch ids
    files                 files that went
    shortened             ids of batches whose reports were shortened
    held                  ids of batches that wait for somebody to decide, and stay
    """

    dry_run: bool
    finished: tuple[str, ...]
    abandoned: tuple[str, ...]
    files: tuple[FileInfo, ...]
    shortened: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return sum(f.size for f in self.files)


def clean_staging(
    metadata: TableMetadata,
    *,
    now_ms: int,
    finished_age_ms: int = FINISHED_AGE_MS,
    dry_run: bool = False,
) -> StagingReport:
    """Remove staged rows of finished batches, and everything of abandoned ones, on all branches; shorten reports of the former.

    A batch counts as abandoned when it has no commit report and none of its files was written for seven days. If its
    changes were committed after all (the writer died before the report), it gets its report and ends like a finished one;
    else everything goes, and the same id may be run again. One that may or may not have been committed stays as it is, and so does
    one that is held.
    cost   one listing of everything staged; files are read only of batches without a commit report
    """
    finished: list[str] = []
    abandoned: list[str] = []
    shortened: list[str] = []
    held: list[str] = []
    gone: list[FileInfo] = []
    batches, notes = walk_staging(metadata.store, metadata.paths)
    for staged in batches:
        age = now_ms - max(f.mtime_ms for f in staged.files.values())
        found = list(staged.files.values())
        reports_of = staged.run if age > _SHORTENED_AGE_MS else None
        bulky = [f for name, f in staged.files.items() if not _is_note(name, reports_of)]
        if staged.has(CommitReport):
            if bulky and age > finished_age_ms:
                finished.append(staged.batch_id)
                gone += bulky
            elif not bulky and age > _SHORTENED_AGE_MS and _is_long(staged):
                shortened.append(staged.batch_id)
                gone += _shorten(metadata, staged, dry_run=dry_run)
        elif staged.is_held:
            held.append(staged.batch_id)
        elif age > _ABANDONED_AGE_MS:
            files = BatchFiles(metadata.store, staged.paths, staged.batch_id)
            try:
                committed = _committed(TableMetadata(metadata.store, staged.paths), files)
            except CommitUnknownError as error:
                _log.warning("batch %s stays staged: %s", staged.batch_id, error)
                continue
            abandoned.append(staged.batch_id)
            if committed is not None and not dry_run:
                files.close(committed)
            gone += found if committed is None else bulky
    # Of batches that were not staged, and whose process died.
    gone += [note for note in notes if now_ms - note.mtime_ms > _ABANDONED_AGE_MS]
    if not dry_run:
        metadata.store.delete_many(f.path for f in gone)
    return StagingReport(dry_run, tuple(finished), tuple(abandoned), tuple(gone), tuple(shortened), tuple(held))


def _is_long(staged: StagedBatch) -> bool:
    """Return True for reports as they were when the batch was committed, and then it left a note, that are long."""
    begun = any(name.rpartition("/")[2].startswith("committing") for name in staged.files)
    return begun and sum(f.size for f in staged.files.values()) > _SHORTENED_BYTES


def _shorten(metadata: TableMetadata, staged: StagedBatch, *, dry_run: bool) -> list[FileInfo]:
    """Shorten the reports of a batch that ended long ago; return the files that are not needed any more.

    The attempt that was committed becomes the first one. A death in between leaves reports that say the same, and are shortened by
    the next call.
    """
    files = BatchFiles(metadata.store, staged.paths, staged.batch_id)
    try:
        reports = read_reports(files)
    except (CorruptFileError, InvalidInputError) as error:
        _log.warning("the reports of batch %s are not shortened: %s", staged.batch_id, error)
        return []
    kept = {f"{files.root}/{stage}.json" for stage in ("ingest", "bucket_assignment", "index_write", "commit")}
    gone = [f for f in staged.files.values() if f.path not in kept and not f.name.startswith("superseded-")]
    if not dry_run:
        lists = dict.fromkeys(("targets", "targets_paths", "placing_tasks", "stretches", "located_paths"), ())
        bulk = {**lists, "assigned_on": None, "moves_path": None}
        one = {"attempt": 1}
        files.replace(ingest_in_short(reports.ingest, _SOURCE_BYTES))
        files.replace(reports.assign.model_copy(update={**bulk, "index_metrics": {}, **one}))
        files.replace(reports.write.model_copy(update={"changes_path": "", **one}))
        files.replace(reports.commit.model_copy(update=one))
    return gone


def _is_note(name: str, only: int | None) -> bool:
    """Return True for the reports of runs, and the notes about those that do not count.

    only   the run whose reports are meant; None: all of them, for one may count again
    """
    folder, _, _ = name.rpartition("/")
    found = _RUN_FOLDER.fullmatch(folder or "run-1")
    return name.startswith("superseded-") or (found is not None and only in (None, int(found[1])))


def _committed(metadata: TableMetadata, files: BatchFiles) -> CommitReport | None:
    """Make the commit report a batch should have: its snapshot is there, or was and has been expired. None: never committed."""
    # Of two processes that ran the batch, one may have committed an attempt, and the other one planned another since.
    attempts = range(files.latest_attempt(), 0, -1)
    return next((found for attempt in attempts if (found := _committed_as(metadata, files, attempt)) is not None), None)


def _committed_as(metadata: TableMetadata, files: BatchFiles, attempt: int) -> CommitReport | None:
    assign = files.read(BucketAssignmentReport)
    write = files.read(IndexWriteReport, attempt=attempt)
    if assign is None or write is None:
        return None
    try:
        changes = decode_changes(files.store.get(write.changes_path), write.changes_path)
    except NotFoundError:
        return None
    request = CommitRequest(
        commit_user=commit_user(metadata.paths, files.batch_id, files.run),
        changes=changes,
        base_snapshot_id=assign.base_snapshot_id,
        tried_before=files.was_committing(attempt),
        files_since_ms=files.closed_ms(BucketAssignmentReport, attempt=attempt),
    )
    snapshot_id = committed_id(metadata, request, metadata.latest_snapshot())
    if snapshot_id is None:
        return None
    return CommitReport(
        batch_id=files.batch_id,
        attempt=attempt,
        snapshot_ids=(snapshot_id,),
        already=True,
        replans=0,
        seconds=0.0,
        commit_user=request.commit_user,
    )


def staged_files(metadata: TableMetadata) -> Protected:
    """Return the files that batches of the table and its branches have written or are writing, and may still commit.

    A batch whose write has finished names its files, and may be putting the manifests of its commit. While one is writing,
    its files are unknown: then every file is safe that is as new as the batch's bucket assignment, or as the note of one that is
    not staged. `clean_staging` gives up batches that died, so nothing is safe for ever.
    """
    names: set[str] = set()
    batches, notes = walk_staging(metadata.store, metadata.paths)
    writing = [note.mtime_ms - _CLOCK_STEP_MS for note in notes]
    committing: list[int] = []
    for staged in batches:
        if not staged.has(IngestReport) or staged.has(CommitReport):
            continue
        files = BatchFiles(metadata.store, staged.paths, staged.batch_id)
        attempt = files.latest_attempt()
        if files.read(BucketAssignmentReport, attempt=attempt) is None:
            continue
        for earlier in range(1, attempt):
            names |= _names_written(files, earlier) or set()
        written = _names_written(files, attempt)
        if written is None:
            writing.append(files.closed_ms(BucketAssignmentReport, attempt=attempt) - _CLOCK_STEP_MS)
        else:
            names |= written
            committing.append(files.closed_ms(IndexWriteReport, attempt=attempt) - _CLOCK_STEP_MS)
    return Protected(frozenset(names), min(writing, default=None), min(committing, default=None))


def _names_written(files: BatchFiles, attempt: int) -> set[str] | None:
    """Return the names of the files of an attempt; None while it is being written."""
    report = files.read(IndexWriteReport, attempt=attempt)
    if report is None:
        return None
    try:
        return _names_in(decode_changes(files.store.get(report.changes_path), report.changes_path))
    except NotFoundError:
        return set()  # cleaned as abandoned


def _names_in(changes: TableChanges) -> set[str]:
    out = {e.file_name for e in (*changes.append_index, *changes.compact_index)}
    for entry in (*changes.append, *changes.append_changelog, *changes.compact, *changes.compact_changelog):
        out.add(entry.file.file_name)
        out.update(entry.file.extra_files)
    return out


def clean_orphans(
    metadata: TableMetadata, *, now_ms: int, older_than_ms: int = DEFAULT_AGE_MS, dry_run: bool = True
) -> OrphanReport:
    """Find orphans, leaving the files of staged batches alone; remove them unless `dry_run`.

    errors   TableReplacedError
    """
    # A table without snapshots gives a handle that stayed open no other reason to notice that it is not its own.
    metadata.latest_schema()
    report = find_orphans(
        metadata, now_ms=now_ms, older_than_ms=older_than_ms, protected=lambda: staged_files(metadata)
    )
    return report if dry_run else remove_orphans(metadata, report)
