"""What merge options do to rows before they are written: row kinds from a column, rows dropped by kind.

source   org.apache.paimon.table.sink.RowKindGenerator, org.apache.paimon.table.sink.{RowKindFilter, TableWriteImpl},
         release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.engines.runs import kinds_of, one_array
from lakeidx.data.row_kinds import SHORT_NAMES, UPDATE_BEFORE, is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND


def apply_write_options(kv: pa.Table, schema: TableSchema) -> pa.Table:
    """Apply defaults and checks to the rows before they are written.

    kv       key-value table in input order; `_SEQUENCE_NUMBER` is ignored (dropped rows take no number)
    returns  the rows left, with `_VALUE_KIND` from ``rowkind.field`` if that is set; -D and -U dropped by
             ``ignore-delete``, -U by ``ignore-update-before``
    errors   InvalidInputError for a row kind that is null or unknown
    """
    options = schema.table_options
    if options.rowkind_field is not None:
        kv = _with_kinds_of_column(kv, options.rowkind_field)
    if not options.ignore_delete and not options.ignore_update_before:
        return kv
    kinds = kinds_of(kv)
    dropped = is_retract(kinds) if options.ignore_delete else kinds == UPDATE_BEFORE
    return kv.filter(pa.array(~dropped)) if bool(np.any(dropped)) else kv


def _with_kinds_of_column(kv: pa.Table, name: str) -> pa.Table:
    column = kv.column(name)
    codes = pc.index_in(column, pa.array(SHORT_NAMES, column.type), skip_nulls=False)
    if codes.null_count:
        first = one_array(codes.is_null()).index(True).as_py()
        value = column[first].as_py()
        found = "null" if value is None else repr(value)
        raise InvalidInputError(
            f"option 'rowkind.field': column {name!r} must hold one of {', '.join(SHORT_NAMES)}, not {found} (row {first})"
        )
    at = kv.schema.get_field_index(VALUE_KIND)
    return kv.set_column(at, kv.schema.field(at), codes.cast(pa.int8()))


def sequence_fields(schema: TableSchema) -> tuple[tuple[str, ...], bool]:
    """Return the columns that order the rows of a key before the sequence number, and whether larger values come first.

    returns   (names of ``sequence.field``, True for ``sequence.field.sort-order`` = descending); nulls come before all
              values in either order
    errors    InvalidInputError naming a column that does not exist, is named twice, has an aggregate function or no
              order, or a first-row table with sequence fields
    """
    options = schema.table_options
    names = options.sequence_field
    for name in names:
        if name not in schema.fields_by_name:
            raise InvalidInputError(f"option 'sequence.field': column {name!r} does not exist")
        t = schema.field(name).type
        if t.is_nested or t.root.value == "VARIANT":
            raise InvalidInputError(f"option 'sequence.field': column {name!r} of {t} has no order")
        if options.field_option(name, "aggregate-function") is not None:
            raise InvalidInputError(
                f"options 'sequence.field' and 'fields.{name}.aggregate-function': a sequence column has no function"
            )
    if len(set(names)) != len(names):
        raise InvalidInputError("option 'sequence.field' names a column twice")
    if names and options.merge_engine == "first-row":
        raise InvalidInputError("option 'sequence.field' cannot be combined with merge engine first-row")
    return names, options.sequence_field_sort_order == "descending"
