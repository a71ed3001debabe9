"""Point lookup: the rows of given keys, from lookup files where there are any and from data files where not.

key -> partition -> hash index or bucket function -> bucket -> files, newest sequence numbers first. With the deduplicate engine a
file is asked only for keys of which nothing newer is known; other engines get every version of a key and merge them, as scans do.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.positions import sorted_positions
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, check_use
from lakeidx.format.snapshot import Snapshot
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.listing import StoredLookup, read_listing
from lakeidx.lookup.open_readers import OPEN_READERS, LookupReaders
from lakeidx.lookup.packed import contiguous
from lakeidx.lookup.point.answers import (
    DataFileLookup,
    LookupResult,
    Versions,
    complete_keys,
    first_found,
    in_key_order,
    kv_rows,
    lookup_keys,
    newest_wins,
)
from lakeidx.lookup.point.routes import PartitionFiles, Route, find_routes, in_order, partition_files, split_partitions
from lakeidx.lookup.store import LookupStoreReader
from lakeidx.lookup.stored_files import lookup_file_beside
from lakeidx.lookup.value_rows import Processor, ValueRows, decode_positions, decode_value_rows
from lakeidx.options.features import Use
from lakeidx.table.deletion_vectors import read_deletion_vector
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import until_newest
from lakeidx.table.scan.states import Fallback, find_fallback
from lakeidx.table.view import data_file_path, decode_partition_dict, load_view
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.limits import available_cores
from lakeidx.types import to_arrow


@dataclass
class LookupMetrics:
    """Counters of what lookups have cost so far.

    keys, found    asked and answered
    not_indexed    keys that ended at the hash index
    lookup_files   asked
    data_files     read: they have no lookup file, or one without rows
    """

    keys: int = 0
    found: int = 0
    not_indexed: int = 0
    lookup_files: int = 0
    data_files: int = 0


def _gives_rows(stored: StoredLookup, deleted: npt.NDArray[np.int64] | None) -> bool:
    """Return False when a file's values have no rows, or it is unknown which of them a deletion vector has deleted."""
    return stored.processor.has_rows and (deleted is None or stored.processor is Processor.POSITION_AND_VALUE)


@dataclass
class Hits:
    """Rows from lookup files, not decoded yet: of one schema and one kind of value."""

    asked: list[npt.NDArray[np.int64]] = field(default_factory=list)
    rows: list[RowBytes] = field(default_factory=list)
    sequences: list[npt.NDArray[np.int64]] = field(default_factory=list)
    kinds: list[npt.NDArray[np.int8]] = field(default_factory=list)

    def add(self, other: Hits) -> None:
        """Add another bucket's rows to these."""
        self.asked += other.asked
        self.rows += other.rows
        self.sequences += other.sequences
        self.kinds += other.kinds


@dataclass
class Answers:
    """Results of one bucket.

    hits                       by schema and kind of value
    found                      rows of data files
    lookup_files, data_files   files that were asked, and read
    """

    hits: dict[tuple[int, Processor], Hits] = field(default_factory=dict)
    found: list[Versions] = field(default_factory=list)
    lookup_files: int = 0
    data_files: int = 0


def _joined_hits(answers: Iterable[Answers]) -> dict[tuple[int, Processor], Hits]:
    """Put the rows of lookup files together, for one decoding of each schema and kind."""
    joined: dict[tuple[int, Processor], Hits] = {}
    for answer in answers:
        for key, hits in answer.hits.items():
            joined.setdefault(key, Hits()).add(hits)
    return joined


T = TypeVar("T")

_log = logging.getLogger(__name__)
#: Before the sequence number of every row.
_NOTHING = np.int64(-(2**63))
_COMPLETE = np.int64(2**63 - 1)


