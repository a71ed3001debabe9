"""Write sorted rows of one bucket to Parquet data files, with their manifest metadata.

source   org.apache.paimon.io.KeyValueDataFileWriter, RowDataFileWriter, RollingFileWriter; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.parquet.file import ParquetFile, WrittenFile
from lakeidx.data.stats import apply_mode, dense_stats, footer_stats, simple_stats
from lakeidx.data.write_spec import DEFAULT_TARGET_BYTES, FileIndexBuilder, FooterMetadataBuilder, WriteSpec
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource, now_local_ms
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join

__all__ = ["DEFAULT_TARGET_BYTES", "DataFileWriter", "FileIndexBuilder", "FooterMetadataBuilder"]

_GROUPS_PER_FILE = 4
_MIN_GROUP_ROWS = 1000


class DataFileWriter:
    """Writes rows into as many data files as the target size requires: all rows by `write_all`, or as they come.

    For the latter it is used in a ``with`` block; one that is left without `finish` removes what was written.

    names             draws file names; one per writer of a (partition, bucket)
    target_file_size  bytes after which the next row group begins a new file; default `target-file-size`
    first_sequence    append table: sequence number of the first row
    errors            InvalidInputError for rows that are not of the schema; UnsupportedError for another file format. After any
                      error the files of this writer are gone
    memory            one row group (`file.block-size`, 32 MB of Arrow bytes when not set)
    """

    def __init__(
        self,
        schema: TableSchema,
        *,
        store: ObjectStore,
        bucket_dir: str,
        names: NewFileNames,
        level: int = 0,
        file_source: FileSource = FileSource.APPEND,
        changelog: bool = False,
        target_file_size: int | None = None,
        first_sequence: int = 0,
        index_builder: Callable[[], FileIndexBuilder] | None = None,
        footer_metadata: Callable[[], FooterMetadataBuilder] | None = None,
    ) -> None:
        self._spec = spec = WriteSpec.of(
            schema, level, FileSource.APPEND if changelog else file_source, changelog=changelog
        )
        self._store = store
        self._dir = bucket_dir
        self._names = names
        self._target = spec.target_bytes if target_file_size is None else target_file_size
        self._next_sequence = first_sequence
        self._index_builder, self._footer_metadata = index_builder, footer_metadata
        self._groups = _RowGroups(spec, self._target)
        self._open: _OpenFile | None = None
        self._done: list[DataFileMeta] = []
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished or kind is not None:
            self.abort()

    def write_all(self, batches: Iterable[pa.Table]) -> list[DataFileMeta]:
        """Write all rows; return the files in key order, none when there are no rows.

        batches   as `write` takes them
        """
        with self:
            for batch in batches:
                self.write(batch)
            return self.finish()

    def write(self, batch: pa.Table) -> None:
        """Add the next rows.

        batch   primary-key table: a KV table in key order, each key once (changelog files: any order); append table: a table of
                its columns. Column types as ``schema.kv_arrow_schema``/``arrow_schema`` say, or dictionaries of them
        """
        for group in self._groups.add(batch):
            self._write_group(group)

    def finish(self) -> list[DataFileMeta]:
        """Write what is waiting; the files in the order of their rows."""
        for group in self._groups.rest():
            self._write_group(group)
        if self._open is not None:
            self._close()
        self._finished = True
        return self._done

    def abort(self) -> None:
        """Remove everything written."""
        if self._open is not None:
            self._open.file.abort()
            self._open = None
        names = [n for f in self._done for n in (f.file_name, *f.extra_files)]
        self._store.delete_many(join(self._dir, n) for n in names)
        self._done = []

    def _write_group(self, group: pa.Table) -> None:
        """Write one row group of the file's columns, into a new file when the last one has reached the target size."""
        if self._open is not None and self._open.file.position >= self._target:
            self._close()
        first_key, last_key = self._keys_of(group)
        current = self._open or self._begin(first_key)
        if self._spec.key_names:
            current.max_key = last_key
            current.deletes += _count_retracts(group.column(VALUE_KIND))
        current.file.write_group(group)
        values = group.select(self._spec.schema.field_names) if current.index or current.footer else None
        for builder in (current.index, current.footer):
            if builder is not None:
                builder.add(values)

    def _begin(self, first_key: bytes) -> _OpenFile:
        spec = self._spec
        name = spec.new_name(self._names)
        file = ParquetFile(self._store, join(self._dir, name), spec.columns, spec.settings)
        current = _OpenFile(file, name, first_key)
        # Known to abort from here on, whatever fails next.
        self._open = current
        current.index = self._index_builder() if self._index_builder is not None else None
        current.footer = self._footer_metadata() if self._footer_metadata is not None else None
        return current

    def _close(self) -> None:
        current = self._open
        assert current is not None
        written = current.file.finish(current.footer.finish() if current.footer is not None else None)
        self._open = None
        meta = self._meta(current, written)
        self._done.append(meta)
        if current.index is not None:
            self._done[-1] = self._put_index(meta, current.index)

    def _put_index(self, meta: DataFileMeta, index: FileIndexBuilder) -> DataFileMeta:
        embedded, companions = index.finish()
        for suffix, content in companions:
            self._store.put(join(self._dir, meta.file_name + suffix), content)
        extra = tuple(meta.file_name + suffix for suffix, _ in companions)
        return replace(meta, embedded_index=embedded, extra_files=extra)

    def _keys_of(self, group: pa.Table) -> tuple[bytes, bytes]:
        """Return the keys of the first and the last row."""
        first, last = self._key_of(group, 0), group.num_rows - 1
        return first, self._key_of(group, last) if last else first

    def _key_of(self, group: pa.Table, row: int) -> bytes:
        names = self._spec.key_names
        if not names:
            return EMPTY_ROW
        types = self._spec.schema.key_types
        values = [
            value
            for name, t in zip(names, types, strict=True)
            for value in arrow_to_internal(group.column(name).slice(row, 1), t)
        ]
        return with_arity(encode_row(values, types), len(types))

    def _meta(self, current: _OpenFile, written: WrittenFile) -> DataFileMeta:
        spec, schema = self._spec, self._spec.schema
        full = footer_stats(
            written.footer, spec.fields, spec.columns.leaves, floats=written.floats, null_counts=written.null_counts
        )
        stats = full | {f.name: apply_mode(full[f.name], mode, f.type) for f, mode in spec.reduced}
        value_stats, value_stats_cols = (
            dense_stats(stats, schema.fields)
            if schema.table_options.metadata_stats_dense_store
            else (simple_stats([stats[f.name] for f in schema.fields], [f.type for f in schema.fields]), None)
        )
        key_stats = EMPTY_STATS
        sequence = (self._next_sequence, self._next_sequence + written.rows - 1)
        if spec.key_names:
            prefix = "" if spec.thin else KEY_PREFIX
            key_stats = simple_stats([stats[prefix + k] for k in spec.key_names], schema.key_types)
            sequence = (full[SEQUENCE_NUMBER].minimum, full[SEQUENCE_NUMBER].maximum)
        else:
            self._next_sequence += written.rows
        return DataFileMeta(
            file_name=current.name,
            file_size=written.size,
            row_count=written.rows,
            min_key=current.min_key,
            max_key=current.max_key,
            key_stats=key_stats,
            value_stats=value_stats,
            min_sequence_number=sequence[0],
            max_sequence_number=sequence[1],
            schema_id=schema.id,
            level=spec.level,
            creation_time_ms=now_local_ms(),
            delete_row_count=current.deletes,
            file_source=int(spec.file_source),
            value_stats_cols=value_stats_cols,
        )


