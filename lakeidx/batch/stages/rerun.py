"""Batch ids that come again: resumed, done already, refused, or run again.

A batch is its id, the table, its mode (upsert or overwrite) and the content of its landing files. Its reports count only
while the table is the one they refer to, and its snapshot is in the table's history or has expired; after a rollback, or when
the table was dropped and created again, the batch is run again. When a branch brings a snapshot back that was rolled back, the
run that had put it counts again. A batch that comes again with other content, or in another mode, is refused.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lakeidx.batch.artifacts import BatchFiles, CommitReport, IngestReport, SourceFile
from lakeidx.batch.held.hold import refuse_held
from lakeidx.batch.landed_files import describe_source, landing_store
from lakeidx.batch.schema_drift import lost_schema
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.paths import MAIN_BRANCH, TablePaths
from lakeidx.storage.base import ObjectStore, kind_of_store
from lakeidx.table.commit.chain import is_stray
from lakeidx.table.history import branch_names
from lakeidx.table.metadata import TableMetadata

log = logging.getLogger(__name__)

#: Landing files on a local disk up to this size get a checksum; of larger ones size and time of change tell.
_CHECKSUM_BYTES = 16 << 20


def begin_run(metadata: TableMetadata, files: BatchFiles) -> None:
    """Begin a batch before its first stage; when the rows of its last run are no longer in the table, start it again.

    cost     two small requests for a new id
    errors   TableReplacedError; BatchHeldError; InvalidInputError when the rows of an earlier run came back, and what was known of
             it is gone, or may have come back
    """
    ingest = files.read(IngestReport)
    reason = None if ingest is None else supersede_lost(metadata, files, ingest)
    if ingest is not None and reason is None:
        refuse_held(files, metadata.paths.root)
    back = None if files.run == 1 else _brought_back(metadata, files)
    if back is not None:
        run, snapshot_id = back
        if not files.resume(run):
            raise InvalidInputError(
                f"batch {files.batch_id!r} is in the table again, with snapshot {snapshot_id} that had been rolled back, and its "
                "reports are gone: use a new batch id for other rows",
                path=metadata.paths.snapshot_path(snapshot_id),
            )
        log.warning(
            "run %d of batch %s is in effect again: its snapshot %d was restored", run, files.batch_id, snapshot_id
        )
        return
    if files.run > 1 and files.read(CommitReport) is None:
        _refuse_unknown(metadata, files)
    if reason is not None:
        log.warning("batch %s is run again: %s", files.batch_id, reason)


def _brought_back(metadata: TableMetadata, files: BatchFiles) -> tuple[int, int] | None:
    """Find a run that was rolled back and whose snapshot is there again: a branch that has it was fast-forwarded."""
    latest = metadata.latest_snapshot()
    for note in files.superseded_runs():
        if note.commit is None or not note.commit.snapshot_ids or latest is None:
            continue
        last = note.commit.snapshot_ids[-1]
        try:
            there = metadata.load_snapshot(last) if last <= latest.id else None
        except NotFoundError:
            continue
        if there is not None and there.commit_user == note.commit.commit_user and not is_stray(metadata, there):
            return note.run, last
    return None


def supersede_lost(metadata: TableMetadata, files: BatchFiles, ingest: IngestReport | None) -> str | None:
    """Mark a batch's run as superseded when its rows are not in the table; returns why, None when it counts."""
    reason = why_superseded(metadata, files, ingest)
    if reason is not None:
        files.supersede(reason, branch=_branch_with(metadata, files.read(CommitReport)))
    return reason


def _branch_with(metadata: TableMetadata, commit: CommitReport | None) -> str | None:
    """Find a branch that has a batch's snapshot, or one after it and none as old: Java may put it in the place of the table's."""
    if commit is None or not commit.snapshot_ids or metadata.paths.branch != MAIN_BRANCH:
        return None
    last = commit.snapshot_ids[-1]
    for name in branch_names(metadata):
        branch = TableMetadata(metadata.store, TablePaths(metadata.paths.root, branch=name))
        ids = branch.snapshot_ids()
        if not ids or ids[-1] < last:
            continue
        with suppress(NotFoundError):
            if ids[0] > last or branch.load_snapshot(last).commit_user == commit.commit_user:
                return name
    return None


def _refuse_unknown(metadata: TableMetadata, files: BatchFiles) -> None:
    """Refuse a batch whose rows a branch may have brought back, with a snapshot that is past and gone."""
    latest = metadata.latest_snapshot_id() or 0
    for note in files.superseded_runs():
        if note.branch is None or note.commit is None:
            continue
        last = note.commit.snapshot_ids[-1]
        if last < latest and not metadata.has_snapshot(last):
            raise InvalidInputError(
                f"batch {files.batch_id!r} was rolled back with snapshot {last}, and branch {note.branch!r} may have brought it "
                "back since: no snapshot of that id is there to tell. Look for the batch's rows in the table; if they are "
                "missing, give them a batch id of their own",
                path=metadata.paths.root,
            )


def still_counts(metadata: TableMetadata, batch_id: str) -> bool:
    """Return False when the rows of a batch that was committed are known not to be in the table any more."""
    files = BatchFiles(metadata.store, metadata.paths, batch_id)
    begin_run(metadata, files)
    return files.run == 1 or files.read(CommitReport) is not None


