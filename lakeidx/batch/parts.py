"""Parts of a batch: staged Parquet files, or row groups of a landing file taken by reference."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.batch.artifacts import SourceFile, StagedPart
from lakeidx.batch.landed_files import landing_store, unchanged
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.schema.table_schema import VALUE_KIND, TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import OutputFile
from lakeidx.types import STRING_ROOTS

if TYPE_CHECKING:
    from lakeidx.data.parquet.chunks import OpenFooter

#: Rows of one part at most: what a map task of a later stage holds in memory.
PART_ROWS = 1_000_000
#: Rows of a row group of a staged part.
_STAGED_GROUP_ROWS = PART_ROWS // 4
#: Bytes of one part, about: the last rows or row group of it may pass the limit. Text of one chunk ends at 2 GiB.
PART_BYTES = 256 << 20
#: Bytes of a row group that is taken from a landing file as it is: a task reads it as a whole.
GROUP_BYTES = 2 * PART_BYTES
#: Rows from which the columns of a part are decoded side by side: waking threads costs more than a small part does.
_THREADED_ROWS = 20_000
#: Bytes per value of a Parquet column, uncompressed, up to which it is read as a dictionary: indexes of two bytes at most.
_DICTIONARY_BYTES = 2


def write_part(
    store: ObjectStore,
    out_dir: str,
    source: int,
    number: int,
    rows: pa.Table,
    *,
    share: int | None = None,
    checksum: bool = False,
) -> StagedPart:
    """Write one staged part.

    share      of the landing file that the rows are of, where several tasks read it
    checksum   also compute that of the staged file
    """
    path = f"{out_dir}/part-{share_name(source, share)}-{number:05d}.parquet"
    with store.open_output(path) as sink:
        digest = _Digest(sink)
        _write_rows(rows, digest if checksum else sink)
    return StagedPart(path=path, rows=rows.num_rows, bytes=store.size(path), source=source,
                      has_kinds=VALUE_KIND in rows.column_names, checksum=digest.hex() if checksum else None)  # fmt: skip


def share_name(source: int, share: int | None) -> str:
    """Return what files are named by that are made of a landing file, or of a share of one; names sort as rows do."""
    return f"{source:05d}" if share is None else f"{source:05d}-{share:04d}"


def part_checksum(rows: pa.Table) -> str:
    """Return the checksum that `write_part` computes for rows, without writing them."""
    digest = _Digest(None)
    _write_rows(rows, digest)
    return digest.hex()


def _write_rows(rows: pa.Table, sink: object) -> None:
    """Write staged rows as Parquet."""
    pq.write_table(
        rows, sink, compression="zstd", compression_level=1, row_group_size=_STAGED_GROUP_ROWS, write_page_checksum=True
    )


class _Digest(OutputFile):
    """A file that computes the SHA-256 of the bytes written to it."""

    def __init__(self, sink: OutputFile | None) -> None:
        self._sink = sink
        self._sha = hashlib.sha256()
        self._size = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def write(self, data: Any) -> int:
        self._sha.update(data)
        written = memoryview(data).nbytes if self._sink is None else self._sink.write(data)
        self._size += written
        return written

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        """Do nothing: its owner closes the file."""
        self._closed = True

    def abort(self) -> None:
        """Do nothing: its owner aborts the file."""

    def hex(self) -> str:
        return self._sha.hexdigest()


def read_part(
    store: ObjectStore,
    source: SourceFile | None,
    part: StagedPart,
    schema: TableSchema,
    columns: Sequence[str],
    *,
    dictionaries: Collection[str] = (),
) -> pa.Table:
    """Read a staged part: the wanted table columns in their Arrow types, then _VALUE_KIND when its rows have kinds.

    The column that ``rowkind.field`` names says the kind before anything looks for keys or adds deletes of its own.

    source         the landing file that a part by reference is taken from
    dictionaries   text columns that may come as dictionaries; those do whose values repeat much in the file
    errors         InvalidInputError when a landing file staged by reference was changed, and for a row kind that is none;
                   CorruptFileError when it is damaged
    """
    named = schema.table_options.rowkind_field
    if named is not None:
        from lakeidx.data.engines import kinds_by_column

        rows = _read_columns(store, source, part, schema, dict.fromkeys((*columns, named)), dictionaries)
        own = rows.column(VALUE_KIND) if part.has_kinds else None
        try:
            kinds = kinds_by_column(rows.column(named), own, named)
        except InvalidInputError as error:
            raise InvalidInputError(error.message, path=part.path) from error
        return rows.select([c for c in columns if c != VALUE_KIND]).append_column(VALUE_KIND, kinds)
    return _read_columns(store, source, part, schema, columns, dictionaries)


def _read_columns(
    store: ObjectStore,
    source: SourceFile | None,
    part: StagedPart,
    schema: TableSchema,
    columns: Collection[str],
    dictionaries: Collection[str],
) -> pa.Table:
    names = [*columns, *([VALUE_KIND] if part.has_kinds and VALUE_KIND not in columns else [])]
    if source is None:
        return _read_file(store, None, part, schema, names, dictionaries)
    # Files of a store with options of its own are not taken by reference.
    with unchanged(store, [source], {}, since="since it was ingested", then="ingest it as a new batch"):
        return _read_file(landing_store(store, part.path, {}), source, part, schema, names, dictionaries)


def _read_file(
    store: ObjectStore,
    source: SourceFile | None,
    part: StagedPart,
    schema: TableSchema,
    names: Sequence[str],
    dictionaries: Collection[str],
) -> pa.Table:
    from lakeidx.data.parquet.chunks import damage_of, hold_columns, open_footer, open_rows

    stream = store.open_input(part.path, size=None if source is None else source.size)
    with damage_of(part.path):
        footer = open_footer(stream, part.path)
    groups = list(part.row_groups) if part.row_groups is not None else list(range(footer.metadata.num_row_groups))
    kept = _repeating_columns(footer, groups, dictionaries)
    try:
        hold_columns(stream, footer.leaves, footer.chunks, groups, names)
        file = open_rows(stream, footer.metadata, kept)
        table = file.read_row_groups(groups, columns=names, use_threads=part.rows >= _THREADED_ROWS).select(names)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptFileError(f"the staged part is damaged: {error}", path=part.path) from error
    if table.num_rows != part.rows:
        raise CorruptFileError(f"the staged part has {table.num_rows} rows, not {part.rows}", path=part.path)
    return _typed(table, schema, kept)


def _typed(table: pa.Table, schema: TableSchema, dictionaries: Sequence[str]) -> pa.Table:
    wanted = pa.schema([pa.field(n, _part_type(n, schema, dictionaries)) for n in table.column_names])
    return table if table.schema.equals(wanted) else table.cast(wanted)


def _part_type(name: str, schema: TableSchema, dictionaries: Sequence[str]) -> pa.DataType:
    if name == VALUE_KIND:
        return pa.int8()
    plain = schema.arrow_schema.field(name).type
    return pa.dictionary(pa.int32(), plain) if name in dictionaries else plain


def _repeating_columns(footer: OpenFooter, groups: Sequence[int], names: Collection[str]) -> list[str]:
    if not names or not groups:
        return []
    out = []
    for at, leaf in enumerate(footer.leaves):
        if leaf.path in names:
            values = sum(footer.chunks.stats(g, at, leaf.physical_type).values for g in groups)
            sizes = [footer.chunks.plain_bytes(g, at) for g in groups]
            if values > 0 and min(sizes) >= 0 and sum(sizes) <= _DICTIONARY_BYTES * values:
                out.append(leaf.path)
    return out


def text_columns(schema: TableSchema) -> frozenset[str]:
    """Return the text columns whose values are only copied into data files: not keys."""
    keys = {*schema.primary_keys, *schema.partition_keys}
    return frozenset(f.name for f in schema.fields if f.type.root in STRING_ROOTS and f.name not in keys)


def key_names(schema: TableSchema) -> frozenset[str]:
    """Return the columns that are never widened."""
    return frozenset((*schema.primary_keys, *schema.partition_keys))


def is_full(rows: int, size: int) -> bool:
    """Return True when a part of this many rows and bytes is full."""
    return rows >= PART_ROWS or size >= PART_BYTES


def cut(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows into parts by the sizes of their values: the same rows are cut at the same places, whatever their Arrow types."""
    for first in range(0, rows.num_rows, PART_ROWS):
        piece = rows.slice(first, PART_ROWS)
        # Only dictionaries hold more than their bytes; a truth value counts as one.
        plain = not any(pa.types.is_dictionary(t) for t in piece.schema.types)
        if plain and piece.nbytes + piece.num_rows * piece.num_columns < PART_BYTES:
            yield piece
            continue
        sizes = _row_bytes(piece)
        part_of = (np.cumsum(sizes) - sizes) // PART_BYTES
        starts = np.flatnonzero(np.diff(part_of, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), piece.num_rows], strict=True):
            yield piece.slice(start, end - start)


def _row_bytes(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return int64[n], about: texts by their lengths, everything else evenly."""
    total = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        at = 0
        for chunk in column.chunks:
            total[at : at + len(chunk)] += _value_bytes(chunk)
            at += len(chunk)
    return total


def _value_bytes(values: pa.Array) -> npt.NDArray[np.int64] | int:
    if pa.types.is_dictionary(values.type):
        lengths = _value_bytes(values.dictionary)
        if isinstance(lengths, int):
            return lengths
        return lengths[np.asarray(pc.fill_null(values.indices, 0))] if len(lengths) else 0
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary() if pa.types.is_binary_view(values.type) else pa.large_string())
    if _is_text(values.type):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0), np.int64)
    if pa.types.is_nested(values.type):
        return int(values.nbytes) // max(len(values), 1)
    return max(int(values.type.bit_width) // 8, 1) if not pa.types.is_null(values.type) else 0


def _is_text(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)
    )
