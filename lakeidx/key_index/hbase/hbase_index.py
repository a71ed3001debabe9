"""hbase: locations of all keys in an HBase table, Hudi's layout (`hbase_rows`); global.

The bucket is in the file id as in Hudi's fixed bucket ids: ``<8 digits>-0000-0000-0000-000000000000-0``.
`commit_ts` is the name of the commit (`CommitInfo.instant`), or all zeros for keys that were loaded from the table.

Locations are put before the snapshot, as Hudi does, and valid only if the table has their commit; of a row whose
newest version is of a commit that came to nothing, the newest valid older version counts. A put over such a
version first puts the valid one back, so a valid version is never older than the second newest. A deleted key
is first put as a location without file (valid once the commit is there), and removed afterwards. So a process
may die anywhere without leaving a wrong location.

What HBase cannot know: rows that other programs write to the table. Load them with `HBaseKeyIndex.load`.

source   org.apache.hudi.index.hbase.SparkHoodieHBaseIndex, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.ids import bucket_of_file_id, new_file_id_prefix
from lakeidx.key_index.hbase.client import HBaseLocations, StoredLocation
from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.key_index.hbase.rows import rebalanced_row_key
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import CommitInfo, Int32s, Int64s, KeyBatch, KeyLocations, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import ExternalState, IndexContext, Locator
from lakeidx.key_index.registry import IndexType
from lakeidx.table.view import number_partitions

#: `commit_ts` of keys loaded from the table: older than every commit, always valid.
_LOADED = "00000000000000"
_CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class _Rows:
    """Distinct keys of a batch: first positions, and their HBase row keys."""

    first: Int32s
    positions: Int64s
    keys: list[bytes]


class HBaseKeyIndex(Locator, ExternalState):
    """Locations in HBase.

    moves_keys   option ``hoodie.hbase.index.update.partition.path``
    connect      opens the HBase table
    """

    is_global = True
    why_no_overwrite = (
        "a table with index type hbase cannot be overwritten: HBase would still return the locations of the old keys; "
        "create a new table with an empty HBase table"
    )

    def __init__(
        self,
        *,
        moves_keys: bool = False,
        connect: Callable[[HBaseOptions, int], HBaseLocations] | None = None,
    ) -> None:
        self.moves_keys = moves_keys
        self._connect = connect or (lambda options, connections: HBaseLocations(options, connections=connections))
        self._table: HBaseLocations | None = None

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch.

        errors   UnavailableError when HBase does not answer after all tries
        """
        if not len(batch):
            return no_locations(batch)
        rows = _distinct(batch, context)
        found = self._committed_versions(rows.keys, context)
        texts = {context.view.partition_text(p): p for p in batch.partitions}
        if any(location.partition not in texts for location in found.values()):
            for file in context.view.files(None):
                texts.setdefault(context.view.partition_text(file.partition), file.partition)
        partitions, numbers = number_partitions(batch.partitions, texts.values())
        bucket_of, partition_of = np.full(len(batch), -1, np.int32), np.full(len(batch), -1, np.int32)
        for position, key in zip(rows.positions.tolist(), rows.keys, strict=True):
            location = found.get(key)
            # A partition the table does not have any more took its keys along.
            if location is not None and location.partition in texts:
                bucket_of[position] = bucket_of_file_id(location.file_id)
                partition_of[position] = numbers[texts[location.partition]]
        bucket = bucket_of[rows.first]
        metrics = IndexMetrics(keys=len(batch), found=int((bucket >= 0).sum()))
        return KeyLocations(
            bucket=bucket,
            partition=np.where(bucket >= 0, partition_of[rows.first], batch.partition).astype(np.int32),
            partitions=partitions,
            file=np.full(len(batch), -1, np.int32),
            metrics=metrics,
        )

    def prepare_commit(self, commit: CommitInfo, context: IndexContext) -> None:
        """Write the locations of new, moved and deleted keys, under the commit's name.

        errors   UnavailableError, with some of them put, which are ignored
        """
        if commit.batch is None or not len(commit.batch):
            return
        rows, locations = self._changes(commit, context)
        table = self._open(context)

        def put(chunk: Sequence[int]) -> None:
            keys = [rows[i] for i in chunk]
            newest = table.get(keys)
            committed = self._read_committed(newest, table, context)
            # A try of this very commit has been here before: what it put is not put over the valid version again.
            wanted = [(rows[i], locations[i]) for i in chunk if not _same(newest.get(rows[i]), locations[i])]
            table.put([(k, committed[k]) for k, _ in wanted if k in committed and committed[k] != newest[k]])
            table.put(wanted)

        context.pool.map(put, _chunks(len(rows)))

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Record the commit permanently, and delete the rows of deleted keys, now that their delete is in the table."""
        context.view.confirm(commit.instant)
        if commit.batch is None or commit.deleted is None or not bool(commit.deleted.any()):
            return
        rows, locations = self._changes(commit, context)
        gone = [key for key, location in zip(rows, locations, strict=True) if not location.file_id]
        table = self._open(context)
        newest = table.get(gone)
        # A later commit may have put the key again.
        table.delete([k for k in gone if k in newest and newest[k].commit_ts == commit.instant])

    def rollback(self, commit: CommitInfo, context: IndexContext) -> None:
        """Restore the cell versions the commit overwrote: the next attempt commits under the same name."""
        if commit.batch is None:
            return
        rows, _ = self._changes(commit, context)
        table = self._open(context)

        def undo(chunk: Sequence[int]) -> None:
            newest = table.get([rows[i] for i in chunk])
            ours = {k: v for k, v in newest.items() if v.commit_ts == commit.instant}
            back: list[tuple[bytes, StoredLocation]] = []
            gone: list[bytes] = []
            for key, location in ours.items():
                older = _older_committed(key, location, table, context)
                if older is None:
                    gone.append(key)
                else:
                    back.append((key, older))
            table.put(back)
            table.delete(gone)

        context.pool.map(undo, _chunks(len(rows)))

    def load(self, batch: KeyBatch, bucket: Int32s, context: IndexContext) -> None:
        """Load the locations of a table's existing keys into HBase."""
        rows = _distinct(batch, context)
        texts = [context.view.partition_text(p) for p in batch.partitions]
        put = [
            (key, StoredLocation(_LOADED, file_id(int(bucket[i])), texts[batch.partition[i]], 0))
            for i, key in zip(rows.positions.tolist(), rows.keys, strict=True)
        ]
        table = self._open(context)
        context.pool.map(lambda chunk: table.put([put[i] for i in chunk]), _chunks(len(put)))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _open(self, context: IndexContext) -> HBaseLocations:
        if self._table is None:
            self._table = self._connect(HBaseOptions.of(context.options), context.pool.parallelism)
        return self._table

    def _committed_versions(self, keys: list[bytes], context: IndexContext) -> dict[bytes, StoredLocation]:
        """Return locations of live keys, from committed versions only."""
        table = self._open(context)

        def get(chunk: Sequence[int]) -> dict[bytes, StoredLocation]:
            return self._read_committed(table.get([keys[i] for i in chunk]), table, context)

        out: dict[bytes, StoredLocation] = {}
        for part in context.pool.map(get, _chunks(len(keys))):
            out.update((k, v) for k, v in part.items() if v.file_id)
        return out

    def _read_committed(
        self, newest: dict[bytes, StoredLocation], table: HBaseLocations, context: IndexContext
    ) -> dict[bytes, StoredLocation]:
        """Read each row's newest committed version, deletes (no file id) included."""
        instants = sorted({v.commit_ts for v in newest.values()})
        good = _committed(instants, context)
        out: dict[bytes, StoredLocation] = {}
        for key, location in newest.items():
            if location.commit_ts in good:
                out[key] = location
                continue
            older = _older_committed(key, location, table, context)
            if older is not None:
                out[key] = older
        return out

    def _changes(self, commit: CommitInfo, context: IndexContext) -> tuple[list[bytes], list[StoredLocation]]:
        """Return the rows that a commit changes, and their new locations: of each key what its last row did, where it differs."""
        batch = commit.batch
        if batch is None or commit.partition is None or commit.bucket is None:
            raise InvalidInputError("a commit without a batch changes no location")
        rows = _distinct(batch, context)
        last = np.empty(len(batch), np.int64)
        last[rows.first] = np.arange(len(batch))
        deleted = commit.deleted if commit.deleted is not None else np.zeros(len(batch), np.bool_)
        texts = [context.view.partition_text(p) for p in commit.partitions]
        was = commit.was
        keys: list[bytes] = []
        locations: list[StoredLocation] = []
        for position, key in zip(rows.positions.tolist(), rows.keys, strict=True):
            row = int(last[position])
            old = None
            if was is not None and was.bucket[row] >= 0:
                old = (was.partitions[was.partition[row]], int(was.bucket[row]))
            new = (commit.partitions[commit.partition[row]], int(commit.bucket[row]))
            if deleted[row] and context.deletes_hide:
                keys.append(key)
                locations.append(StoredLocation(commit.instant, "", "", 0))
            elif old != new:
                keys.append(key)
                text = texts[commit.partition[row]]
                locations.append(StoredLocation(commit.instant, file_id(new[1]), text, 0))
        return keys, locations


