"""Decodes data files to their last page, so that damage shows before someone reads the rows it hit.

Check of a data file to its last page: every row group, every column, key columns included.

Parquet pages carry a CRC-32 where lakeidx wrote them (Java's have none unless asked to); what is decoded is also held against
the statistics and the page indexes that filters trust, and keys against the columns they are copies of. Of a footer, bytes that
nothing reads (who wrote it) cannot be recognised as damaged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.engines.untaken import untaken_rows
from lakeidx.data.parquet.chunks import damage_of
from lakeidx.data.parquet.pages import ChunkPages, leaf_values
from lakeidx.data.parquet.row_groups import ParquetSource
from lakeidx.data.read_data_file import evolve_column, open_data_file, plan_file_columns, read_data_file
from lakeidx.data.row_kinds import DELETE, UPDATE_BEFORE, is_retract
from lakeidx.errors import CorruptFileError, LakeIdxError, UnavailableError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.table_schema import KEY_PREFIX, VALUE_KIND, TableSchema
from lakeidx.predicate import ColumnStats, Compare, Op, evaluate
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import BucketFiles
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.runner import Runner
from lakeidx.types import Field, Root

_RETRACTS = (UPDATE_BEFORE, DELETE)


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """Result of decoding one data file.

    fault       why it could not be read
    miscounted  the deletes in it, where the manifest says another number
    """

    path: str
    rows: int
    bytes: int
    fault: dict[str, Any] | None = None
    miscounted: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Decode:
    """A data file, and its path."""

    metadata: TableMetadata
    entry: ManifestEntry
    path: str


def decode_files(
    metadata: TableMetadata,
    entries: Sequence[ManifestEntry],
    runner: Runner,
    *,
    skip: Collection[str] = (),
) -> list[DecodedFile]:
    """Decode every page of every column of some data files, side by side.

    skip     paths of files that are known to be missing or cut
    errors   UnavailableError; what is wrong with a file is in its result
    memory   the compressed columns of a row group and a decoded batch per thread
    """
    schema = metadata.latest_schema()
    work: list[_Decode] = []
    for entry in entries:
        partition = decode_partition_dict(entry.partition, schema)
        path = metadata.paths.data_file(
            partition, entry.bucket, entry.file.file_name, external_path=entry.file.external_path
        )
        if path not in skip:
            work.append(_Decode(metadata, entry, path))
    return runner.map(_decode, work, label=f"verify: {metadata.paths.root}") if work else []


def paths_of_bucket(metadata: TableMetadata, schema: TableSchema, bucket: BucketFiles) -> list[str]:
    """Return the paths of the data files that a scan reads of a bucket."""
    partition = decode_partition_dict(bucket.partition, schema)
    return [
        metadata.paths.data_file(partition, bucket.bucket, f.file_name, external_path=f.external_path)
        for f in bucket.files()
    ]


def _decode(work: _Decode) -> DecodedFile:
    metadata, path, file = work.metadata, work.path, work.entry.file
    try:
        schema = metadata.load_schema(file.schema_id)
        rows, deletes = verify_data_file(metadata.store, path, file, schema)
        why = _why_untaken(metadata.latest_schema()) if deletes else None
        if why is not None:
            raise CorruptFileError(f"{deletes} rows of kind -U or -D, which the table cannot merge: {why}", path=path)
        said = file.delete_row_count
        wrong = {"file": path, "level": file.level, "deletes": deletes, "manifest_deletes": said}
        return DecodedFile(path, rows, file.file_size, miscounted=wrong if said not in (None, deletes) else None)
    except UnavailableError:
        raise
    except LakeIdxError as error:
        fault = {"file": error.path or path, "offset": error.offset, "fault": error.message}
        return DecodedFile(path, 0, file.file_size, fault)


def _why_untaken(schema: TableSchema) -> str | None:
    """Return why no row of kind -U or -D can be merged, and what to set; None when some can."""
    return next(
        (r.why for r in untaken_rows(schema) if len(r.kinds) == len(_RETRACTS) and not r.with_any and r.zero is None),
        None,
    )


_BATCH_ROWS = 32_768
_DAY_MS = 86_400_000
_ORDERED = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_string, pa.types.is_binary)


def verify_data_file(store: ObjectStore, path: str, file: DataFileMeta, schema: TableSchema) -> tuple[int, int]:
    """Decode the whole file.

    schema    the one the file was written with
    returns   rows decoded, and how many of them are of kind -U or -D
    errors    CorruptFileError, NotFoundError, UnsupportedError naming the file
    memory    the compressed columns of a row group and a decoded batch
    """
    source = open_data_file(store, path, file.file_size, schema)
    if not isinstance(source, ParquetSource):
        batches = read_data_file(store, path, file, schema, schema, batch_rows=_BATCH_ROWS)
        counts = [(b.num_rows, _deletes(b)) for b in batches]
        return sum(rows for rows, _ in counts), sum(deletes for _, deletes in counts)
    if source.rows != file.row_count:
        raise CorruptFileError(f"expected {file.row_count} rows, found {source.rows}", path=path)
    _check_columns(source, file, schema)
    found = [_verify_group(source, g, schema) for g in range(source.groups)]
    return sum(rows for rows, _ in found), sum(deletes for _, deletes in found)


def _deletes(rows: pa.Table) -> int:
    if VALUE_KIND not in rows.column_names:
        return 0
    return int(np.count_nonzero(is_retract(_plain(rows.column(VALUE_KIND)).to_numpy())))


def _check_columns(source: ParquetSource, file: DataFileMeta, schema: TableSchema) -> None:
    """Check that every written column is present: those of the schema, and each key's copy or none of them."""
    written = schema.field_names if file.write_cols is None else file.write_cols
    copies = [KEY_PREFIX + name for name in schema.trimmed_primary_keys]
    expected = [*written, *(copies if any(c in source.schema.names for c in copies) else [])]
    missing = [name for name in expected if name not in source.schema.names]
    if missing:
        raise CorruptFileError(f"the file has no column {missing[0]!r}", path=source.path)


