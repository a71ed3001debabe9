"""Held batches: all stages before the commit are done, and somebody decides whether it comes.

``held.json`` says why a run of a batch stops; ``decision.json`` what was decided, once. A released batch is committed like any
other: planned again where others were faster. One that is discarded gets the report of a commit without snapshots, so whoever runs
it again finds it done, and its files are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lakeidx.batch.artifacts import (
    BatchFiles,
    BucketAssignmentReport,
    CommitReport,
    HeldNote,
    IndexWriteReport,
    IngestReport,
)
from lakeidx.batch.context import BatchContext
from lakeidx.batch.landed_files import mark_committed
from lakeidx.batch.staging_walk import walk_staging
from lakeidx.errors import BatchHeldError, CommitConflictError, InvalidInputError, NotFoundError
from lakeidx.format.paths import MAIN_BRANCH
from lakeidx.table.commit.changes import decode_changes
from lakeidx.table.commit.earlier_commit import added_paths
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.times import iso_utc
from lakeidx.table.view import decode_partition_dict

_STATES = {"release": "released, not committed", "discard": "discarded, not deleted"}


def refuse_held(files: BatchFiles, root: str) -> None:
    """Raise BatchHeldError for a run that is held, and about which nobody has decided, or that it is discarded."""
    note = files.held()
    if note is not None and files.decided() != "release" and files.read(CommitReport) is None:
        raise _held(note, root)


def check_limits(context: BatchContext, attempt: int) -> None:
    """Hold a batch whose attempt is beyond a limit; one that may be committed by now, or was released, has been judged.

    errors   BatchHeldError
    """
    files = context.files
    if not context.limits or files.was_committing(attempt) or files.decided() == "release":
        return
    from lakeidx.batch.held.figures import BatchFigures

    assign = files.require(BucketAssignmentReport, attempt=attempt)
    reasons, figures = BatchFigures(context, files.require(IngestReport), assign).beyond(context.limits)
    if reasons:
        hold_batch(context, attempt, reasons, figures)


def hold_batch(
    context: BatchContext, attempt: int, reasons: Sequence[str], figures: dict[str, int] | None = None
) -> None:
    """Hold a batch before its commit: it stays staged until somebody decides.

    figures  what it does, as it was measured; None: as its rows were counted
    errors   BatchHeldError, always
    """
    assign = context.files.require(BucketAssignmentReport, attempt=attempt)
    names = ("inserts", "updates", "upserts", "deletes")
    newest, replaces = context.metadata.latest_snapshot(), None
    if context.replaces is not None:
        from lakeidx.predicate import format_predicate

        replaces = format_predicate(context.replaces, context.schema.fields)
    note = HeldNote(
        batch_id=context.files.batch_id,
        attempt=attempt,
        since_ms=int(time.time() * 1000),
        reasons=tuple(reasons),
        overwrite=context.overwrite,
        replaces=replaces,
        newest="" if newest is None else newest.identity,
        newest_id=0 if newest is None else newest.id,
        figures=figures or {name: getattr(assign, name) for name in names},
    )
    context.files.hold(note)
    raise _held(context.files.held() or note, context.paths.root)


def _held(note: HeldNote, root: str) -> BatchHeldError:
    error = BatchHeldError(
        f"batch {note.batch_id!r} of {root} is held before its commit: {'; '.join(note.reasons)}. Look at it with `lakeidx batch "
        f"show`, then `lakeidx batch release` or `lakeidx batch discard`"
    )
    error.batch_id, error.reasons = note.batch_id, note.reasons
    return error


def require_held(files: BatchFiles, root: str) -> HeldNote:
    """Return why a batch is held.

    errors   NotFoundError for a batch that is not held, or was decided about and is done
    """
    done = files.read(CommitReport)
    note = files.held()
    if done is not None and note is not None:
        what = "discarded" if done.discarded else f"committed with snapshot {', '.join(map(str, done.snapshot_ids))}"
        raise NotFoundError(f"batch {files.batch_id!r} is not held any more: it was {what}", path=root)
    if note is None:
        raise NotFoundError(
            f"no batch {files.batch_id!r} is held; `lakeidx batch list` shows those that are", path=root
        )
    return note


def begin_release(context: BatchContext, note: HeldNote) -> bool:
    """Decide that a held batch is committed; True when it has to be planned again: its state may not be the table's past.

    errors   InvalidInputError when it was discarded; CommitConflictError for rows made from the table's, which has been rolled back
    """
    files = context.files
    if files.decide("release") != "release":
        raise InvalidInputError(f"batch {files.batch_id!r} was discarded", path=context.paths.root)
    if files.was_committing(files.latest_attempt()) or not _moved(context.metadata, note):
        return False
    if files.require(IngestReport).completed_on is not None:
        raise CommitConflictError(
            f"the rows of batch {files.batch_id!r} were made from rows of a snapshot that is gone: discard it, and run it "
            "again under another id",
            path=context.paths.root,
        )
    return True


def _moved(metadata: TableMetadata, note: HeldNote) -> bool:
    """Return True when the newest snapshot of the time when a batch was held has expired, or was rolled back."""
    if not note.newest_id:
        return False
    try:
        return metadata.load_snapshot(note.newest_id).identity != note.newest
    except NotFoundError:
        return True


def discard_batch(metadata: TableMetadata, batch_id: str, *, for_good: bool = True) -> None:
    """Decide that the rows of a held batch do not come into the table, and delete its files; its reports stay.

    for_good   whoever runs the batch again finds it done; else its id may be run anew
    errors   NotFoundError when it is not held; InvalidInputError when it was released, or another program may have committed it
    """
    files = BatchFiles(metadata.store, metadata.paths, batch_id)
    require_held(files, metadata.paths.root)
    attempts = range(1, files.latest_attempt() + 1)
    if files.decide("discard") != "discard":
        raise InvalidInputError(
            f"batch {batch_id!r} was released: `lakeidx batch release` finishes what it began", path=metadata.paths.root
        )
    if any(map(files.was_committing, attempts)):
        raise InvalidInputError(
            f"batch {batch_id!r} may be in the table: another program began to commit it before it was held",
            path=metadata.paths.root,
        )
    written = [path for n in attempts for path in _written(metadata, files, n)]
    if for_good:
        # Whoever loads the folder, or a range of partitions, leaves them out.
        mark_committed(metadata.store, metadata.paths, files.require(IngestReport).sources, batch_id)
        report = CommitReport(
            batch_id=batch_id,
            attempt=attempts[-1],
            snapshot_ids=(),
            already=False,
            replans=0,
            seconds=0,
            discarded=True,
        )
        files.close(report)
    else:
        files.supersede("it was held, and whoever ran it did not want it so")
    metadata.store.delete_many(written)


def _written(metadata: TableMetadata, files: BatchFiles, attempt: int) -> Sequence[str]:
    write = files.read(IndexWriteReport, attempt=attempt)
    with suppress(NotFoundError):
        if write is not None:
            changes = decode_changes(files.store.get(write.changes_path), write.changes_path)
            return added_paths(metadata, metadata.latest_schema(), changes)
    return ()


def held_batches(metadata: TableMetadata) -> list[dict[str, Any]]:
    """List the batches that are held, on the table's branch, the oldest first: why, since when, and what they would do."""
    branch = metadata.paths.branch
    found = [s for s in walk_staging(metadata.store, metadata.paths)[0] if s.is_held and s.paths.branch == branch]
    out = []
    for staged in found:
        files = BatchFiles(metadata.store, metadata.paths, staged.batch_id)
        note, ingest = files.held(), files.read(IngestReport)
        if note is not None and ingest is not None:
            out.append({
                "batch": staged.batch_id,
                "state": _STATES.get(files.decided() or "", "held"),
                "since": iso_utc(note.since_ms),
                "rows": ingest.rows_in,
                **note.figures,
                "why": "; ".join(note.reasons),
            })  # fmt: skip
    return sorted(out, key=lambda row: str(row["since"]))