@dataclass
class _State:
    """State of a snapshot as far as it was read.

    schema   the newest there was; rows are given in it
    listed   lookup files as the listings of buckets say, by name of the data file; some read for an earlier snapshot
    read     buckets whose listing was read for this one
    """

    snapshot: Snapshot | None
    schema: TableSchema
    listed: dict[tuple[bytes, int], dict[str, StoredLookup]] = field(default_factory=dict)
    read: set[tuple[bytes, int]] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    partitions: dict[bytes, PartitionFiles] = field(default_factory=dict)
    whole: bool = False


class TableLookup:
    """Looks keys up in the newest snapshot; loaded state is kept for the next call. Several threads may call `lookup`.

    files       local copies of lookup files; None: a directory of this user, bounded by ``lookup.cache-max-disk-size``
    blocks      decompressed blocks; None: bounded by ``lookup.cache-max-memory-size``
    use_files   False answers from data files only (tests compare)
    pinned      True answers from the snapshot of the first lookup, whatever is committed since
    unseen      True answers from all that is committed, also from what readers see after a compaction: for what writes
    falls_back  True answers as a scan does for a table with option `scan.fallback-branch`: keys of partitions that it lacks from
                that branch; Java's own lookups ask the table alone
    errors      InvalidInputError for a table without primary key
    """

    def __init__(
        self,
        metadata: TableMetadata,
        *,
        files: LookupFileCache | None = None,
        blocks: BlockCache | None = None,
        use_files: bool = True,
        pinned: bool = False,
        unseen: bool = False,
        falls_back: bool = False,
    ) -> None:
        schema = metadata.latest_schema()
        if not schema.primary_keys:
            raise InvalidInputError("point lookups need a primary key", path=metadata.paths.root)
        self.metrics = LookupMetrics()
        self._metadata = metadata
        self._readers = LookupReaders(metadata, files=files, blocks=blocks)
        self._places = self._readers.places
        self._use_files = use_files
        self._pinned = pinned
        self._unseen = unseen
        self._falls_back = falls_back
        self._others: dict[str, TableLookup] = {}
        self._vectors: dict[tuple[str, int], npt.NDArray[np.int64]] = {}
        self._state: _State | None = None
        self._lock = threading.RLock()

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that the last lookup was answered from."""
        return self._state.snapshot.id if self._state is not None and self._state.snapshot is not None else None

    def lookup(self, keys: pa.Table) -> LookupResult:
        """Look up the rows of n keys.

        keys     the primary key's columns, by name; what casts to their types without loss will do. A null matches nothing
        errors   InvalidInputError for a missing or wrong column; CorruptFileError for damage in what had to be read
        """
        answer = self._asked_newest(self._lookup, keys)
        if not self._falls_back or answer.found.all() or self._state is None:
            return answer
        other = find_fallback(self._metadata, self._state.schema, self._state.snapshot)
        return answer if other is None else first_found([answer, self._of_missing_partitions(keys, other, answer)])

    def _of_missing_partitions(self, keys: pa.Table, other: Fallback, answer: LookupResult) -> LookupResult:
        """Look keys up in another branch; what it has of partitions that this one has, too, does not count."""
        assert self._state is not None
        branch = other.metadata.paths.branch
        if branch not in self._others:
            self._others[branch] = TableLookup(other.metadata)
        found = self._others[branch].lookup(keys)
        rows = pa.Table.from_arrays(found.rows.columns, schema=answer.rows.schema)
        there = np.zeros(len(found.found), np.bool_)
        for partition, at in split_partitions(rows, self._state.schema):
            files = self._state.partitions.get(partition)
            there[at] = files is None or not files.buckets
        return LookupResult(found.found & there, rows)

    def _lookup(self, keys: pa.Table) -> LookupResult:
        state = self._fresh_state()
        schema = state.schema
        asked, complete, few = complete_keys(keys, schema)
        rows_of = split_partitions(few, schema) if schema.bucket_mode is not BucketMode.KEY_DYNAMIC else []
        with self._lock:
            self._load_partitions(state, [p for p, _ in rows_of])
            routes = list(find_routes(self._metadata, schema, few, rows_of, state.partitions))
            self._read_listings(state, routes)
            # Sequence numbers are those of a bucket: where a key may be in several, each answers for itself.
            apart = schema.bucket_mode is BucketMode.KEY_DYNAMIC
            results = []
            answers = self._look_up_all(state, routes, few) if routes else []
            for group in [[a] for a in answers] if apart and routes else [answers]:
                found = [v for a in group for v in a.found]
                found += [self._decoded(schema, schema_id, h) for (schema_id, _), h in _joined_hits(group).items()]
                if found or not apart:
                    results.append(in_key_order(found, schema, asked.num_rows, complete))
            self.metrics.keys += keys.num_rows
            self.metrics.not_indexed += max(0, few.num_rows - sum(len(r.rows) for r in routes))
            result = first_found(results or [in_key_order([], schema, asked.num_rows, complete)])
            self.metrics.found += int(result.found.sum())
        return result

    def shards(self, keys: pa.Table) -> npt.NDArray[np.int32]:
        """Return int32[n]: a number per key, equal for keys of one bucket; -1 for keys that are surely not there.

        For spreading keys over tasks so that each needs few buckets; `lookup` does not depend on it.
        """
        return self._asked_newest(self._shards, keys)

    def _shards(self, keys: pa.Table) -> npt.NDArray[np.int32]:
        state = self._fresh_state()
        _, complete, few = complete_keys(keys, state.schema)
        rows_of = split_partitions(few, state.schema) if state.schema.bucket_mode is not BucketMode.KEY_DYNAMIC else []
        out = np.full(few.num_rows, -1, np.int32)
        with self._lock:
            self._load_partitions(state, [p for p, _ in rows_of])
            for route in find_routes(self._metadata, state.schema, few, rows_of, state.partitions):
                out[route.rows] = (zlib.crc32(route.partition) + 31 * route.bucket) & 0x7FFFFFFF
        if complete is None:
            return out
        whole = np.full(keys.num_rows, -1, np.int32)
        whole[complete] = out
        return whole

    def _asked_newest(self, ask: Callable[[pa.Table], T], keys: pa.Table) -> T:
        """Ask, and again when the snapshot has expired meanwhile; one that is pinned is not exchanged for another."""
        if self._pinned:
            return ask(keys)
        return until_newest(self._metadata, lambda: ask(keys), lambda: self._state.snapshot if self._state else None)

    # -- state -------------------------------------------------------------------------------------------------

    def _fresh_state(self) -> _State:
        """Load the newest snapshot's state; reuse what was loaded for the one before where it is still valid.

        cost   a listing of the schemas beside what `TableMetadata.latest_snapshot` costs
        """
        with self._lock:
            old = self._state
            if old is not None and self._pinned:
                return old
            snapshot, schema = self._metadata.latest_snapshot(), self._metadata.latest_schema()
            # A schema may change without a snapshot. The metadata keeps the object while its file is the same.
            if old is not None and old.schema is schema and old.snapshot == snapshot:
                return old
            check_use(schema, Use.READ, self._metadata.paths.root)
            # What is listed for a data file stays right: only of files that are not listed the listing is read again.
            state = _State(snapshot, schema, {} if old is None else old.listed)
            if old is not None and old.partitions:
                view = load_view(self._metadata, snapshot, partitions=None if old.whole else list(old.partitions))
                state.partitions = partition_files(view, list(old.partitions), old.partitions, unseen=self._unseen)
                state.whole = old.whole
            self._state = state
            return state

    def _load_partitions(self, state: _State, wanted: Sequence[bytes]) -> None:
        if state.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
            if not state.whole:
                state.partitions = partition_files(
                    load_view(self._metadata, state.snapshot), (), {}, unseen=self._unseen
                )
                state.whole = True
            return
        missing = [p for p in wanted if p not in state.partitions]
        if missing:
            view = load_view(self._metadata, state.snapshot, partitions=missing)
            state.partitions |= partition_files(view, missing, {}, unseen=self._unseen)

    def _read_listings(self, state: _State, routes: Sequence[Route]) -> None:
        """Read the listings of buckets with files of which no lookup file is known, once for a snapshot."""
        if not self._use_files:
            return
        wanted = []
        for route in routes:
            place = (route.partition, route.bucket)
            listed = state.listed.get(place, {})
            if place not in state.read and any(e.file.file_name not in listed for e in route.files):
                wanted.append(place)
        state.read.update(wanted)

        def read(place: tuple[bytes, int]) -> dict[str, StoredLookup]:
            partition = decode_partition_dict(place[0], state.schema)
            return read_listing(self._metadata.store, self._places.listing(partition, place[1]))

        state.listed.update(zip(wanted, in_parallel(read, wanted), strict=True))

    # -- one bucket --------------------------------------------------------------------------------------------

    def _look_up_all(self, state: _State, routes: Sequence[Route], keys: pa.Table) -> list[Answers]:
        """Look up keys in every bucket, as many buckets at a time as there are cores."""
        encoded = lookup_keys(keys, state.schema)

        def ask(route: Route) -> Answers:
            answers = Answers()
            self._in_bucket(state, route, keys, encoded, answers)
            return answers

        found = in_parallel(ask, routes, threads=available_cores())
        self.metrics.lookup_files += sum(a.lookup_files for a in found)
        self.metrics.data_files += sum(a.data_files for a in found)
        return found

    def _in_bucket(self, state: _State, route: Route, keys: pa.Table, encoded: RowBytes, answers: Answers) -> None:
        """Look up keys in the files of one bucket, those with the largest sequence numbers first."""
        newest_only = newest_wins(state.schema)
        newest = np.full(len(route.rows), _NOTHING, np.int64)
        vectors = state.partitions[route.partition].vectors
        by_level = state.schema.table_options.merges_by_level
        for entry in in_order(route, state.schema):
            # Of equal numbers the engine decides, so both versions are wanted.
            open_rows = np.flatnonzero(newest <= entry.file.max_sequence_number)
            if not len(open_rows):
                return
            rows = route.rows[open_rows]
            deleted = self._deleted(state, route, entry) if entry.file.file_name in vectors else None
            reader = self._reader(state, entry)
            answers.lookup_files += reader is not None
            stored = self._stored(state, entry)
            if reader is not None and stored is not None and _gives_rows(stored, deleted):
                mine = answers.hits.setdefault((stored.schema_id, stored.processor), Hits())
                at, sequences = self._from_lookup_file(reader, stored, encoded, rows, deleted, mine)
            else:
                version, was_read = self._from_data_file(state, route, entry, keys, encoded, rows, deleted, reader)
                answers.data_files += was_read
                if version is None:
                    continue
                answers.found.append(version)
                at, sequences = version.asked, version.kv.column(SEQUENCE_NUMBER).to_numpy()
            if (newest_only or (by_level and entry.file.level > 0)) and len(at):
                # `at` keeps the order of `rows` but for files read in several batches.
                order = np.argsort(rows, kind="stable")
                places = open_rows[order[np.searchsorted(rows, at, sorter=order)]]
                # Where levels count, a record above level 0 holds everything that is below it.
                newest[places] = _COMPLETE if by_level else np.maximum(newest[places], sequences)

    def _from_lookup_file(
        self,
        reader: LookupStoreReader,
        stored: StoredLookup,
        encoded: RowBytes,
        rows: npt.NDArray[np.int64],
        deleted: npt.NDArray[np.int64] | None,
        hits: Hits,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        answer = reader.lookup_many(encoded.take(rows))
        where = np.flatnonzero(answer.found)
        if not len(where):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        values = decode_value_rows(answer.values.take(where), stored.processor, stored.path)
        at, sequences, kinds, compacted = rows[where], values.sequences, values.kinds, values.rows
        if deleted is not None and values.positions is not None:
            keep = np.flatnonzero(~np.isin(values.positions, deleted))
            at, sequences, kinds, compacted = at[keep], sequences[keep], kinds[keep], compacted.take(keep)
        hits.asked.append(at)
        hits.rows.append(contiguous(compacted))
        hits.sequences.append(sequences)
        hits.kinds.append(kinds)
        return at, sequences

    def _from_data_file(
        self,
        state: _State,
        route: Route,
        entry: ManifestEntry,
        keys: pa.Table,
        encoded: RowBytes,
        rows: npt.NDArray[np.int64],
        deleted: npt.NDArray[np.int64] | None,
        reader: LookupStoreReader | None,
    ) -> tuple[Versions | None, bool]:
        """Read rows from the data file: them, and whether it was needed. A lookup file without values narrows the keys."""
        data_file = DataFileLookup(self._metadata, state.schema, route.partition, entry, deleted)
        if reader is None:
            return data_file.rows_of(keys, encoded, rows), data_file.was_read
        stored, asked = state.listed[entry.partition, entry.bucket][entry.file.file_name], encoded.take(rows)
        if stored.processor is Processor.POSITION:
            answer = reader.lookup_many(asked)
            there = np.flatnonzero(answer.found)
            values = answer.values.take(there)
            positions = decode_positions(values, entry.file.row_count, self._places.full(stored.path))
            version = data_file.rows_at(positions, encoded, rows[there])
        else:
            there = np.flatnonzero(reader.lookup_many(asked).found)
            if not len(there):
                return None, False
            version = data_file.rows_of(keys, encoded, rows[there])
        return version, data_file.was_read

    # -- files -------------------------------------------------------------------------------------------------

    def _reader(self, state: _State, entry: ManifestEntry) -> LookupStoreReader | None:
        """Open the lookup file of a data file; None where there is none that can be used."""
        stored = self._stored(state, entry)
        if stored is None:
            return None
        try:
            return self._readers.open(stored)
        except NotFoundError as error:
            _log.warning("reading keys of %s from its data file: %s", entry.file.file_name, error)
            del state.listed[entry.partition, entry.bucket][entry.file.file_name]
            state.missing.add(entry.file.file_name)
            return None

    def _stored(self, state: _State, entry: ManifestEntry) -> StoredLookup | None:
        """Return the lookup file of a data file: as listed, or one of Java's."""
        file = entry.file
        listed = state.listed.setdefault((entry.partition, entry.bucket), {})
        found = listed.get(file.file_name)
        if found is None and file.extra_files and self._use_files and file.file_name not in state.missing:
            found = lookup_file_beside(file, data_file_path(self._metadata, entry), state.schema.id)
            if found is not None:
                listed[file.file_name] = found
        return found

    def _deleted(self, state: _State, route: Route, entry: ManifestEntry) -> npt.NDArray[np.int64]:
        """Return int64[k]: deleted positions of a data file, ascending."""
        place = state.partitions[route.partition].vectors[entry.file.file_name]
        key = (place.file_name, place.range.offset)
        found = self._vectors.get(key)
        if found is None:
            found = sorted_positions(
                read_deletion_vector(self._metadata, state.schema, route.partition, route.bucket, place)
            )
            if len(self._vectors) >= OPEN_READERS:
                self._vectors.clear()
            self._vectors[key] = found
        return found

    def _decoded(self, schema: TableSchema, schema_id: int, hits: Hits) -> Versions:
        """Decode rows of lookup files in the newest schema."""
        then = self._metadata.load_schema(schema_id)
        if not hits.asked:
            empty = pa.table({SEQUENCE_NUMBER: pa.array([], pa.int64()), VALUE_KIND: pa.array([], pa.int8())})
            for f in schema.fields:
                empty = empty.append_column(f.name, pa.array([], to_arrow(f.type)))
            return Versions(np.zeros(0, np.int64), empty)
        values = ValueRows(RowBytes.concat(hits.rows), np.concatenate(hits.sequences), np.concatenate(hits.kinds), None)
        return Versions(np.concatenate(hits.asked), kv_rows(values, then, schema))
