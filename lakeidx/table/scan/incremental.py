"""Plans the rows that came between two snapshots: the files each commit added, or its changelog, read without merging.

source   org.apache.paimon.table.source.snapshot.IncrementalDeltaStartingScanner, DeltaFollowUpScanner,
         ChangelogFollowUpScanner, release 1.4.2
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import check_use
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.options.features import Use
from lakeidx.predicate import TRUE, Predicate, project
from lakeidx.table.history import earliest_commit_id, load_commit
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import says_expired
from lakeidx.table.scan.metrics import LayerTrace
from lakeidx.table.scan.plan import BucketFiles, ScanPlan, partition_matcher

log = logging.getLogger(__name__)


class IncrementalMode(StrEnum):
    """Kinds of rows that are read; values of ``incremental-between-scan-mode``.

    AUTO is the changelog if the table makes one, else the delta; DIFF is `lakeidx.table.scan.incremental_diff`, not a range of
    commits; DERIVED (not Paimon's) is a diff per commit, see `lakeidx.table.scan.changes`.
    """

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"
    DERIVED = "derived"


def plan_incremental(
    metadata: TableMetadata,
    schema: TableSchema,
    after: int,
    upto: int,
    predicate: Predicate = TRUE,
    *,
    mode: IncrementalMode = IncrementalMode.AUTO,
) -> ScanPlan:
    """Plan the rows of the snapshots in (after, upto].

    predicate   bound to `schema`
    returns     a plan whose files are read one by one, oldest commit first, row kinds kept apart; the same key may come
                several times
    errors      InvalidInputError for a range that is the wrong way round, for DIFF and DERIVED;
                NotFoundError when a commit in it has expired; UnsupportedError as for `plan_scan`
    """
    check_use(schema, Use.READ, metadata.paths.root)
    if after > upto:
        raise InvalidInputError(f"snapshots after {after} up to {upto}: the first must not be greater")
    if mode in (IncrementalMode.DIFF, IncrementalMode.DERIVED):
        raise InvalidInputError("a diff compares two states; it does not follow commits")
    started = time.monotonic()
    if mode is IncrementalMode.AUTO:
        producer = schema.table_options.changelog_producer
        mode = IncrementalMode.DELTA if producer == "none" else IncrementalMode.CHANGELOG
    matches = partition_matcher(project(predicate, schema.partition_keys), schema)
    seen, kept, without, outlives = [], [], [], _keeps(schema, mode)
    first: Snapshot | None = None
    last: Snapshot | None = None
    for snapshot_id in range(after + 1, upto + 1):
        last = _commit(metadata, schema, snapshot_id, mode)
        first = first or last
        if mode is IncrementalMode.CHANGELOG and _had_no_producer(metadata, last):
            without.append(snapshot_id)
        with says_expired(metadata, last, by_changelog=outlives):
            entries = _entries(metadata, last, mode)
        seen += entries
        kept += [e for e in entries if e.kind is FileKind.ADD and matches(e.partition)]
    if without:
        log.warning(
            "%s: snapshots from %d to %d came before the table had a changelog producer; only modes delta and derived return "
            "their rows", metadata.paths.root, without[0], without[-1],
        )  # fmt: skip
    buckets = tuple(BucketFiles(e.partition, e.bucket, e.total_buckets, (((e.file,),),), merge=False) for e in kept)
    trace = LayerTrace(
        str(mode.value), "files", len(seen), len(kept),
        sum(e.file.file_size for e in seen), sum(e.file.file_size for e in kept), time.monotonic() - started,
    )  # fmt: skip
    # Value statistics and indexes work as ever when files are read: no version of a key hides another here.
    return ScanPlan(last, schema, predicate, buckets, (trace,), first, outlives)


def _commit(metadata: TableMetadata, schema: TableSchema, snapshot_id: int, mode: IncrementalMode) -> Snapshot:
    """Read a snapshot of a range, or what is left of it as a long-lived changelog (without a producer, its delta).

    errors   NotFoundError, naming what is left
    """
    keeps = _keeps(schema, mode)
    try:
        return load_commit(metadata, snapshot_id) if keeps else metadata.load_snapshot(snapshot_id)
    except NotFoundError as error:
        left, path = earliest_commit_id(metadata) if keeps else metadata.earliest_snapshot_id(), error.path
        if left is None or snapshot_id >= left:
            raise
    what = "changelog" if mode is IncrementalMode.CHANGELOG else "commit"
    raise NotFoundError(f"the {what} of snapshot {snapshot_id} has expired; those after {left - 1} are left", path=path)


def _had_no_producer(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    if snapshot.commit_kind is not CommitKind.APPEND or snapshot.changelog_manifest_list is not None:
        return False
    options = metadata.load_schema(snapshot.schema_id).table_options
    return bool(snapshot.delta_record_count) and options.changelog_producer == "none"


def _keeps(schema: TableSchema, mode: IncrementalMode) -> bool:
    """Return True when expired snapshots leave what this mode reads."""
    return mode is IncrementalMode.CHANGELOG or schema.table_options.changelog_producer == "none"


def _entries(metadata: TableMetadata, snapshot: Snapshot, mode: IncrementalMode) -> list[ManifestEntry]:
    if mode is IncrementalMode.CHANGELOG:
        name, size = snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size
        if name is None or snapshot.commit_kind is CommitKind.OVERWRITE:
            return []
    elif snapshot.commit_kind is CommitKind.APPEND:
        name, size = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    else:
        return []
    return [e for meta in metadata.load_manifest_list(name, size) for e in metadata.load_manifest(meta.file_name)]
