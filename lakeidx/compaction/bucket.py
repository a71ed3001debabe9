"""The work on one bucket as data, and its rows: what steps of a compaction read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.compaction.key_range import KeyRange
from lakeidx.compaction.plan import CompactionTask
from lakeidx.compaction.record_expiry import RecordExpiry
from lakeidx.data.merge.levels import with_level
from lakeidx.data.positions import sorted_positions
from lakeidx.data.read_data_file import count_deletes, read_data_file
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.deletion_vector import Positions
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.commit.changes import TableChanges
from lakeidx.table.deletion_vectors import StoredVector, read_deletion_vector
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict

_BATCH_ROWS = 131_072
#: Positions in some data files, by file name: int64[k], rising.
FilePositions = Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class BucketCompaction:
    """One bucket's compaction; pickles.

    kept           live files of the bucket that the task leaves as they are
    vectors        data file -> where its deletion vector lies
    index          live index entries of the bucket (HASH, deletion vectors)
    shrink_index   rewrite the hash index with the hashes of live keys only; only for a full compaction
    expiry         leaves rows out that are too old; None when none ever is
    keys           the rows that are merged, of a share of its compaction (`lakeidx.maintenance.compaction`); None: it is whole
    """

    metadata: TableMetadata
    schema: TableSchema
    partition: bytes
    bucket: int
    total_buckets: int
    task: CompactionTask
    kept: tuple[DataFileMeta, ...] = ()
    vectors: Mapping[str, StoredVector] = field(default_factory=dict)
    index: tuple[IndexEntry, ...] = ()
    shrink_index: bool = False
    expiry: RecordExpiry | None = None
    keys: KeyRange | None = None

    @property
    def place(self) -> tuple[bytes, int]:
        """(partition bytes, bucket)."""
        return self.partition, self.bucket

    @property
    def all_files(self) -> frozenset[str]:
        """Names of the bucket's files when it was planned."""
        return frozenset(f.file_name for f in (*self.task.files, *self.kept))


@dataclass(frozen=True, slots=True)
class CompactedBucket:
    """Result of one bucket's compaction.

    rows_in, rows_out     of rewritten files
    changelog_rows        rows of changelog files
    bytes_in, bytes_out   of rewritten files
    upgraded              files that only changed their level
    """

    partition: bytes
    bucket: int
    changes: TableChanges
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    upgraded: int
    hashes_dropped: int = 0
    changelog_rows: int = 0


def entry_of(work: BucketCompaction, kind: FileKind, file: DataFileMeta) -> ManifestEntry:
    """Make the manifest entry that adds or removes a file of a bucket."""
    return ManifestEntry(
        kind=kind, partition=work.partition, bucket=work.bucket, total_buckets=work.total_buckets, file=file
    )


class BucketReader:
    """Reads the data files of a bucket's compaction, without the rows that deletion vectors delete."""

    def __init__(self, work: BucketCompaction) -> None:
        self._work = work
        self.directory = work.metadata.paths.bucket_dir(decode_partition_dict(work.partition, work.schema), work.bucket)

    def rows(
        self,
        run: Sequence[DataFileMeta],
        columns: Sequence[str],
        *,
        encoded: Sequence[str] = (),
        batch_rows: int = _BATCH_ROWS,
        levels: bool = False,
        only: FilePositions | None = None,
        without: FilePositions | None = None,
        all_keys: bool = False,
    ) -> Iterator[pa.Table]:
        """Read the files of a run, one after another, as KV tables.

        encoded   text columns to give as dictionaries
        levels    with the column LEVEL even where the table's merges do not need it
        only      rows to read, and no others: files it does not name are not opened
        without   more rows to leave out
        all_keys  rows outside the range of a share, too
        """
        work = self._work
        for file in run:
            keys = work.keys if not all_keys and work.keys is not None and file.file_name in work.keys.cut else None
            selection = None if only is None else only.get(file.file_name)
            if only is not None and (selection is None or not len(selection)):
                continue
            rows = read_data_file(
                work.metadata.store,
                self.path(file),
                file,
                work.metadata.load_schema(file.schema_id),
                work.schema,
                columns,
                predicate=None if keys is None else keys.condition(work.schema),
                deletion_vector=self._left_out(file, without or {}),
                selection=selection,
                batch_rows=batch_rows,
                dictionary_columns=encoded,
            )
            rows = rows if keys is None else keys.inside(rows, work.schema)
            by_level = levels or work.schema.table_options.merges_by_level
            yield from with_level(rows, file.level) if by_level else rows

    def keys(self, file: DataFileMeta) -> Iterator[pa.Table]:
        """Read the key columns of every row of a file, deleted ones too."""
        work = self._work
        return read_data_file(
            work.metadata.store,
            self.path(file),
            file,
            work.metadata.load_schema(file.schema_id),
            work.schema,
            work.schema.trimmed_primary_keys,
            batch_rows=_BATCH_ROWS,
            system_columns=(),
        )

    def count_deletes(self, file: DataFileMeta) -> int:
        """Count the rows of kind -U or -D in a file, whatever its manifest entry says."""
        return count_deletes(
            self._work.metadata.store, self.path(file), file, self._work.metadata.load_schema(file.schema_id)
        )

    def deleted(self, file: DataFileMeta) -> Positions | None:
        """Read the positions of a file's deleted rows; None without a deletion vector."""
        work = self._work
        found = work.vectors.get(file.file_name)
        if found is None:
            return None
        return read_deletion_vector(work.metadata, work.schema, work.partition, work.bucket, found)

    def path(self, file: DataFileMeta) -> str:
        """Return the path of a data file of the bucket."""
        return file.external_path or f"{self.directory}/{file.file_name}"

    def _left_out(self, file: DataFileMeta, without: FilePositions) -> Positions | npt.NDArray[np.int64] | None:
        deleted, more = self.deleted(file), without.get(file.file_name)
        if more is None:
            return deleted
        return more if deleted is None else np.union1d(sorted_positions(deleted), more)