def describe_held(metadata: TableMetadata, batch_id: str) -> dict[str, Any]:
    """Describe a held batch: why it is held, its rows, where they came from and what they would do, by partition."""
    files = BatchFiles(metadata.store, metadata.paths, batch_id)
    note = require_held(files, metadata.paths.root)
    ingest, attempt = files.require(IngestReport), files.latest_attempt()
    assign = files.require(BucketAssignmentReport, attempt=attempt)
    schema, by_partition = metadata.load_schema(ingest.schema_id), dict[str, int]()
    for target in assign.targets:
        values = decode_partition_dict(bytes.fromhex(target.partition), schema) if schema.partition_keys else {}
        name = ",".join(f"{k}={v}" for k, v in values.items())
        by_partition[name] = by_partition.get(name, 0) + target.rows
    return {
        "batch": batch_id,
        "why": list(note.reasons),
        "decided": files.decided(),
        "since": iso_utc(note.since_ms),
        "branch": None if metadata.paths.branch == MAIN_BRANCH else metadata.paths.branch,
        "operation": ingest.operation or (f"OVERWRITE {note.overwrite}" if note.overwrite else "UPSERT"),
        "replaces": note.replaces,
        "planned_on_snapshot": assign.base_snapshot_id,
        "rows": ingest.rows_in,
        **note.figures,
        "rejected_rows": ingest.rejected_path,
        "reject_reasons": ingest.reject_reasons,
        "buckets": len(assign.targets),
        "rows_by_partition": by_partition if schema.partition_keys else {},
        "files": [s.path for s in ingest.sources],
    }
