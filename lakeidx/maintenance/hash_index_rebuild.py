"""Makes the hash index of a table with dynamic buckets anew, from the keys in its data files, in one commit.

A bucket gets the hash of every key that some data file of it has, of deleted ones too: as many as the lost index had, or fewer.
The commit is one of index files alone; it holds only while each bucket has exactly the data files that were read, so no key that a
batch brings meanwhile is missing.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lakeidx.batch.commit_priority import commit_with_priority
from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CommitConflictError, CommitUnknownError, InvalidInputError, NotFoundError
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.maintenance.file_index_rebuild import FileIndexRebuildReport
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.earlier_commit import may_plan_again
from lakeidx.table.index_files import examine_hash_index, write_hash_index
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import is_superseded, load_newest
from lakeidx.table.view import HASH_INDEX, SnapshotView, data_file_path
from lakeidx.tasks.runner import Runner

_log = logging.getLogger(__name__)
_MAX_ROUNDS = 10

Hashes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Bucket:
    """One bucket's work; pickles.

    files   its live data files; none: its index file goes
    index   entries of its hash index
    """

    metadata: TableMetadata
    schema: TableSchema
    partition: bytes
    bucket: int
    files: tuple[ManifestEntry, ...]
    index: tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """Entries that change, the hashes of the bucket ascending, and the rows that were read."""

    changes: tuple[IndexEntry, ...]
    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int32))
    rows: int = 0


def run_hash_index_rebuild(
    metadata: TableMetadata,
    runner: Runner,
    *,
    partitions: Collection[bytes] | None = None,
    dry_run: bool = False,
) -> FileIndexRebuildReport:
    """Write the hash index files that are missing, damaged, or have other hashes than the data files.

    partitions   only these (partition bytes)
    dry_run      write nothing; only count the data files that would be read
    errors       InvalidInputError for a table without a hash index; CommitConflictError when other writers were faster again and
                 again; NotFoundError, CorruptFileError for a damaged data file
    """
    started = time.monotonic()
    schema = metadata.latest_schema()
    if schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        raise InvalidInputError(
            "the table has no hash index: tables whose primary key has all partition keys, with 'bucket' = '-1', have one",
            path=metadata.paths.root,
        )
    user = f"lakeidx-index-{uuid.uuid4()}"
    for attempt in range(1, _MAX_ROUNDS + 1):
        view = load_newest(metadata, partitions=partitions)
        work = _work(metadata, schema, view)
        done: list[_Rebuilt] = []
        ids: tuple[int, ...] = ()
        try:
            if not dry_run and work:
                done = runner.map(_rebuild, work, label=f"index_rebuild: {metadata.paths.root}")
                _warn_of_shared(work, done)
                ids = _commit(metadata, user, view, work, done)
        except (CommitConflictError, CommitUnknownError, NotFoundError) as error:
            again = (
                is_superseded(metadata, view.snapshot)
                if isinstance(error, NotFoundError)
                else may_plan_again(error, _changes(done))
            )
            if attempt == _MAX_ROUNDS or not again:
                raise
            continue
        break
    written = [e for made in done for e in made.changes if e.kind is FileKind.ADD]
    return FileIndexRebuildReport(
        snapshot_ids=ids,
        files=sum(len(w.files) for w in work),
        rewritten=len(written),
        index_bytes=sum(e.file_size for e in written),
        rows_read=sum(made.rows for made in done),
        rounds=attempt,
        seconds=time.monotonic() - started,
        dry_run=dry_run,
    )


def _work(metadata: TableMetadata, schema: TableSchema, view: SnapshotView) -> list[_Bucket]:
    files: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    index: dict[tuple[bytes, int], list[IndexEntry]] = {}
    for entry in view.entries:
        files.setdefault((entry.partition, entry.bucket), []).append(entry)
    for named in view.index:
        if named.index_type == HASH_INDEX:
            index.setdefault((named.partition, named.bucket), []).append(named)
    return [
        _Bucket(metadata, schema, *place, tuple(files.get(place, ())), tuple(index.get(place, ())))
        for place in sorted({*files, *index})
    ]


def _rebuild(work: _Bucket) -> _Rebuilt:
    """Read the keys of a bucket and write its index file, when it has another one (runs in a task)."""
    if not work.files:
        return _Rebuilt(tuple(replace(e, kind=FileKind.DELETE) for e in work.index))
    metadata, schema = work.metadata, work.schema
    names = list(schema.identity_columns)
    types = list(schema.types_of(names))
    hashes, rows = np.empty(0, np.int32), 0
    for entry in work.files:
        of_file = metadata.load_schema(entry.file.schema_id)
        path = data_file_path(metadata, entry)
        found = [hashes]
        for table in read_data_file(metadata.store, path, entry.file, of_file, schema, names):
            found.append(hash_columns([table.column(n) for n in names], types))
            rows += table.num_rows
        hashes = sorted_distinct(np.concatenate(found))
    if len(work.index) == 1 and _is_right(work, work.index[0], hashes):
        return _Rebuilt((), hashes, rows)
    new = write_hash_index(metadata, schema, work.partition, work.bucket, hashes, NewFileNames())
    return _Rebuilt((new,), hashes, rows)


def _is_right(work: _Bucket, entry: IndexEntry, hashes: Hashes) -> bool:
    """Return True for a file that is whole and has these hashes, each once."""
    size, found, intact = examine_hash_index(work.metadata, work.schema, entry)
    if found is None or not intact or size != entry.file_size or entry.row_count != len(hashes):
        return False
    return np.array_equal(np.sort(found), hashes)


def _changes(done: Sequence[_Rebuilt]) -> TableChanges:
    return TableChanges(compact_index=tuple(e for made in done for e in made.changes))


def _commit(
    metadata: TableMetadata,
    user: str,
    view: SnapshotView,
    work: Sequence[_Bucket],
    done: Sequence[_Rebuilt],
) -> tuple[int, ...]:
    changed: Mapping[tuple[bytes, int], frozenset[str]] = {
        (w.partition, w.bucket): frozenset(e.file.file_name for e in w.files)
        for w, made in zip(work, done, strict=True)
        if made.changes
    }
    if not changed or view.snapshot is None:
        return ()
    request = CommitRequest(
        commit_user=user, changes=_changes(done), base_snapshot_id=view.snapshot.id, exact_files=changed
    )
    return commit_with_priority(metadata, request).snapshot_ids


def _warn_of_shared(work: Sequence[_Bucket], done: Sequence[_Rebuilt]) -> None:
    """Log the partitions in which two buckets have one hash: the data have a key twice, which the index cannot mend."""
    by_partition: dict[bytes, list[Hashes]] = {}
    for w, made in zip(work, done, strict=True):
        by_partition.setdefault(w.partition, []).append(made.hashes)
    shared = 0
    for columns in by_partition.values():
        shared += sum(map(len, columns)) - len(sorted_distinct(np.concatenate(columns)))
    if shared:
        _log.warning(
            "%d hashes are in the data of two buckets: 'lakeidx verify' names the keys that are there twice "
            "(primary_key_once)",
            shared,
        )
