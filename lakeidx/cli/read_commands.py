"""``lakeidx scan|keys|snapshots|files|buckets|index|inspect``: looking at a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from lakeidx.cli.context import TableArgument, one_clear_line, open_table
from lakeidx.cli.output import ListFormat, RowFormat, json_lines, print_json, print_list, write_rows
from lakeidx.codec.binary_row import decode_row, split_arity
from lakeidx.codec.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.murmur import hash_words
from lakeidx.codec.values import internal_to_json
from lakeidx.errors import InvalidInputError
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.inspect import inspect_file
from lakeidx.format.schema import BucketMode, TableSchema
from lakeidx.pipeline.ingest import cast_piece
from lakeidx.pipeline.keys import partition_codes
from lakeidx.pipeline.landing import LandingOptions, read_landing
from lakeidx.storage import open_store
from lakeidx.table.handle import TableHandle
from lakeidx.table.scan_explain import ScanExplanation
from lakeidx.table.view import HASH_INDEX, decode_partition_dict, load_view

FormatOption = Annotated[ListFormat, typer.Option("--format", help="how to print")]


@one_clear_line
def scan(
    table: TableArgument,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="read this snapshot")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="read this tag")] = None,
    timestamp: Annotated[int | None, typer.Option("--timestamp", help="read the state at this time (epoch ms)")] = None,
    where: Annotated[
        str | None, typer.Option("--where", help="SQL condition, e.g. \"month = 6 AND carrier = 'UA'\"")
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="comma list")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="at most so many rows")] = None,
    row_format: Annotated[
        RowFormat | None, typer.Option("--format", help="how to print; default jsonl, a table with --explain")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="read, and say what each layer spared and cost")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write to a file instead of stdout")] = None,
) -> None:
    """Read rows: merged, deletes applied, at any state of the table."""
    opened = open_table(table)
    names = None if columns is None else [c.strip() for c in columns.split(",") if c.strip()]
    found = opened.scan(where=where, columns=names, snapshot=snapshot, tag=tag, timestamp_ms=timestamp, limit=limit)
    if explain:
        show_explanation(found.explain(), ListFormat.JSONL if row_format is RowFormat.JSONL else ListFormat.TABLE)
    else:
        write_rows(found.batches(), found.arrow_schema, row_format or RowFormat.JSONL, output)


def show_explanation(explained: ScanExplanation, list_format: ListFormat) -> None:
    """One line per layer on stdout, the sum on stderr."""
    print_list(explained.rows_as_dicts(), list_format)
    typer.echo(
        f"snapshot {explained.snapshot_id}, where {explained.predicate}: {explained.rows} rows in"
        f" {explained.seconds:.3f} s",
        err=True,
    )


@one_clear_line
def keys(
    table: TableArgument,
    rows: Annotated[str, typer.Option("--rows", help="JSON lines with at least partition and key columns")],
) -> None:
    """Per row: partitionHash, keyHash, keyBytes (hex) and the bucket its key is in (null when it is in none)."""
    opened = open_table(table)
    schema = opened.schema
    wanted = {*schema.partition_keys, *schema.trimmed_primary_keys}
    fields = [f for f in schema.fields if f.name in wanted]
    store = open_store(rows)
    tables = []
    for piece in read_landing(store, rows, fields, LandingOptions("jsonl", ignore_extra=True)):
        kept, rejected = cast_piece(piece, fields, rows)
        if rejected.num_rows:
            first = rejected.slice(0, 1).to_pylist()[0]
            raise InvalidInputError(f"line {first['line']}: {first['reason']}", path=rows)
        tables.append(kept)
    if tables:
        for line in json_lines(key_table(opened, pa.concat_tables(tables))):
            typer.echo(line)


def key_table(opened: TableHandle, rows: pa.Table) -> pa.Table:
    """Hashes, bytes and buckets of rows' keys."""
    schema = opened.schema
    names, types = schema.trimmed_primary_keys, list(schema.key_types)
    columns = [rows.column(n) for n in names]
    partitions, codes = partition_codes(rows, schema.partition_keys, schema.partition_types)
    partition_hashes = np.array([hash_words(split_arity(p)[1]) for p in partitions] or [0], dtype=np.int32)
    hashes = hash_columns(columns, types)
    encoded = encode_rows(columns, types)
    return pa.table(
        {
            "partitionHash": partition_hashes[codes] if len(codes) else np.zeros(0, np.int32),
            "keyHash": hashes,
            "keyBytes": [encoded[i].hex() for i in range(len(encoded))],
            "bucket": pa.array(_buckets(opened, schema, rows, partitions, codes, hashes), pa.int32()),
        }
    )


