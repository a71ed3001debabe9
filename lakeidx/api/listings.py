"""Lists of what a table has: snapshots, data files, buckets, index files; hashes and buckets of keys."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.api.arrow_input import Rows, as_table
from lakeidx.batch.assignment.row_keys import partition_codes
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.java_text import timestamp_text
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.format.partition_names import partition_value_text
from lakeidx.format.schema.feature_gate import gate_report
from lakeidx.format.schema.schema_file import BucketMode, TableSchema, schema_to_json
from lakeidx.format.snapshot import Snapshot, snapshot_to_json
from lakeidx.results import Listing
from lakeidx.table.handle import TableHandle
from lakeidx.table.key_buckets import buckets_by_function, find_buckets, hash_entries, key_hashes
from lakeidx.table.newest import load_newest, on_newest
from lakeidx.table.times import iso_utc
from lakeidx.table.view import HASH_INDEX, data_file_path, decode_partition_dict
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, DataType, Root


def as_html(table: TableHandle) -> str:
    """Render the columns and the newest snapshot for notebooks."""
    schema, snapshot = table.schema, table.snapshot
    rows = "".join(
        f"<tr><td>{html.escape(f.name)}</td><td>{html.escape(str(f.type))}</td>"
        f"<td>{'key' if f.name in schema.primary_keys else ''}</td><td>{html.escape(f.description or '')}</td></tr>"
        for f in schema.fields
    )
    state = "empty" if snapshot is None else f"snapshot {snapshot.id}"
    return f"<table><caption>{html.escape(table.uri)}: {state}</caption>{rows}</table>"


def describe_table(table: TableHandle) -> dict[str, Any]:
    """Describe schema, options, newest snapshot, and what the options request that lakeidx does not do; as JSON takes them."""
    snapshot = table.snapshot
    return {
        "table": table.uri,
        "bucketMode": table.schema.bucket_mode.name,
        "schema": schema_to_json(table.schema),
        "notFollowed": gate_report(table.schema).to_json(),
        "snapshot": None if snapshot is None else snapshot_to_json(snapshot),
    }


def list_snapshots(table: TableHandle) -> Listing:
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
            for s in table.metadata.snapshots()
        ]
    )


def list_files(table: TableHandle) -> Listing:
    """List the live data files of the newest snapshot."""
    schema = table.schema
    rows = []
    for e in load_newest(table.metadata).entries:
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
                "path": data_file_path(table.metadata, e),
            }
        )
    return Listing(rows)


def list_buckets(table: TableHandle) -> Listing:
    """List the buckets of the newest snapshot: rows, bytes, files, sorted runs, hashes in the index."""
    view = load_newest(table.metadata)
    index = view.hash_index()
    rows = []
    for (partition, bucket), found in sorted(view.by_bucket().items()):
        entry = index.get(partition, {}).get(bucket)
        runs = sum(f.level == 0 for f in found) + len({f.level for f in found if f.level > 0})
        rows.append(
            {
                **_partition(partition, table.schema),
                "bucket": bucket,
                "rows": sum(f.row_count for f in found),
                "bytes": sum(f.file_size for f in found),
                "files": len(found),
                "sorted_runs": runs,
                "index_hashes": None if entry is None else entry.row_count,
            }
        )
    return Listing(rows)


def list_index_files(table: TableHandle) -> Listing:
    """List the index files of the newest snapshot."""
    rows: list[dict[str, Any]] = []
    for e in load_newest(table.metadata).index:
        row = {
            **_partition(e.partition, table.schema),
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


def locate_rows(table: TableHandle, rows: Rows) -> pa.Table:
    """Compute per row partitionHash, keyHash, keyBytes (hex), and the bucket its key is in (null when it is in none).

    rows   at least the partition and key columns, in the table's types
    """
    given = as_table(rows)
    schema = table.schema
    columns = [given.column(n) for n in schema.trimmed_primary_keys]
    partitions, codes = partition_codes(given, schema.partition_keys, schema.partition_types)
    partition_hashes = np.array([hash_words(split_arity(p)[1]) for p in partitions] or [0], dtype=np.int32)
    hashes = key_hashes(schema, given)
    encoded = encode_rows(columns, list(schema.key_types))
    found = buckets_of(table, given)
    return pa.table(
        {
            "partitionHash": partition_hashes[codes] if len(codes) else np.zeros(0, np.int32),
            "keyHash": hashes,
            "keyBytes": [encoded[i].hex() for i in range(len(encoded))],
            "bucket": pa.array(found, mask=found < 0),
        }
    )


def buckets_of(table: TableHandle, rows: pa.Table) -> NDArray[np.int32]:
    """Find the bucket of each row's key, int32[n]: by the bucket function, or the HASH index, -1 where that does not have it.

    rows   at least the partition and key columns, in the table's types
    """
    schema = table.schema
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        return buckets_by_function(schema, rows, schema.bucket)
    partitions, codes = partition_codes(rows, schema.partition_keys, schema.partition_types)
    hashes, found = key_hashes(schema, rows), np.full(rows.num_rows, -1, np.int32)

    def look(snapshot: Snapshot | None) -> None:
        index = hash_entries(table.metadata, snapshot, partitions)
        for code, partition in enumerate(partitions):
            mine = np.flatnonzero(codes == code)
            entries = list(index[partition].values())
            found[mine] = find_buckets(table.metadata, schema, entries, hashes[mine]).of(hashes[mine])

    on_newest(table.metadata, look)
    return found


def _partition(partition: bytes, schema: TableSchema) -> dict[str, Any]:
    values = decode_partition_dict(partition, schema)
    return {k: readable(v, schema.field(k).type) for k, v in values.items()}


def _key(key: bytes, schema: TableSchema) -> Any:
    values = decode_row(split_arity(key)[1], schema.key_types)
    return [readable(v, t) for v, t in zip(values, schema.key_types, strict=True)]


def as_line(table: TableHandle) -> str:
    """Describe a table in a line; what cannot be read is the error, since debuggers and notebooks show anything."""
    try:
        schema, snapshot = table.schema, table.snapshot
    except Exception as error:
        return f"Table({table.uri!r}: {error})"
    columns = ", ".join(f"{f.name} {f.type}" for f in schema.fields)
    keys = f", primary key ({', '.join(schema.primary_keys)})" if schema.primary_keys else ""
    state = "empty" if snapshot is None else f"snapshot {snapshot.id}"
    return f"Table({table.uri!r}, {columns}{keys}, {state})"


def readable(value: Any, t: DataType) -> Any:
    """Return an internal value as JSON for people: numbers and truth values as they are, bytes in hex, others as text.

    A FLOAT is the shortest number that is the same FLOAT, an instant is UTC's.
    """
    if value is None or t.root is Root.BOOLEAN or t.root in INT_ROOTS:
        return value
    if t.root in (Root.FLOAT, Root.DOUBLE) and math.isfinite(value):
        return float(str(np.float32(value))) if t.root is Root.FLOAT else value
    if t.root in BYTES_ROOTS:
        return bytes(value).hex()
    if t.is_nested or t.root is Root.VARIANT:
        return repr(value)
    if t.root is Root.TIMESTAMP_LTZ:
        return f"{timestamp_text(value, t.precision)}Z"
    return partition_value_text(value, t, legacy=False)
