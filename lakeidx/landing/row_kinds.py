"""Row kinds: the short names of landing files to the codes of data files.

source   org.apache.paimon.types.RowKind, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.row_kinds import SHORT_NAMES, is_retract

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


def has_upserts(rows: pa.Table) -> bool:
    """Return True unless every row deletes its key."""
    if KIND_COLUMN not in rows.column_names:
        return bool(rows.num_rows > 0)
    codes, unknown = kind_codes(rows.column(KIND_COLUMN))
    upserts = ~is_retract(np.asarray(codes))
    return bool(upserts.any() if unknown is None else (upserts & ~unknown).any())
