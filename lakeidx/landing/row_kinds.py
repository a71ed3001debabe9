"""Row kinds: the short names of landing files to the codes of data files.

source   org.apache.paimon.types.RowKind, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.row_kinds import SHORT_NAMES, is_retract
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND

KIND_COLUMN = "_kind"


def kind_codes(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """Convert row kind strings to codes (int8); null means +I.

    returns  codes, and bool[n] of rows whose kind is unknown (None when all are known)
    """
    text = pc.cast(column, pa.string())
    if isinstance(text, pa.ChunkedArray):
        text = text.combine_chunks()
    position = pc.index_in(pc.fill_null(text, "+I"), pa.array(SHORT_NAMES))
    unknown = np.asarray(pc.is_null(position)) if position.null_count else None
    return pc.cast(pc.fill_null(position, 0), pa.int8()), unknown


def kinds_of_rows(rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int8]:
    """Return int8[n]: the kinds of rows that are cast, by the column of option ``rowkind.field`` where the table has one.

    A text there that is no kind counts as what the row came with; it is refused where rows are written.
    """
    kinds = np.zeros(rows.num_rows, np.int8)
    if VALUE_KIND in rows.column_names:
        kinds = rows.column(VALUE_KIND).to_numpy().astype(np.int8)
    named = schema.table_options.rowkind_field
    if named is None:
        return kinds
    codes = pc.index_in(pc.utf8_upper(pc.cast(rows.column(named), pa.string())), pa.array(SHORT_NAMES))
    return np.where(np.asarray(pc.is_null(codes)), kinds, np.asarray(pc.fill_null(codes, 0))).astype(np.int8)


def has_upserts(rows: pa.Table) -> bool:
    """Return True unless every row deletes its key."""
    if KIND_COLUMN not in rows.column_names:
        return bool(rows.num_rows > 0)
    codes, unknown = kind_codes(rows.column(KIND_COLUMN))
    upserts = ~is_retract(np.asarray(codes))
    return bool(upserts.any() if unknown is None else (upserts & ~unknown).any())
