"""Layouts of rows that have kinds: without them, with them at the end, or as Paimon's two system tables.

=========  ============================================================================================================
layout     columns
=========  ============================================================================================================
plain      those of the table; retracts (-U, -D) are left out
kinds      those of the table, then `ROW_KIND`
audit_log  ``rowkind``, then those of the table
binlog     ``rowkind``, then each column as an array: its value, or before and after an update (one row for -U and +U)
=========  ============================================================================================================

With option ``table-read.sequence-number.enabled`` both system tables have ``_SEQUENCE_NUMBER`` after ``rowkind``; of an update in
one row it is that of the row after, which Java's reader of it fails on.

source   org.apache.paimon.table.system.AuditLogTable, BinlogTable, org.apache.paimon.reader.PackChangelogReader, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER
from lakeidx.types import MAX_LENGTH, DataType, Field, Root, to_arrow_schema

#: Column that says what became of a row: ``+I``, ``-U``, ``+U`` or ``-D``.
ROW_KIND = "_rowkind"
#: What Paimon calls that column.
SYSTEM_ROW_KIND = "rowkind"


class Layout(StrEnum):
    """Layouts of rows with kinds; see the table above."""

    PLAIN = "plain"
    KINDS = "kinds"
    AUDIT_LOG = "audit_log"
    BINLOG = "binlog"

    @property
    def kind_columns(self) -> tuple[str, ...]:
        """The name of the column with the kinds; nothing for plain rows."""
        if self is Layout.PLAIN:
            return ()
        return (ROW_KIND,) if self is Layout.KINDS else (SYSTEM_ROW_KIND,)

    def numbers(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the name of the column with sequence numbers, where there is one."""
        system = self in (Layout.AUDIT_LOG, Layout.BINLOG)
        wanted = schema.table_options.table_read_sequence_number_enabled and bool(schema.primary_keys)
        return (SEQUENCE_NUMBER,) if system and wanted else ()

    def fields(self, schema: TableSchema, columns: Sequence[str]) -> list[Field]:
        """Return the columns of the rows.

        errors   InvalidInputError when a column of the table has the name of the kind's column
        """
        fields = [schema.field(n) for n in columns]
        if self is Layout.PLAIN:
            return fields
        (name,) = self.kind_columns
        if name in columns:
            raise InvalidInputError(
                f"the table has a column {name!r}, the name of the row kind's: leave it out, or rename it"
            )
        kind = Field(-1, name, DataType(Root.VARCHAR, nullable=False, length=MAX_LENGTH))
        if self is Layout.KINDS:
            return [*fields, kind]
        if self is Layout.BINLOG:
            fields = [replace(f, type=_listed(f.type)) for f in fields]
        numbers = [Field(-1, n, DataType(Root.BIGINT, nullable=False)) for n in self.numbers(schema)]
        return [kind, *numbers, *fields]

    def arrow_schema(self, schema: TableSchema, columns: Sequence[str]) -> pa.Schema:
        """Return the columns of the rows in Arrow's types; errors as for `fields`."""
        return to_arrow_schema(self.fields(schema, columns))

    def lay_out(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Lay out rows that have their kinds in a last column `ROW_KIND` (except the plain ones), after any sequence numbers."""
        if self is Layout.BINLOG:
            yield from _binlog(tables)
        elif self is Layout.AUDIT_LOG:
            for rows in tables:
                names = [ROW_KIND, *_system_first(rows.column_names[:-1])]
                yield rows.select(names).rename_columns({ROW_KIND: SYSTEM_ROW_KIND})
        else:
            yield from tables


def _listed(t: DataType) -> DataType:
    """Return the type of arrays of a column's values."""
    return DataType(Root.ARRAY, t.nullable, element=t.with_nullable(True))


def _binlog(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Pack each -U with the +U after it, also across tables."""
    held: pa.Table | None = None
    for rows in tables:
        if held is not None:
            rows = pa.concat_tables([held, rows])
            held = None
        if rows.num_rows and rows.column(ROW_KIND)[-1].as_py() == "-U":
            held = rows.slice(rows.num_rows - 1)
            rows = rows.slice(0, rows.num_rows - 1)
        if rows.num_rows:
            yield _packed(rows)
    if held is not None:
        yield _packed(held)


def _packed(rows: pa.Table) -> pa.Table:
    """Make every value an array of one, or of two for a -U that a +U follows."""
    kinds = rows.column(ROW_KIND).combine_chunks()
    before, after = (pc.equal(kinds, k).to_numpy(zero_copy_only=False) for k in ("-U", "+U"))
    second = np.zeros(rows.num_rows, np.bool_)
    second[1:] = before[:-1] & after[1:]
    starts = np.flatnonzero(~second)
    offsets = pa.array(np.append(starts, rows.num_rows).astype(np.int32))
    last = np.append(starts[1:], rows.num_rows) - 1
    ends = pa.array(last)
    names = _system_first(rows.column_names[:-1])
    columns = [rows.column(n).take(ends) if n == SEQUENCE_NUMBER else _lists(offsets, rows.column(n)) for n in names]
    return pa.table([kinds.take(ends), *columns], names=[SYSTEM_ROW_KIND, *names])


def _lists(offsets: pa.Array, column: pa.ChunkedArray) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, _whole(column), type=pa.list_(pa.field("element", column.type)))


def _system_first(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda n: n != SEQUENCE_NUMBER)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
