"""A Paimon table as key indexes see it: the state of one snapshot, its files, and who committed.

source   org.apache.paimon.crosspartition.IndexBootstrap (what of a table an index reads), release 1.4.2
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import NotFoundError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.partition_names import partition_dir_name
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.key_index.keys.parquet_keys import ParquetKeyReader
from lakeidx.key_index.locations import Int32s, KeyBatch, LiveFile
from lakeidx.key_index.options import index_options_of
from lakeidx.key_index.port import IndexContext
from lakeidx.options.table_options import TableOptions
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join
from lakeidx.table.entries import Entries, no_entries
from lakeidx.table.key_buckets import KeyBuckets, find_buckets, hash_entries
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict, load_live
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import to_arrow

COMMITS_DIR = "commits"
_KEEPING = frozenset({CommitKind.APPEND, CommitKind.COMPACT, CommitKind.ANALYZE})


def forget_commits(store: ObjectStore, index_dir: str, *, after: int) -> None:
    """Drop the commit markers of snapshots after the one that a table is rolled back to; call before the rollback.

    If the rollback then does not come, commits whose snapshots are there are noted again.
    """
    for file in store.list(join(index_dir, COMMITS_DIR)):
        try:
            snapshot_id = int(store.get(file.path))
        except (ValueError, NotFoundError):
            continue
        if snapshot_id > after:
            store.delete(file.path)


class SnapshotTable:
    """A snapshot of a Paimon table that a batch is tagged on.

    snapshot    None for a table without one
    index_dir   where `confirm` notes commits
    """

    def __init__(self, metadata: TableMetadata, snapshot: Snapshot | None, *, index_dir: str) -> None:
        self._metadata = metadata
        self._snapshot = snapshot
        self._schema = metadata.load_schema(snapshot.schema_id) if snapshot is not None else metadata.latest_schema()
        self._whole: Entries | None = None
        self._parts: dict[frozenset[bytes], Entries] = {}
        self._texts: dict[bytes, str] = {}
        self._commits = join(index_dir, COMMITS_DIR)
        self._table_id: str | None = None
        self._confirmed: set[str] | None = None
        self._seen: dict[str, int] | None = None

    @property
    def schema(self) -> TableSchema:
        """The snapshot's schema."""
        return self._schema

    @property
    def table_id(self) -> str:
        """Path of the table or branch, and hash of its first schema (which has the time it was created)."""
        if self._table_id is None:
            first = min(self._metadata.schema_ids())
            path = self._metadata.paths.schema_path(first)
            digest = hashlib.sha256(self._metadata.store.get(path)).hexdigest()
            self._table_id = f"{self._metadata.paths.branch_root} {digest}"
        return self._table_id

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot; None for a table without one."""
        return None if self._snapshot is None else self._snapshot.id

    def snapshot_token(self, snapshot_id: int) -> str | None:
        """Return the identity of a snapshot, to distinguish it from another one of its id; None when it does not exist, unless
        it is this one.

        This one is known, whatever has become of it since: what is derived from it must not be taken for another's.
        """
        if self._snapshot is not None and snapshot_id == self._snapshot.id:
            return self._snapshot.identity
        try:
            return self._metadata.load_snapshot(snapshot_id).identity
        except NotFoundError:
            return None

    def kept_since(self, snapshot_id: int) -> bool:
        """Return True when all snapshots after it, up to this one, are there and appended or compacted only."""
        for later in range(snapshot_id + 1, (self.snapshot_id or 0) + 1):
            try:
                if self._metadata.load_snapshot(later).commit_kind not in _KEEPING:
                    return False
            except NotFoundError:
                return False
        return True

    def is_committed(self, instants: Sequence[str]) -> list[bool]:
        """Return committed instants (commit users): those with a snapshot, or noted by `confirm` before it expired.

        One that is seen by its snapshot alone (its writer died before it noted it) is noted now.
        """
        if not instants:
            return []
        if self._seen is None or self._confirmed is None:
            self._seen = {s.commit_user: s.id for s in self._metadata.snapshots()}
            self._confirmed = {f.name for f in self._metadata.store.list(self._commits)}
        for instant in instants:
            if instant in self._seen and instant not in self._confirmed:
                self._note(instant, self._seen[instant])
        return [i in self._confirmed for i in instants]

    def confirm(self, instant: str) -> None:
        """Record that a commit is in the table, for when its snapshot has expired; the view is at that snapshot."""
        self._note(instant, self.snapshot_id or 0)

    def _note(self, instant: str, snapshot_id: int) -> None:
        self._metadata.store.put(join(self._commits, instant), str(snapshot_id).encode())
        if self._confirmed is not None:
            self._confirmed.add(instant)

    def files(self, partitions: Collection[bytes] | None) -> Sequence[LiveFile]:
        """Return the live data files of some partitions, None = of all."""
        # They may be the whole table's, read for another question.
        return [self._live(e) for e in self._entries(partitions) if partitions is None or e.partition in partitions]

    def files_at(self, snapshot_id: int) -> Sequence[LiveFile]:
        """Return the live data files of another snapshot."""
        return [self._live(e) for e in load_live(self._metadata, self._metadata.load_snapshot(snapshot_id))]

    def key_buckets(self, partition: bytes, hashes: Int32s, *, threads: int = 1) -> KeyBuckets:
        """Return what the HASH index of a partition has of some hashes."""
        entries = hash_entries(self._metadata, self._snapshot, (partition,))[partition]
        return find_buckets(self._metadata, self._schema, list(entries.values()), hashes, threads=threads)

    def partition_text(self, partition: bytes) -> str:
        """Return the directory path of a partition below the table."""
        if partition not in self._texts:
            values = decode_partition_dict(partition, self._schema)
            paths = self._metadata.paths
            self._texts[partition] = partition_dir_name(
                values,
                paths.partition_fields,
                legacy=paths.legacy_partition_names,
                default_name=paths.default_partition_name,
            )
        return self._texts[partition]

    def _live(self, entry: ManifestEntry) -> LiveFile:
        values = decode_partition_dict(entry.partition, self._schema)
        file = entry.file
        path = self._metadata.paths.data_file(values, entry.bucket, file.file_name, external_path=file.external_path)
        return LiveFile(entry.partition, entry.bucket, path, file)

    def _entries(self, partitions: Collection[bytes] | None) -> Entries:
        if self._whole is not None:
            return self._whole
        if self._snapshot is None:
            return no_entries()
        if partitions is None:
            self._whole = load_live(self._metadata, self._snapshot)
            return self._whole
        key = frozenset(partitions)
        if key not in self._parts:
            self._parts[key] = load_live(self._metadata, self._snapshot, partitions=key)
        return self._parts[key]


def make_tag_context(metadata: TableMetadata, snapshot: Snapshot | None, *, index_dir: str) -> IndexContext:
    """Build what a key index needs to work on a table.

    index_dir   directory on the table's store for an index's own files, outside the table's directory
    """
    view = SnapshotTable(metadata, snapshot, index_dir=index_dir)
    schema = view.schema
    options = index_options_of(schema)
    order = tuple(schema.field(n) for n in options.sequence_field)
    keys = tuple(schema.field(n) for n in schema.identity_columns)
    return IndexContext(
        view=view,
        reader=ParquetKeyReader(metadata.store, keys, _OtherFormats(metadata, schema), order),
        # How keys are looked for is of now, whatever it was when the snapshot was written.
        options=index_options_of(metadata.latest_schema()),
        pool=LocalRunner(options.index_threads or available_cores()),
        store=metadata.store,
        index_dir=index_dir,
        deletes_hide=deletes_hide(options),
        descending=options.sequence_field_sort_order == "descending",
    )


def deletes_hide(options: TableOptions) -> bool:
    """Return True when the merge engine removes a key on its -D."""
    if options.ignore_delete or options.merge_engine == "first-row":
        return False
    if options.merge_engine == "partial-update":
        return bool(
            options.partial_update_remove_record_on_delete or options.partial_update_remove_record_on_sequence_group
        )
    if options.merge_engine == "aggregation":
        return options.aggregation_remove_record_on_delete
    return True


def key_batch(table: pa.Table, schema: TableSchema, keys: tuple[tuple[bytes, ...], Int32s]) -> KeyBatch:
    """Read the keys of some rows.

    table   rows with at least the trimmed primary key
    keys    their distinct partitions (manifest bytes) and int32[n] which one each row has
    """
    names = list(schema.identity_columns)
    columns = [table.column(n) for n in names]
    types = tuple(schema.field(n).type for n in names)
    return KeyBatch(keys[0], keys[1], table.select(names), types, hash_columns(columns, types))


@dataclass(frozen=True, slots=True)
class _OtherFormats:
    """Reads key columns of ORC and Avro files by the table's general reader."""

    metadata: TableMetadata
    schema: TableSchema

    def __call__(self, file: LiveFile) -> pa.Table:
        names = {*self.schema.identity_columns, *self.schema.table_options.sequence_field}
        parts = read_data_file(
            self.metadata.store,
            file.path,
            file.meta,
            self.metadata.load_schema(file.meta.schema_id),
            self.schema,
            sorted(names),
        )
        tables = list(parts)
        if tables:
            return pa.concat_tables(tables)
        fields = [(SEQUENCE_NUMBER, pa.int64()), (VALUE_KIND, pa.int8())]
        fields += [(n, to_arrow(self.schema.field(n).type)) for n in sorted(names)]
        return pa.schema(fields).empty_table()