class _RowGroups:
    """Cuts and joins batches into row groups with the columns of the file."""

    def __init__(self, spec: WriteSpec, target: int) -> None:
        self._columns = _FileColumns(spec)
        self._budget = min(spec.properties.row_group_bytes, max(1, target // _GROUPS_PER_FILE))
        self._waiting: list[pa.Table] = []
        self._rows = self._filled = 0

    def add(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Add rows; yield the groups that are full."""
        if batch.num_rows == 0:
            return
        row_bytes = max(1, batch.nbytes // batch.num_rows)
        batch = self._columns.arrange(batch)
        start = 0
        while start < batch.num_rows:
            room = max(_MIN_GROUP_ROWS - self._rows, (self._budget - self._filled) // row_bytes, 1)
            part = batch.slice(start, room)
            self._waiting.append(part)
            start += part.num_rows
            self._rows += part.num_rows
            self._filled += part.num_rows * row_bytes
            if part.num_rows == room:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """Yield what is waiting as a group."""
        if self._waiting:
            group = pa.concat_tables(self._waiting)
            self._rows, self._filled, self._waiting = 0, 0, []
            yield group


class _FileColumns:
    """Turns KV tables (or tables of an append table) into tables of the file's columns, all of one schema."""

    def __init__(self, spec: WriteSpec) -> None:
        self._keys = spec.keys_in_front
        self._given = spec.given
        self._file = spec.columns.schema
        self._begun = False

    def arrange(self, batch: pa.Table) -> pa.Table:
        columns, found, given = batch.columns, batch.schema, self._given
        if found.names != given.names:
            raise InvalidInputError(f"expected the columns {given.names}, found {found.names}")
        if found.types != given.types:
            if not self._begun:
                # Columns that come dictionary-encoded in the first rows stay so in all.
                given = self._given = _encoded_as(given, columns)
                self._file = _encoded_as(self._file, [*(columns[k] for k in self._keys), *columns])
            columns = [_as_type(c, f) for c, f in zip(columns, given, strict=True)]
        self._begun = True
        return pa.Table.from_arrays([*(columns[k] for k in self._keys), *columns], schema=self._file)


def _encoded_as(schema: pa.Schema, columns: Sequence[pa.ChunkedArray]) -> pa.Schema:
    """Return a schema with dictionaries where the columns have them."""
    return pa.schema(
        [
            f.with_type(pa.dictionary(pa.int32(), f.type)) if pa.types.is_dictionary(c.type) else f
            for f, c in zip(schema, columns, strict=True)
        ]
    )


def _as_type(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        if not pa.types.is_dictionary(field.type):
            return column.cast(field.type)
        return column.cast(field.type.value_type).dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise InvalidInputError(f"column {field.name!r}: {column.type} does not cast to {field.type}: {e}") from e


class _OpenFile:
    """One file of a roll, with what its metadata needs from the rows."""

    def __init__(self, file: ParquetFile, name: str, first_key: bytes) -> None:
        self.file = file
        self.name = name
        self.min_key = first_key
        self.max_key = first_key
        self.deletes = 0
        self.index: FileIndexBuilder | None = None
        self.footer: FooterMetadataBuilder | None = None


def _count_retracts(kinds: pa.ChunkedArray) -> int:
    """Count rows of kind -U (1) or -D (3)."""
    return int(sum(np.count_nonzero(chunk.to_numpy(zero_copy_only=False) & 1) for chunk in kinds.chunks))
