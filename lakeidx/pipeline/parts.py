"""Parts of a batch: staged Parquet files, or row groups of a landing file taken by reference."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.schema import TableSchema
from lakeidx.pipeline.artifacts import IngestReport, SourceFile, StagedPart
from lakeidx.pipeline.kinds import VALUE_KIND
from lakeidx.pipeline.landing import open_parquet
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore
from lakeidx.types import STRING_ROOTS

#: Rows of one part: what a map task of a later stage holds in memory.
PART_ROWS = 1_000_000
#: Bytes per value of a Parquet column, uncompressed, up to which it is read as a dictionary: indexes of two bytes at most.
_DICTIONARY_BYTES = 2


def landing_store(store: ObjectStore, path: str) -> ObjectStore:
    """The store a landing file lies in: the table's, or, for a local file of a table on S3 and the other way round, its own.

    A store of its own is reached as environment variables say.
    """
    return store if _is_remote(store.uri) == _is_remote(path) else open_store(path)


def _is_remote(uri: str) -> bool:
    return "://" in uri and not uri.startswith("file:")


def describe_source(store: ObjectStore, path: str) -> SourceFile:
    """A landing file as it is now; NotFoundError when it is missing."""
    info = landing_store(store, path).info(path)
    if info is None or info.is_dir:
        raise NotFoundError("the landing file does not exist", path=path)
    return SourceFile(path=path, size=info.size, version=str(info.mtime_ms))


def check_source(store: ObjectStore, source: SourceFile) -> None:
    """InvalidInputError when a file that was staged by reference is not the file that was ingested any more."""
    now = describe_source(store, source.path)
    if now != source:
        raise InvalidInputError(
            "the landing file changed since it was ingested; ingest it as a new batch", path=source.path
        )


def write_part(store: ObjectStore, out_dir: str, source: int, number: int, rows: pa.Table) -> StagedPart:
    """Write one staged part."""
    path = f"{out_dir}/part-{source:05d}-{number:05d}.parquet"
    with store.open_output(path) as sink:
        pq.write_table(rows, sink, compression="zstd", compression_level=1, row_group_size=PART_ROWS // 4)
    return StagedPart(path=path, rows=rows.num_rows, bytes=store.size(path), source=source,
                      has_kinds=VALUE_KIND in rows.column_names)  # fmt: skip


def read_part(
    store: ObjectStore,
    report: IngestReport,
    part: StagedPart,
    schema: TableSchema,
    columns: Sequence[str],
    *,
    dictionaries: Collection[str] = (),
) -> pa.Table:
    """Read a staged part: the asked table columns in their Arrow types, then _VALUE_KIND when the part has kinds.

    dictionaries   text columns that may come as dictionaries; those do whose values repeat much in the file
    errors         InvalidInputError when a landing file staged by reference was changed, CorruptFileError when it is damaged
    """
    if part.by_reference:
        check_source(store, report.sources[part.source])
        store = landing_store(store, part.path)
    names = [*columns, *([VALUE_KIND] if part.has_kinds and VALUE_KIND not in columns else [])]
    file = open_parquet(store, part.path)
    groups = list(part.row_groups) if part.row_groups is not None else list(range(file.metadata.num_row_groups))
    kept = _repeating_columns(file.metadata, groups, dictionaries)
    try:
        if kept:
            file = pq.ParquetFile(store.open_input(part.path), metadata=file.metadata, read_dictionary=kept)
        table = file.read_row_groups(groups, columns=names, use_threads=True).select(names)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptFileError(f"the staged part is damaged: {error}", path=part.path) from error
    wanted = pa.schema([pa.field(n, _part_type(n, schema, kept)) for n in names])
    return table if table.schema.equals(wanted) else table.cast(wanted)


def _part_type(name: str, schema: TableSchema, dictionaries: Sequence[str]) -> pa.DataType:
    if name == VALUE_KIND:
        return pa.int8()
    plain = schema.arrow_schema.field(name).type
    return pa.dictionary(pa.int32(), plain) if name in dictionaries else plain


def _repeating_columns(metadata: pq.FileMetaData, groups: Sequence[int], names: Collection[str]) -> list[str]:
    if not names or not groups:
        return []
    out = []
    for i in range(metadata.num_columns):
        if metadata.schema.column(i).path not in names:
            continue
        chunks = [metadata.row_group(g).column(i) for g in groups]
        values = sum(c.num_values for c in chunks)
        if values and sum(c.total_uncompressed_size for c in chunks) <= _DICTIONARY_BYTES * values:
            out.append(metadata.schema.column(i).path)
    return out


def text_columns(schema: TableSchema) -> frozenset[str]:
    """Text columns of which nothing looks at the values on their way into a data file: not keys."""
    keys = {*schema.primary_keys, *schema.partition_keys}
    return frozenset(f.name for f in schema.fields if f.type.root in STRING_ROOTS and f.name not in keys)