def file_id(bucket: int) -> str:
    """Format the file id of a bucket."""
    return new_file_id_prefix(bucket, fixed=True) + "-0"


def _same(a: StoredLocation | None, b: StoredLocation) -> bool:
    """Return whether two cells differ only in HBase's timestamp."""
    return a is not None and (a.commit_ts, a.file_id, a.partition) == (b.commit_ts, b.file_id, b.partition)


def _older_committed(
    key: bytes, location: StoredLocation, table: HBaseLocations, context: IndexContext
) -> StoredLocation | None:
    older = table.get_older(key, location.timestamp)
    while older is not None and older.commit_ts not in _committed([older.commit_ts], context):
        older = table.get_older(key, older.timestamp)
    return older


def _committed(instants: Sequence[str], context: IndexContext) -> set[str]:
    asked = [i for i in instants if i != _LOADED]
    good = {i for i, yes in zip(asked, context.view.is_committed(asked), strict=True) if yes}
    return good | {_LOADED}


def _distinct(batch: KeyBatch, context: IndexContext) -> _Rows:
    first = KeySet(batch.codes).first
    positions = np.flatnonzero(first == np.arange(len(batch)))
    texts = batch.record_keys
    keys = [texts[int(i)] for i in positions]
    if any(not k for k in keys):
        raise InvalidInputError("HBase has no empty row keys: a key whose text is empty cannot be indexed")
    options = HBaseOptions.of(context.options)
    if options.index_hbase_rebalanced:
        buckets = options.hoodie_index_hbase_bucket_number
        keys = [rebalanced_row_key(k.decode("utf-8"), buckets).encode("utf-8") for k in keys]
    return _Rows(first, positions, keys)


def _chunks(n: int) -> list[range]:
    return [range(start, min(n, start + _CHUNK)) for start in range(0, n, _CHUNK)]


def _make(options: IndexOptions) -> HBaseKeyIndex:
    return HBaseKeyIndex(moves_keys=HBaseOptions.of(options).hoodie_hbase_index_update_partition_path)


HBASE = IndexType(
    name="hbase",
    make=_make,
    options=HBaseOptions,
    limits="Contains only keys that were written through it, or loaded into HBase once: when another writer moves a key to "
    "a new partition, its old row stays.",
    requires="hoodie.index.hbase.table",
    placement=(
        "index.hbase.rebalanced",
        "hoodie.index.hbase.table",
        "hoodie.index.hbase.bucket.number",
        "hoodie.hbase.index.update.partition.path",
    ),
)