def why_superseded(metadata: TableMetadata, files: BatchFiles, ingest: IngestReport | None) -> str | None:
    """Return why the rows of a batch's run are not in this table; None when they are, or may still come."""
    if ingest is not None and ingest.table_id and ingest.table_id != metadata.table_id:
        # A handle of the table that is gone must not begin a batch anew that is in the one that is here now: this raises.
        metadata.latest_schema()
        return "the table was dropped and created again"
    commit = files.read(CommitReport)
    if commit is None:
        return None if ingest is None else lost_schema(metadata, ingest) or None
    if not commit.snapshot_ids:
        return None
    last = commit.snapshot_ids[-1]
    latest = metadata.latest_snapshot()
    if latest is None or latest.id < last:
        return f"its snapshot {last} was rolled back"
    try:
        there = metadata.load_snapshot(last)
    except NotFoundError:
        # A rollback takes the newest ones, so what is missing below the newest has expired.
        return None if latest.id > last else f"its snapshot {last} was rolled back"
    if commit.commit_user and there.commit_user != commit.commit_user and not is_stray(metadata, there):
        return f"its snapshot {last} was rolled back, and the id belongs to another commit"
    return None


def describe_sources(store: ObjectStore, landing: Sequence[str], options: Mapping[str, Any]) -> tuple[SourceFile, ...]:
    """Describe the landing files as they are now, small local ones with a checksum; NotFoundError when one is missing."""
    return tuple(_with_checksum(store, describe_source(store, path, options)) for path in landing)


def shortened(done: IngestReport, most: int) -> IngestReport:
    """Return the short report of a batch that ended long ago: the identity of its rows, and nothing that grows with them.

    most   bytes that sources may have; digests take the place of more, which then only count together
    """
    if done.digests:
        return done
    checksums = [p.checksum for p in done.parts]
    digests = {"parts": "" if None in checksums else _digest(checksums)}
    sources = done.sources
    if sum(len(s.model_dump_json()) for s in sources) > most:
        digests |= _source_digests(sources) | {"sources": str(len(sources))}
        sources = ()
    bulk: dict[str, object] = {"parts": (), "rejected_path": None, "reject_reasons": {}, "skipped": {}}
    return done.model_copy(update={**bulk, "sources": sources, "digests": digests})


def _source_digests(sources: Sequence[SourceFile]) -> dict[str, str]:
    versions = [(s.path, s.size, s.version) for s in sources]
    contents = [(s.size, s.checksum) for s in sources]
    known = all(s.checksum is not None for s in sources)
    return {
        "paths": _digest([s.path for s in sources]),
        "versions": _digest(versions),
        "contents": _digest(contents) if known else "",
    }


def _digest(values: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]


def check_landing(store: ObjectStore, done: IngestReport, landing: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise InvalidInputError when a batch that was ingested comes again with other landing files.

    A file that is missing by now counts as the one that was ingested under its path.
    """
    if "sources" in done.digests:
        _check_digests(store, done, landing, options)
        return
    if len(landing) != len(done.sources):
        raise _other_content(done, f"{len(done.sources)} landing files then, {len(landing)} now", None)
    for path, before in zip(landing, done.sources, strict=True):
        try:
            now = describe_source(store, path, options)
        except NotFoundError:
            if path == before.path:
                continue
            raise
        if now.is_version_of(before):
            continue
        same = now.size == before.size and before.checksum is not None
        if not same or _with_checksum(store, now).checksum != before.checksum:
            raise _other_content(done, f"{before.size} bytes of {before.path} then, {now.size} bytes now", path)


def _check_digests(store: ObjectStore, done: IngestReport, landing: Sequence[str], options: Mapping[str, Any]) -> None:
    """Compare landing files with those of a batch that ended long ago, all together; where one is missing, their paths."""
    then = done.digests
    if len(landing) != int(then["sources"]):
        raise _other_content(done, f"{then['sources']} landing files then, {len(landing)} now", None)
    try:
        now = _source_digests(describe_sources(store, landing, options))
    except NotFoundError:
        if _digest(list(landing)) == then["paths"]:
            return
        raise
    if now["versions"] != then["versions"] and (not then["contents"] or now["contents"] != then["contents"]):
        raise _other_content(done, f"other files than the {then['sources']} then", None)


def check_rows(
    done: IngestReport, checksums: Sequence[str | None] | None, rows: int, *, content: str | None = None
) -> None:
    """Refuse other rows under the id of a batch that was ingested from memory.

    checksums   of the rows as they would be staged now; None: only their number is compared, because the table's columns,
                to which they are cast, have changed since
    content     of the rows, where parts cannot be compared
    errors      InvalidInputError
    """
    before = [p.checksum for p in done.parts]
    if done.digests:
        other = checksums is not None and done.digests["parts"] not in ("", _digest(checksums))
    else:
        other = checksums is not None and None not in before and before != list(checksums)
    other |= content is not None and done.content is not None and done.content != content
    if done.rows_in != rows or other:
        raise _other_content(done, f"{done.rows_in} rows then, {rows} other rows now", None)


def _other_content(done: IngestReport, what: str, path: str | None) -> InvalidInputError:
    return InvalidInputError(
        f"batch {done.batch_id!r} was ingested with other content ({what}): use a new batch id for this content",
        path=path,
    )


def _with_checksum(store: ObjectStore, source: SourceFile) -> SourceFile:
    if source.size > _CHECKSUM_BYTES or kind_of_store(source.path):
        return source
    home = landing_store(store, source.path, {})
    if not home.place.startswith("local:"):
        return source
    return source.model_copy(update={"checksum": hashlib.sha256(home.get(source.path)).hexdigest()})