def _verify_group(source: ParquetSource, g: int, schema: TableSchema) -> tuple[int, int]:
    plans = [p for p in plan_file_columns(schema.fields, schema.fields) if p.field.name in source.schema.names]
    keys = schema.trimmed_primary_keys
    flat = [p.field for p in plans if not p.field.type.is_nested]
    found: dict[str, list[pa.Scalar]] = {f.name: [] for f in flat}
    nulls = dict.fromkeys(found, 0)
    rows, deletes, pages = 0, 0, source.pages(g)
    for table in source.group(g, source.schema.names, _BATCH_ROWS):
        _count_in_pages(table, rows, pages, source.path)
        rows += table.num_rows
        deletes += _deletes(table)
        with damage_of(source.path):
            read = {n: (_plain if n in keys else _distinct)(table.column(n)) for n in (p.field.name for p in plans)}
            # As a scan makes the table's columns of those of the file.
            columns = {p.field.name: evolve_column(p, read[p.field.name], len(read[p.field.name])) for p in plans}
        _check_keys(table, columns, keys, source.path)
        for name in found:
            nulls[name] += table.column(name).null_count
            if any(ordered(columns[name].type) for ordered in _ORDERED):
                bounds = pc.min_max(columns[name])
                found[name] += [b for b in (bounds["min"], bounds["max"]) if b.is_valid]
    with damage_of(source.path):
        stats = source.stats(g, set(found), flat)
        for field in flat:
            if field.type.root is Root.TIME:
                _check_times(field, found[field.name], source.path)
            if field.name in stats:
                _check_stats(field, stats[field.name], found[field.name], nulls[field.name], source.path)
        for chunk in pages.values():
            chunk.check()
    return rows, deletes


def _count_in_pages(table: pa.Table, first: int, pages: Mapping[int, ChunkPages], path: str) -> None:
    """Count the values of rows in the pages they lie in.

    first   position of the first row in the row group
    pages   by number of the leaf column
    """
    with damage_of(path):
        rows = np.arange(first, first + table.num_rows)
        leaves = (values for column in table.columns for values in leaf_values(column.combine_chunks(), rows))
        for number, values in enumerate(leaves):
            if number in pages:
                pages[number].add(values)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    # `take` checks the indices, which damaged pages may have beyond the dictionary.
    return pa.chunked_array([c.dictionary.take(c.indices) for c in column.chunks], column.type.value_type)


def _distinct(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column; of a dictionary's, those that a row has, once: a few in place of one for each row."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = []
    for chunk in column.chunks:
        used = np.zeros(len(chunk.dictionary), np.bool_)
        # Unsigned, damaged indices below 0 lie beyond the dictionary, too.
        used[chunk.indices.drop_null().to_numpy().view(np.uint32)] = True
        chunks.append(chunk.dictionary.filter(pa.array(used)))
    return pa.chunked_array(chunks, column.type.value_type)


def _check_keys(table: pa.Table, columns: Mapping[str, pa.ChunkedArray], keys: Sequence[str], path: str) -> None:
    for name in keys:
        if KEY_PREFIX + name in table.column_names:
            left, right = _plain(table.column(KEY_PREFIX + name)), columns[name]
            with damage_of(path):
                left = left if left.type == right.type else left.cast(right.type)
            if not left.equals(right) and not _equal_with_nan(left, right):
                raise CorruptFileError(f"column {KEY_PREFIX + name} differs from column {name}", path=path)


def _equal_with_nan(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(left.type):
        return False
    return bool(np.array_equal(left.to_numpy(), right.to_numpy(), equal_nan=True))


def _check_times(field: Field, found: Sequence[pa.Scalar], path: str) -> None:
    """Check that times are of a day: older releases took others, which readers show as no time or refuse."""
    outside = [ms for ms in (bound.cast(pa.int32()).as_py() for bound in found) if not 0 <= ms < _DAY_MS]
    if outside:
        raise CorruptFileError(
            f"column {field.name} has a time of {outside[0]} ms, which is of no day: upsert the rows again with times below 24 h, "
            "then compact",
            path=path,
        )


def _check_stats(field: Field, stats: ColumnStats, found: Sequence[pa.Scalar], nulls: int, path: str) -> None:
    if stats.null_count is not None and stats.null_count != nulls:
        raise CorruptFileError(f"column {field.name}: {nulls} nulls, the footer has {stats.null_count}", path=path)
    if not found or stats.min is None or stats.max is None:
        return
    extremes = pa.table({field.name: pa.array(found, found[0].type)})
    inside = [
        evaluate(Compare(field.name, op, bound), extremes) for op, bound in ((Op.GE, stats.min), (Op.LE, stats.max))
    ]
    if not all(pc.all(mask).as_py() for mask in inside):
        raise CorruptFileError(f"column {field.name}: values beyond the bounds in the footer", path=path)