def _buckets(
    opened: TableHandle, schema: TableSchema, rows: pa.Table, partitions: tuple[bytes, ...], codes: Any, hashes: Any
) -> list[int | None]:
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        types = [schema.field(n).type for n in schema.bucket_keys]
        function = schema.table_options.bucket_function_type
        found = fixed_buckets([rows.column(n) for n in schema.bucket_keys], types, schema.bucket, function)
        return list(found.tolist())
    out: list[int | None] = [None] * rows.num_rows
    index = load_view(opened.metadata, opened.snapshot, partitions=partitions).hash_index()
    for code, partition in enumerate(partitions):
        values = decode_partition_dict(partition, schema)
        mine = np.flatnonzero(codes == code)
        for bucket, entry in index.get(partition, {}).items():
            path = opened.paths.index_file(values, bucket, entry.file_name, external_path=entry.external_path)
            for i in mine[np.isin(hashes[mine], decode_hash_index(opened.store.get(path), path))]:
                out[i] = bucket
    return out


@one_clear_line
def snapshots(table: TableArgument, list_format: FormatOption = ListFormat.TABLE) -> None:
    """List the snapshots."""
    rows = [
        {
            "id": s.id,
            "kind": str(s.commit_kind.value),
            "time": _iso(s.time_millis),
            "schema": s.schema_id,
            "user": s.commit_user,
            "rows": s.total_record_count,
            "delta": s.delta_record_count,
            "changelog": s.changelog_record_count,
        }
        for s in open_table(table).metadata.snapshots()
    ]
    print_list(rows, list_format)


@one_clear_line
def files(table: TableArgument, list_format: FormatOption = ListFormat.TABLE) -> None:
    """List the live data files of the newest snapshot."""
    opened = open_table(table)
    schema = opened.schema
    rows = []
    for e in load_view(opened.metadata, opened.snapshot).entries:
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
    print_list(rows, list_format)


@one_clear_line
def buckets(table: TableArgument, list_format: FormatOption = ListFormat.TABLE) -> None:
    """List the buckets: rows, bytes, files, sorted runs, hashes in the index."""
    opened = open_table(table)
    view = load_view(opened.metadata, opened.snapshot)
    index = view.hash_index()
    rows = []
    for (partition, bucket), found in sorted(view.by_bucket().items()):
        entry = index.get(partition, {}).get(bucket)
        runs = sum(f.level == 0 for f in found) + len({f.level for f in found if f.level > 0})
        rows.append(
            {
                **_partition(partition, opened.schema),
                "bucket": bucket,
                "rows": sum(f.row_count for f in found),
                "bytes": sum(f.file_size for f in found),
                "files": len(found),
                "sorted_runs": runs,
                "index_hashes": None if entry is None else entry.row_count,
            }
        )
    print_list(rows, list_format)


@one_clear_line
def list_index(table: TableArgument, list_format: FormatOption = ListFormat.TABLE) -> None:
    """List the index files of the newest snapshot."""
    opened = open_table(table)
    rows: list[dict[str, Any]] = []
    for e in load_view(opened.metadata, opened.snapshot).index:
        row = {
            **_partition(e.partition, opened.schema),
            "bucket": e.bucket,
            "type": e.index_type,
            "file": e.file_name,
            "bytes": e.file_size,
            "rows": e.row_count,
        }
        if e.index_type != HASH_INDEX and e.dv_ranges:
            row["data_files"] = len(e.dv_ranges)
        rows.append(row)
    print_list(rows, list_format)


@one_clear_line
def inspect(file: Annotated[str, typer.Argument(metavar="FILE", help="any file of a table")]) -> None:
    """Decode any file of the format to JSON."""
    print_json(inspect_file(open_store(file), file))


def _partition(partition: bytes, schema: TableSchema) -> dict[str, Any]:
    values = decode_partition_dict(partition, schema)
    return {k: internal_to_json(v, schema.field(k).type) for k, v in values.items()}


def _key(key: bytes, schema: TableSchema) -> Any:
    values = decode_row(split_arity(key)[1], schema.key_types)
    return [internal_to_json(v, t) for v, t in zip(values, schema.key_types, strict=True)]


def _iso(millis: int) -> str:
    return str(np.datetime64(millis, "ms")) + "Z"
