"""Landing files of any format whose rows have their operation in a column: ``Op`` of AWS DMS, or one of another name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cdc.encodings import order_values
from lakeidx.landing.cdc.target import ChangeTarget, make_target
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.read import read_landing
from lakeidx.landing.text.shares import TextShare
from lakeidx.landing.types import LandingOptions, Piece
from lakeidx.storage.base import ObjectStore
from lakeidx.types import Field, parse_type

#: What AWS DMS writes into its column.
DMS_COLUMN = "Op"
_DMS_VALUES = {"I": "+I", "U": "+U", "D": "-D"}


def read_with_op_column(
    store: ObjectStore, path: str, schema: TableSchema, options: LandingOptions, share: TextShare | None = None
) -> Iterator[Piece]:
    """Read the pieces of a landing file whose rows have a column of operations.

    share    of a text file: what is read of it
    errors   as `lakeidx.landing.read.read_landing`; InvalidInputError without that column (files of a full load by AWS DMS
             have none: their rows are inserts)
    """
    target = make_target(schema, options, path)
    dms = options.format == "dms"
    column = options.op_column or DMS_COLUMN
    values = dict(options.op_values) or _DMS_VALUES
    text = parse_type("STRING")
    found_in = {path_of[0]: name for name, path_of in target.order.items()}
    helpers = [n for n in (column, *found_in) if n not in target.names]
    fields = (*target.fields, *(Field(-1, n, text) for n in dict.fromkeys(helpers)))
    plain = replace(options, format=None if dms else options.format, op_column=None, op_values=(), order=())
    keys = (*schema.primary_keys, *schema.partition_keys)
    for piece in read_landing(store, path, fields, plain, keys=keys, share=share):
        if piece.extra:
            _refuse_order_columns(piece, target, path)
            yield piece
            continue
        rows = piece.rows
        there = column in rows.column_names and (not dms or rows.column(column).null_count < rows.num_rows)
        if not there and not dms:
            raise InvalidInputError(f"the landing file has no column {column!r} with the operations", path=path)
        kinds = _kinds(rows.column(column), values) if there else pa.array(["+I"] * rows.num_rows, pa.string())
        ordered = {}
        for source, name in found_in.items():
            if source not in rows.column_names:
                raise InvalidInputError(
                    f"the landing file has no column {source!r}, the order of its changes", path=path
                )
            ordered[name] = order_values(rows.column(source).combine_chunks(), source, "ms", schema.field(name).type)
        # A source may have the name of the column that its values go into.
        taken = {*helpers, KIND_COLUMN} - set(target.names)
        rows = rows.drop_columns([n for n in rows.column_names if n in taken])
        for name, values_of in (ordered | {KIND_COLUMN: kinds}).items():
            rows = rows.append_column(name, values_of)
        yield replace(piece, rows=rows)


def _refuse_order_columns(piece: Piece, target: ChangeTarget, path: str) -> None:
    taken = sorted(set(piece.extra) & set(target.order))
    if taken:
        raise InvalidInputError(
            f"the landing file has a column {taken[0]!r}, which gets the order of the changes: leave it out of the file, or name "
            "it as the order",
            path=path,
        )


def _kinds(ops: pa.ChunkedArray, values: dict[str, str]) -> pa.Array:
    """Turn operations into kinds; what is none stays as it is, for the cast to refuse it by name."""
    texts = pc.cast(ops, pa.string()).combine_chunks()
    at = pc.index_in(texts, value_set=pa.array(list(values)))
    known = pa.array(list(values.values())).take(at)
    other = pc.binary_join_element_wise("operation", pc.fill_null(texts, "null"), " ")
    return pc.coalesce(known, other)
