"""One Parquet data file being written: row groups in, a closed file and its footer out."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.data.nested_nulls import settle_column
from lakeidx.data.parquet.chunks import FloatMarks
from lakeidx.data.parquet.columns import ParquetColumns
from lakeidx.data.stats import float_marks
from lakeidx.errors import InvalidInputError
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import OutputFile

if TYPE_CHECKING:
    from lakeidx.data.parquet.properties import ParquetProperties


_SAMPLE_ROWS = 4096


_DELTA = "DELTA_BINARY_PACKED"


class LeafColumn(NamedTuple):
    """A leaf column of a file: the top-level column it is in, its dotted Parquet path and its Arrow type."""

    column: str
    path: str
    type: pa.DataType


_BUFFER_BYTES = 256 << 10
#: What Arrow raises for rows that it cannot write.
_REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file.

    footer       what Parquet readers will find; statistics come from it
    floats       special values of the top-level FLOAT and DOUBLE columns
    null_counts  of the top-level INT96 columns
    """

    path: str
    size: int
    rows: int
    footer: pq.FileMetaData
    floats: Mapping[str, FloatMarks]
    null_counts: Mapping[str, int]


class ParquetFile:
    """Writes one data file, which appears under its name when `finish` has written the footer.

    settings for `columns.physical`
    errors   InvalidInputError from `write_group` for a null in a NOT NULL column
    """

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        columns: ParquetColumns,
        settings: WriterSettings,
    ) -> None:
        self.path = path
        self._store = store
        self._settings = settings
        self._columns, self._schema = columns, columns.physical
        # Some columns are written from dictionaries.
        self._encoded = False
        self._floats = {name: FloatMarks() for name in columns.floats}
        self._null_counts = dict.fromkeys(columns.int96_names, 0)
        self._sink: _Sink | None = None
        self._stream: pa.BufferedOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self.rows = 0

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return int(self._stream.tell()) if self._stream is not None else 0

    def write_group(self, table: pa.Table) -> None:
        """Append a table as one row group; columns in file order, plain or dictionary-encoded."""
        table = self._conform(table)
        if self._writer is None:
            self._open(table)
        for name in self._floats:
            self._floats[name] |= float_marks(table.column(name))
        for name in self._null_counts:
            self._null_counts[name] += table.column(name).null_count
        assert self._writer is not None
        try:
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        except _REFUSALS as error:
            raise _refused(error, self.path) from error
        self.rows += table.num_rows

    def finish(self, key_values: Mapping[str, str] | None = None) -> WrittenFile:
        """Write the footer and close.

        key_values  Parquet key-value metadata to put into the footer
        """
        from lakeidx.data.parquet.footer import change_footer

        if self._writer is None:
            self.write_group(self._schema.empty_table())
        writer, sink, stream = self._writer, self._sink, self._stream
        assert writer is not None
        assert sink is not None
        assert stream is not None
        if key_values:
            writer.add_key_value_metadata(dict(key_values))
        unbounded = [self._columns.leaves[name] for name, found in self._floats.items() if found.nan]
        if self._columns.marks or unbounded:
            stream.flush()
            sink.hold_back()
        try:
            writer.close()
        except _REFUSALS as error:
            raise _refused(error, self.path) from error
        stream.flush()
        if self._columns.marks or unbounded:
            sink.release(lambda tail: change_footer(tail, self._columns.marks, unbounded))
        sink.complete()
        return WrittenFile(self.path, sink.size, self.rows, self._footers[0], self._floats, self._null_counts)

    def abort(self) -> None:
        """Abort the file: nothing appears under its name."""
        if self._writer is not None:
            # Keeps the writer from closing itself, and failing at it, when it is collected.
            self._writer.is_open = False
        if self._sink is not None:
            self._sink.abort()

    def _open(self, sample: pa.Table) -> None:
        self._sink = _Sink(self._store.open_output(self.path))
        # Arrow writes a page in many small pieces.
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), _BUFFER_BYTES)
        settings = self._settings.properties.settle(sample.schema) if self._encoded else self._settings
        self._writer = pq.ParquetWriter(
            self._stream,
            sample.schema,
            version="1.0",
            store_schema=False,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            use_deprecated_int96_timestamps=self._columns.int96,
            metadata_collector=self._footers,
            **settings.arguments(sample),
        )
        self._schema = sample.schema

    def _conform(self, table: pa.Table) -> pa.Table:
        """Convert the table to the types and field ids of the file."""
        if table.num_columns != len(self._schema):
            raise InvalidInputError(
                f"{table.num_columns} columns for a file of {len(self._schema)}: {table.column_names}", path=self.path
            )
        for i in self._columns.nested:
            column, missing = settle_column(table.column(i))
            if missing:
                raise InvalidInputError(
                    f"column {self._schema.field(i).name!r}: null in a nested field that must not be", path=self.path
                )
            table = table.set_column(i, table.field(i), column)
        if not table.schema.equals(self._schema, check_metadata=True):
            table = self._cast(table)
        return table.unify_dictionaries() if self._encoded else table

    def _cast(self, table: pa.Table) -> pa.Table:
        columns, fields = [], []
        for column, field in zip(table.columns, self._schema, strict=True):
            target = field.type
            if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(target) and self._writer is None:
                target, self._encoded = pa.dictionary(column.type.index_type, target), True
            if column.type != target:
                try:
                    column = _cast(column, target)
                except _REFUSALS as error:
                    raise _refused(error, f"{self.path} column {field.name}") from error
            columns.append(column)
            fields.append(field.with_type(target))
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(target):
        return column.cast(target.value_type).dictionary_encode()
    return column.cast(target)


