"""Keys of lakeidx's and Paimon's own data files.

Parquet files are read column by column with row groups pruned. Keys come from ``_KEY_<name>`` columns, or, in files
without them (thin mode), from the table's columns; columns are found by field id, as a key column may have been
renamed since. Files of other formats go through the table's general reader.

source   org.apache.paimon.io.KeyValueDataFileWriter, KeyValueThinDataFileWriterImpl, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import CorruptFileError
from lakeidx.format.hudi.footer import KeyFooter, parse_footer
from lakeidx.key_index.keys.codes import KeyCodes, has_int_view, key_codes
from lakeidx.key_index.keys.files import KeyFile, groups_that_may_hold, open_key_file, read_key_columns
from lakeidx.key_index.keys.reader import KeyRows
from lakeidx.key_index.locations import LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.storage.base import ObjectStore
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, Field, to_arrow

KEY_FIELD_ID = 1073741823
SEQUENCE_NUMBER, VALUE_KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
_FIELD_ID = b"PARQUET:field_id"

#: Reads a file of another format: table of ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``, key and order columns.
ReadOther = Callable[[LiveFile], pa.Table]
#: Names of the key columns in a file, and of the order columns that it has.
_Names = tuple[tuple[str, ...], tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class ParquetKeyReader:
    """Opens data files of one table for their keys.

    key_fields    trimmed primary key
    read_other    for files that are not Parquet
    order_fields  columns of ``sequence.field``
    """

    store: ObjectStore
    key_fields: tuple[Field, ...]
    read_other: ReadOther
    order_fields: tuple[Field, ...] = ()
    _found: dict[bytes, _Names] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key_types(self) -> tuple[DataType, ...]:
        """Types of the trimmed primary key."""
        return tuple(f.type for f in self.key_fields)

    def open(self, file: LiveFile) -> OpenKeyFile:
        """Open one data file; threads may open different files at once."""
        if not file.path.endswith(".parquet"):
            return _Other(file, self.key_fields, self.order_fields, self.read_other)
        opened = open_key_file(self.store, file.path, file.meta.file_size)
        return _Parquet(opened, self.key_fields, self.order_fields, self._found)


@dataclass(frozen=True, slots=True)
class _Parquet:
    file: KeyFile
    key_fields: tuple[Field, ...]
    order_fields: tuple[Field, ...]
    found: dict[bytes, _Names]

    def footer(self) -> KeyFooter:
        """Read the key index in the footer; an empty one for formats and writers that leave none."""
        return parse_footer(self.file.metadata.metadata, self.file.path)

    def read(self, wanted: KeyCodes | None, metrics: IndexMetrics, *, versions: bool = False) -> KeyRows:
        """Read the key columns, and nothing else.

        wanted    leave out row groups that hold none of these keys; None reads all
        versions  with sequence numbers, row kinds and what else orders the records of a key
        """
        names, order = self._names()
        order = order if versions else ()
        groups = list(range(self.file.metadata.num_row_groups))
        if wanted is not None and len(self.key_fields) == 1 and _prunable(self.key_fields[0]):
            groups = groups_that_may_hold(self.file, names[0], wanted)
        extra = [SEQUENCE_NUMBER, VALUE_KIND, *(n for n in order if n and n not in names)] if versions else []
        table = read_key_columns(self.file, [*names, *extra], groups, metrics)
        columns = [_as(table.column(n), f) for n, f in zip(names, self.key_fields, strict=True)]
        keys = pa.Table.from_arrays(columns, names=[f.name for f in self.key_fields])
        return KeyRows(
            key_codes(columns, [f.type for f in self.key_fields]),
            table.column(SEQUENCE_NUMBER).to_numpy() if versions else None,
            table.column(VALUE_KIND).to_numpy().astype(np.int8) if versions else None,
            keys,
            tuple(_order(table, n, f) for n, f in zip(order, self.order_fields, strict=False)),
        )

    def holds_deletes(self) -> bool:
        """Return True when a row is of kind -U or -D; reads the column of row kinds."""
        groups = range(self.file.metadata.num_row_groups)
        kinds = read_key_columns(self.file, [VALUE_KIND], groups, IndexMetrics()).column(VALUE_KIND)
        return bool(is_retract(kinds.to_numpy()).any())

    def _names(self) -> _Names:
        # The files of a table have few schemas.
        schema = self.file.chunks.schema
        if schema not in self.found:
            by_id, present = self._columns()
            keys = tuple(self._find(f, by_id, present) for f in self.key_fields)
            order = tuple(by_id.get(f.id) or (f.name if f.name in present else None) for f in self.order_fields)
            self.found[schema] = keys, order
        return self.found[schema]

    def _columns(self) -> tuple[dict[int, str], set[str]]:
        by_id: dict[int, str] = {}
        names: set[str] = set()
        for column in self.file.rows.schema_arrow:
            names.add(column.name)
            text = (column.metadata or {}).get(_FIELD_ID)
            if text is not None:
                by_id[int(text)] = column.name
        return by_id, names

    def _find(self, f: Field, by_id: dict[int, str], present: set[str]) -> str:
        found = by_id.get(f.id + KEY_FIELD_ID) or by_id.get(f.id)
        if found is None:
            found = next((n for n in (f"_KEY_{f.name}", f.name) if n in present), None)
        if found is None:
            raise CorruptFileError(f"the file has no column for key {f.name!r}", path=self.file.path)
        return found


@dataclass(frozen=True, slots=True)
class _Other:
    file: LiveFile
    key_fields: tuple[Field, ...]
    order_fields: tuple[Field, ...]
    read_other: ReadOther

    def footer(self) -> KeyFooter:
        return KeyFooter()

    def holds_deletes(self) -> bool:
        return bool(is_retract(self.read_other(self.file).column(VALUE_KIND).to_numpy()).any())

    def read(self, wanted: KeyCodes | None, metrics: IndexMetrics, *, versions: bool = False) -> KeyRows:
        table = self.read_other(self.file)
        metrics.files_read += 1
        metrics.rows_read += table.num_rows
        keys = table.select([f.name for f in self.key_fields])
        return KeyRows(
            key_codes(keys.columns, [f.type for f in self.key_fields]),
            table.column(SEQUENCE_NUMBER).to_numpy() if versions else None,
            table.column(VALUE_KIND).to_numpy().astype(np.int8) if versions else None,
            keys,
            tuple(_order(table, f.name, f) for f in self.order_fields if versions),
        )


#: A data file opened for its keys.
OpenKeyFile = _Parquet | _Other


def _prunable(f: Field) -> bool:
    """Return True when the column's statistics compare with its codes."""
    return has_int_view(f.type) or f.type.root in STRING_ROOTS or f.type.root in BYTES_ROOTS


def _order(table: pa.Table, name: str | None, f: Field) -> pa.ChunkedArray:
    """Read a column of ``sequence.field``; nulls where the file is older than the column."""
    if name is None:
        return pa.chunked_array([pa.nulls(table.num_rows, to_arrow(f.type))])
    return _as(table.column(name), f)


def _as(column: pa.ChunkedArray, f: Field) -> pa.ChunkedArray:
    """Cast the column to the Arrow type its codes are made of (other writers' files may carry another one of the same values)."""
    wanted = to_arrow(f.type)
    return column if column.type == wanted else column.cast(wanted)
