"""Changes of the schema after a batch was staged: whether its rows still fit.

Data files carry the id of the schema they were written with, and every reader casts them to the newest one: columns that were
added, dropped, renamed, moved or widened since a batch was staged need nothing. What cannot be cast is refused here, before
the commit: options that decide where rows go or which files a batch must bring, and columns that hold no nulls any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeidx.batch.artifacts import BatchFiles, CommitReport, IngestReport, writing_note
from lakeidx.batch.index_types import TableIndex
from lakeidx.errors import CommitConflictError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.option_changes import IMMUTABLE_OPTIONS
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata

#: Options that a batch follows while it is assigned and written, besides those that no table with data can change.
_WRITTEN_BY = ("bucket", "changelog-producer", "deletion-vectors.enabled")


def staged_schema(metadata: TableMetadata, files: BatchFiles) -> TableSchema:
    """Read the schema that a batch's rows were staged under.

    errors   CommitConflictError when the table does not have it any more
    """
    ingest = files.require(IngestReport)
    reason = lost_schema(metadata, ingest)
    if reason:
        raise stage_again(files, reason)
    return metadata.load_schema(ingest.schema_id)


def lost_schema(metadata: TableMetadata, ingest: IngestReport) -> str:
    """Return why a table does not have the schema of staged rows any more, "" when it has.

    A branch that is fast-forwarded brings schemas of its own under the ids that the table has given since they parted. One
    that rows were committed with is in every branch that has their snapshot.
    """
    try:
        there = metadata.load_schema(ingest.schema_id)
    except NotFoundError:
        return f"schema {ingest.schema_id} was taken away, as a fast-forwarded branch does"
    if ingest.schema_digest in ("", there.digest):
        return ""
    return f"another schema {ingest.schema_id} has taken its place, as after the fast-forward of a branch"


def stage_again(files: BatchFiles, reason: str) -> CommitConflictError:
    """Give the error for staged rows that will never be committed: the run does not count, and the batch is run anew."""
    path, staged = files.root, files.require(IngestReport).schema_id
    files.supersede(reason)
    return CommitConflictError(
        f"batch {files.batch_id!r} was staged under schema {staged}, and since then {reason}: run it again, which stages its "
        "rows with the new schema",
        path=path,
    )


def drift_reason(staged: TableSchema, now: TableSchema) -> str:
    """Return why rows staged under one schema cannot be committed under another, "" when they can."""
    if staged.id == now.id:
        return ""
    for key in sorted({*IMMUTABLE_OPTIONS, *_WRITTEN_BY}):
        if staged.options.get(key) != now.options.get(key):
            return f"option '{key}' changed from {staged.options.get(key)!r} to {now.options.get(key)!r}"
    was, is_now = TableIndex.of(staged).name, TableIndex.of(now).name
    if was != is_now:
        return f"option 'index.type' changed from {was!r} to {is_now!r}"
    tightened = next(_tightened(staged, now), None)
    return "" if tightened is None else f"column {tightened!r} became NOT NULL"


def staged_batches(store: ObjectStore, paths: TablePaths) -> list[str]:
    """Return the ids of the batches that are staged, or run in memory, and are not committed yet."""
    from lakeidx.batch.staging_walk import walk_staging

    staged, notes = walk_staging(store, paths)
    mine = (b for b in staged if b.paths.branch == paths.branch)
    writing = [note.name for note in notes if note.path == writing_note(paths, note.name)]
    return [b.batch_id for b in mine if b.has(IngestReport) and not b.has(CommitReport)] + writing


def _tightened(staged: TableSchema, now: TableSchema) -> Iterator[str]:
    before = staged.fields_by_id
    for field in now.fields:
        if not field.type.nullable and (field.id not in before or before[field.id].type.nullable):
            yield field.name
