"""Looking at a table: scans, point lookups, and lists of snapshots, files, buckets and index files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from lakeidx.api.arrow_input import Rows, as_table
from lakeidx.batch.keys import partition_codes
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import decode_row, split_arity
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.codec.values import internal_to_json
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.feature_gate import gate_report
from lakeidx.format.schema.schema_file import BucketMode, TableSchema, schema_to_json
from lakeidx.format.snapshot import Snapshot, snapshot_to_json
from lakeidx.predicate import Predicate
from lakeidx.results import Listing
from lakeidx.table.expiration.overtaken import load_newest, on_newest
from lakeidx.table.handle import TableHandle, bind_where
from lakeidx.table.key_buckets import buckets_by_function, find_buckets, hash_entries, key_hashes
from lakeidx.table.scan.changes import ChangeScan, scan_changes
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.layout import Layout
from lakeidx.table.scan.plan import PlanOptions, skips_level_0
from lakeidx.table.scan.states import State, StateName, check_range, find_state, state_of
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.follow import ChangeFollower, StreamStep, run_stream
from lakeidx.table.stream.start import Start
from lakeidx.table.times import Moment, epoch_ms, iso_utc
from lakeidx.table.view import HASH_INDEX, decode_partition_dict

if TYPE_CHECKING:
    from lakeidx.lookup.point.table_lookup import TableLookup


class LookingMixin(TableHandle):
    """The verbs of a table that read."""

    #: By whether they answer from what readers do not see yet.
    _lookups: dict[bool, TableLookup] | None = None

    @overload
    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        timestamp_ms: int | None = None,
        limit: int | None = None,
        layers: PlanOptions | None = None,
    ) -> TableScan: ...

    @overload
    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        incremental: tuple[StateName, StateName | None],
        mode: IncrementalMode | str = IncrementalMode.AUTO,
        kinds: bool = False,
    ) -> ChangeScan: ...

    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        timestamp_ms: int | None = None,
        limit: int | None = None,
        layers: PlanOptions | None = None,
        incremental: tuple[StateName, StateName | None] | None = None,
        mode: IncrementalMode | str = IncrementalMode.AUTO,
        kinds: bool = False,
    ) -> TableScan | ChangeScan:
        """Plan a scan of one state of the table, or of the rows between two; reading starts when its rows are requested.

        The result is an Arrow stream: DuckDB, Polars, pandas, PyArrow and others take it as it is.
        where        SQL text (``"carrier = 'UA' AND month >= 6"``) or a predicate
        columns      columns to give back, in order; None = all
        state        newest unless one of `snapshot`, `tag`, `timestamp` is given; time travel reads with the schema of that time
        timestamp    ISO text, datetime, or epoch milliseconds; without a zone UTC
        incremental  (after, upto): what the commits in between brought, see `changes`
        mode         with `incremental`; see `lakeidx.table.scan.changes`
        kinds        with `incremental`: rows have their kind in ``_rowkind`` and deletes are there, too; else only new and changed
                     rows
        """
        if incremental is None:
            if kinds or mode != IncrementalMode.AUTO:
                raise InvalidInputError("kinds and mode need incremental, the two states whose changes are read")
            if timestamp is not None:
                if timestamp_ms is not None:
                    raise InvalidInputError("give timestamp or timestamp_ms, not both")
                timestamp_ms = epoch_ms(timestamp)
            return super().scan(
                where=where,
                columns=columns,
                snapshot=snapshot,
                tag=tag,
                timestamp_ms=timestamp_ms,
                limit=limit,
                layers=layers,
            )
        if any(v is not None for v in (snapshot, tag, timestamp, timestamp_ms, layers)):
            raise InvalidInputError("incremental=(after, upto) cannot be combined with another state")
        first, last = incremental
        after = find_state(self.metadata, first)
        plan = partial(
            scan_changes,
            columns=columns,
            mode=IncrementalMode(mode),
            layout=Layout.KINDS if kinds else Layout.PLAIN,
            limit=limit,
        )
        if last is not None:
            return _changes_upto(find_state(self.metadata, last), after, where, plan)
        return on_newest(
            self.metadata, lambda newest: _changes_upto(state_of(self.metadata, newest), after, where, plan)
        )

    def changes(
        self,
        after: StateName,
        upto: StateName | None = None,
        *,
        mode: IncrementalMode | str = IncrementalMode.AUTO,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> ChangeScan:
        """Plan the changes of the snapshots in (after, upto], each row with its kind (+I -U +U -D) in column ``_rowkind``.

        after, upto   snapshot ids, tags or ISO times; 0 = from the beginning, None = up to the newest
        mode          see `lakeidx.table.scan.changes`; ``derived`` works for tables without a changelog producer, ``diff``
                      compares the two states and gives every key once
        where         tested on each row by its own values
        returns       an Arrow stream: ``to_arrow``, ``to_reader``, or any library that takes ``__arrow_c_stream__``
        errors        InvalidInputError, NotFoundError when a snapshot of the range has expired
        """
        return self.scan(incremental=(after, upto), mode=mode, kinds=True, where=where, columns=columns, limit=limit)

    def follow(
        self,
        start: int | str | Start = "latest-full",
        *,
        consumer: str | None = None,
        ignore_progress: bool = False,
        every: float | None = None,
        stop: Event | None = None,
        mode: IncrementalMode | str = IncrementalMode.AUTO,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Generator[StreamStep]:
        """Follow the table: yield what each snapshot brings, with row kinds, a step a snapshot.

        Asking for the next step says that the one before is done. While the stream runs, expiry (Java's, too) leaves what it
        has not read.

        start            latest-full (the whole newest state, then each commit), latest, compacted-full, earliest, a snapshot
                         id (with its commit), a tag (what came after it) or an ISO time
        consumer         id under which the table keeps what is done: the stream resumes there, whatever `start` says
        ignore_progress  begin at `start` although the consumer has progress
        every            seconds between two looks for new snapshots; None = end at the newest one
        stop             ends the stream before its next step
        mode             as for `changes`, without diff
        errors           NotFoundError when a snapshot it is to read has expired; InvalidInputError when one it has read was
                         rolled back or replaced
        """
        follower = ChangeFollower(
            self.metadata, None if columns is None else tuple(columns), where, IncrementalMode(mode)
        )
        file = StreamConsumer(self.metadata, consumer, keeps_state=follower.compares_states)
        begin = start if isinstance(start, Start) else Start.parse(self.metadata, str(start))
        return run_stream(follower, file, begin, ignore_progress=ignore_progress, every=every, stop=stop)

    def diff(
        self,
        before: StateName,
        after: StateName,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> ChangeScan:
        """Compare two states by key: every row that is new, changed (before and after) or deleted, once.

        before, after   snapshot ids, tags, ISO times, ``branch:NAME`` or ``branch:NAME@STATE``
        returns         rows with their kinds; ``.stat()`` counts them by kind, and changed values by column
        """
        return self.changes(before, after, mode=IncrementalMode.DIFF, where=where, columns=columns)

    def lookup(self, keys: Rows) -> pa.Table:
        """Look up the rows of some keys in the newest snapshot; loaded blocks are cached for the next call.

        keys      the primary key's columns
        returns   one row per key, in their order: column ``_FOUND`` (bool), then the table's columns, null when not found
        errors    InvalidInputError for a missing or wrong key column, a table without primary key, or one of another writer
                  with a column ``_FOUND``; CorruptFileError
        """
        return self._look_up(keys, unseen=False)

    def _look_up(self, keys: Rows, *, unseen: bool) -> pa.Table:
        """Look up rows; `unseen`: as they are with what readers see after a compaction."""
        # Stores of lookup files, and how they are built: scans need none of it.
        from lakeidx.lookup.point.table_lookup import TableLookup

        unseen = unseen and skips_level_0(self.schema)
        lookups = self._lookups = self._lookups or {}
        if unseen not in lookups:
            lookups[unseen] = TableLookup(self.metadata, unseen=unseen)
        answer = lookups[unseen].lookup(as_table(keys))
        if "_FOUND" in answer.rows.column_names:
            raise InvalidInputError("the table has a column '_FOUND', the name of the answer's first column: rename it")
        return answer.rows.add_column(0, "_FOUND", pa.array(answer.found))

    def describe(self) -> dict[str, Any]:
        """Describe schema, options, newest snapshot, and what the options request that lakeidx does not do; as JSON takes them."""
        snapshot = self.snapshot
        return {
            "table": self.uri,
            "bucketMode": self.schema.bucket_mode.name,
            "schema": schema_to_json(self.schema),
            "notFollowed": gate_report(self.schema).to_json(),
            "snapshot": None if snapshot is None else snapshot_to_json(snapshot),
        }

    def snapshots(self) -> Listing:
        """List the snapshots: id, kind, time (UTC), schema, user, rows (stored versions), delta, changelog."""
        return Listing(
            [
                {
                    "id": s.id,
                    "kind": str(s.commit_kind.value),
                    "time": iso_utc(s.time_millis),
                    "schema": s.schema_id,
                    "user": s.commit_user,
                    "rows": s.total_record_count,
                    "delta": s.delta_record_count,
                    "changelog": s.changelog_record_count,
                }
                for s in self.metadata.snapshots()
            ]
        )

    def files(self) -> Listing:
        """List the live data files of the newest snapshot."""
        schema = self.schema
        rows = []
        for e in load_newest(self.metadata).entries:
            f = e.file
            rows.append(
                {
                    **_partition(e.partition, schema),
                    "bucket": e.bucket,
                    "file": f.file_name,
                    "level": f.level,
                    "rows": f.row_count,
                    "deletes": f.delete_row_count,
                    "bytes": f.file_size,
                    "min_key": _key(f.min_key, schema),
                    "max_key": _key(f.max_key, schema),
                    "min_sequence": f.min_sequence_number,
                    "max_sequence": f.max_sequence_number,
                    "schema": f.schema_id,
                    "extra_files": list(f.extra_files),
                }
            )
        return Listing(rows)

    def buckets(self) -> Listing:
        """List the buckets of the newest snapshot: rows, bytes, files, sorted runs, hashes in the index."""
        view = load_newest(self.metadata)
        index = view.hash_index()
        rows = []
        for (partition, bucket), found in sorted(view.by_bucket().items()):
            entry = index.get(partition, {}).get(bucket)
            runs = sum(f.level == 0 for f in found) + len({f.level for f in found if f.level > 0})
            rows.append(
                {
                    **_partition(partition, self.schema),
                    "bucket": bucket,
                    "rows": sum(f.row_count for f in found),
                    "bytes": sum(f.file_size for f in found),
                    "files": len(found),
                    "sorted_runs": runs,
                    "index_hashes": None if entry is None else entry.row_count,
                }
            )
        return Listing(rows)

    def index_files(self) -> Listing:
        """List the index files of the newest snapshot."""
        rows: list[dict[str, Any]] = []
        for e in load_newest(self.metadata).index:
            row = {
                **_partition(e.partition, self.schema),
                "bucket": e.bucket,
                "type": e.index_type,
                "file": e.file_name,
                "bytes": e.file_size,
                "rows": e.row_count,
            }
            if e.index_type != HASH_INDEX and e.dv_ranges:
                row["data_files"] = len(e.dv_ranges)
            rows.append(row)
        return Listing(rows)

    def keys(self, rows: Rows) -> pa.Table:
        """Compute per row partitionHash, keyHash, keyBytes (hex), and the bucket its key is in (null when it is in none).

        rows   at least the partition and key columns, in the table's types
        """
        table = as_table(rows)
        schema = self.schema
        columns = [table.column(n) for n in schema.trimmed_primary_keys]
        partitions, codes = partition_codes(table, schema.partition_keys, schema.partition_types)
        partition_hashes = np.array([hash_words(split_arity(p)[1]) for p in partitions] or [0], dtype=np.int32)
        hashes = key_hashes(schema, table)
        encoded = encode_rows(columns, list(schema.key_types))
        return pa.table(
            {
                "partitionHash": partition_hashes[codes] if len(codes) else np.zeros(0, np.int32),
                "keyHash": hashes,
                "keyBytes": [encoded[i].hex() for i in range(len(encoded))],
                "bucket": pa.array(_buckets_of(self, schema, table, partitions, codes, hashes), pa.int32()),
            }
        )


def _changes_upto(
    upto: State, after: State, where: str | Predicate | None, plan: Callable[..., ChangeScan]
) -> ChangeScan:
    check_range(upto.metadata, after.number, upto.number)
    schema = upto.metadata.latest_schema()  # that of the branch the later state is in
    return plan(schema, after, upto, predicate=bind_where(where, schema))


def _buckets_of(
    opened: TableHandle, schema: TableSchema, rows: pa.Table, partitions: tuple[bytes, ...], codes: Any, hashes: Any
) -> list[int | None]:
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        return list(buckets_by_function(schema, rows, schema.bucket).tolist())
    found = np.full(rows.num_rows, -1, np.int32)

    def look(snapshot: Snapshot | None) -> None:
        index = hash_entries(opened.metadata, snapshot, partitions)
        for code, partition in enumerate(partitions):
            mine = np.flatnonzero(codes == code)
            entries = list(index[partition].values())
            found[mine] = find_buckets(opened.metadata, schema, entries, hashes[mine]).of(hashes[mine])

    on_newest(opened.metadata, look)
    return [None if b < 0 else b for b in found.tolist()]


def _partition(partition: bytes, schema: TableSchema) -> dict[str, Any]:
    values = decode_partition_dict(partition, schema)
    return {k: internal_to_json(v, schema.field(k).type) for k, v in values.items()}


def _key(key: bytes, schema: TableSchema) -> Any:
    values = decode_row(split_arity(key)[1], schema.key_types)
    return [internal_to_json(v, t) for v, t in zip(values, schema.key_types, strict=True)]
