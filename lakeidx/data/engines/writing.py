"""Merge options that act on rows before they are written: row kinds from a column, rows dropped by kind.

source   org.apache.paimon.table.sink.RowKindGenerator, org.apache.paimon.table.sink.{RowKindFilter, TableWriteImpl},
         release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.engines.runs import kinds_of, one_chunk
from lakeidx.data.row_kinds import SHORT_NAMES, UPDATE_BEFORE, is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema


def apply_write_options(kv: pa.Table, schema: TableSchema) -> pa.Table:
    """Drop the rows that are not written: -D and -U by ``ignore-delete``, -U by ``ignore-update-before``.

    kv   key-value table in input order; `_SEQUENCE_NUMBER` is ignored (dropped rows take no number)
    """
    options = schema.table_options
    if not options.ignore_delete and not options.ignore_update_before:
        return kv
    kinds = kinds_of(kv)
    dropped = is_retract(kinds) if options.ignore_delete else kinds == UPDATE_BEFORE
    return kv.filter(pa.array(~dropped)) if bool(np.any(dropped)) else kv


def kinds_by_column(values: pa.ChunkedArray, own: pa.ChunkedArray | None, name: str) -> pa.Array:
    """Return the kinds (int8) that rows have by their column ``rowkind.field``, in either case as in Java.

    own      the kinds they came with; a delete by its key alone has no value in the column, and stays one
    name     of the column
    errors   InvalidInputError for a value that is null or unknown
    """
    codes = one_chunk(pc.index_in(pc.utf8_upper(values.cast(pa.string())), pa.array(SHORT_NAMES)))
    if codes.null_count and own is not None:
        keyed = is_retract(one_chunk(own).to_numpy()) & one_chunk(values.is_null()).to_numpy(zero_copy_only=False)
        codes = pc.if_else(pa.array(keyed), one_chunk(own).cast(codes.type), codes)
    if codes.null_count:
        first = codes.is_null().index(True).as_py()
        value = values[first].as_py()
        found = "null" if value is None else repr(value)
        raise InvalidInputError(
            f"option 'rowkind.field': column {name!r} must hold one of {', '.join(SHORT_NAMES)}, not {found} (row {first})"
        )
    return codes.cast(pa.int8())