def _refused(error: Exception, where: str) -> InvalidInputError:
    return InvalidInputError(f"the rows cannot be written: {error}", path=where)


class _Sink(io.RawIOBase):
    """A store's output stream that can hold back the last bytes of the writer, to change them before they are written."""

    def __init__(self, stream: OutputFile) -> None:
        self._stream = stream
        self._tail: list[bytes] | None = None
        self._given_up = False
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._given_up:
            # Arrow's writer, when it is collected without being closed, still tries to write a footer.
            return len(data)
        if self._tail is None:
            self._stream.write(data)
        else:
            self._tail.append(bytes(data))
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def hold_back(self) -> None:
        self._tail = []

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Write the held-back bytes, changed."""
        tail = b"".join(self._tail or ())
        self._tail = None
        self.size -= len(tail)
        self.write(change(tail))

    def complete(self) -> None:
        """Close the stream: the file becomes visible."""
        self._stream.close()

    def abort(self) -> None:
        """Abort the file."""
        self._given_up = True
        self._stream.abort()


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of files of one schema.

    fixed        keyword arguments of Arrow's writer that do not depend on rows
    dictionary   paths of leaf columns with a dictionary; encodings: of others
    measured     leaf columns that get a dictionary if each of their values is there so many times; otherwise the encoding for
                 whole numbers, where True
    bloom        by path the distinct values that a bloom filter is for, None for all rows, and its false positive rate
    """

    properties: ParquetProperties
    fixed: Mapping[str, Any]
    dictionary: Sequence[str]
    encodings: Mapping[str, str]
    measured: Sequence[tuple[LeafColumn, int, bool]]
    bloom: Mapping[str, tuple[int | None, float]]

    def arguments(self, sample: pa.Table) -> dict[str, Any]:
        """Return the keyword arguments of ``pyarrow.parquet.ParquetWriter`` for a file that begins with the rows of `sample`.

        sample   the first row group; decides encodings and the default size of bloom filters
        """
        dictionary, encodings = list(self.dictionary), dict(self.encodings)
        # Few rows are looked at as they lie.
        rows, n = None, sample.num_rows
        if n > _SAMPLE_ROWS and self.measured:
            rows = pa.array(np.linspace(0, n - 1, _SAMPLE_ROWS).astype(np.int64))
        for leaf, times, whole in self.measured:
            if not 0 < n < times and _repeats(sample.column(leaf.column), rows, times):
                dictionary.append(leaf.path)
            elif whole:
                encodings[leaf.path] = _DELTA
        bloom = {
            path: {"ndv": max(1, n if ndv is None else ndv), "fpp": fpp} for path, (ndv, fpp) in self.bloom.items()
        }
        return {
            **self.fixed,
            "use_dictionary": dictionary or False,
            "column_encoding": encodings or None,
            "bloom_filter_options": bloom or None,
        }


def _repeats(column: pa.ChunkedArray, rows: pa.Array | None, times: int) -> bool:
    """Return whether each value is there so many times, on average; `rows`: those to examine, None for all."""
    values = column if rows is None else column.take(rows)
    return bool(pc.count_distinct(values, mode="all").as_py() * times <= len(values))
