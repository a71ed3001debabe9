"""Checks of a caller's keys, and answers in the order of the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.columns import is_text
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.declared import pad_char
from lakeidx.data.rows import take_column, take_rows
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.lookup.packed import take_spans
from lakeidx.lookup.versions import Versions, merge_versions
from lakeidx.types import to_arrow


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Answers to n keys, in their order.

    found   bool[n]
    rows    n rows of the table's columns, all null where nothing was found
    """

    found: npt.NDArray[np.bool_]
    rows: pa.Table


def _key_columns_of(keys: pa.Table, schema: TableSchema) -> pa.Table:
    """Return the primary key's columns of a table in their own types."""
    names = list(schema.primary_keys)
    missing = [n for n in names if n not in keys.column_names]
    extra = [n for n in keys.column_names if n not in names]
    if missing or extra:
        wrong = f"{missing[0]!r} is missing" if missing else f"{extra[0]!r} is not one of them"
        raise InvalidInputError(f"a key has the columns {', '.join(names)}: {wrong}")
    columns = []
    for name in names:
        target = to_arrow(schema.field(name).type)
        try:
            columns.append(pad_char(_without_loss(keys.column(name), target), schema.field(name).type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInputError(f"key column {name!r} is {schema.field(name).type}: {error}") from error
    return pa.Table.from_arrays(columns, names=names)


def _without_loss(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Cast keys; ArrowInvalid when the key would be another one, where Arrow's safe casts round without a word."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type == target:
        return column
    cast, given = column.cast(target), column.type
    if pa.types.is_binary(target) and is_text(given):
        raise pa.ArrowInvalid("a text may be hex digits, as in rows that are written, or characters: give bytes")
    if pa.types.is_floating(given):
        rounds = pa.types.is_decimal(target) or pa.types.is_boolean(target)
    elif pa.types.is_timestamp(given):
        rounds = pa.types.is_date(target) or pa.types.is_time(target)
    else:
        rounds = pa.types.is_integer(given) and pa.types.is_boolean(target)
    if rounds:
        lost = pc.not_equal(cast.cast(given), column)
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid(f"{column.filter(lost)[0].as_py()!r} is no value of it")
    return cast


def _without_nulls(keys: pa.Table) -> npt.NDArray[np.int64] | None:
    """Return the rows without a null; None when all are."""
    if not any(c.null_count for c in keys.columns):
        return None
    valid = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        valid &= column.is_valid().to_numpy()
    return np.flatnonzero(valid)


def complete_keys(keys: pa.Table, schema: TableSchema) -> tuple[pa.Table, npt.NDArray[np.int64] | None, pa.Table]:
    """Return the keys in their own types, the rows of those without a null (None: all), and these keys.

    errors   InvalidInputError naming a column that is missing, is none of the key's, or does not cast without loss
    """
    asked = _key_columns_of(keys, schema)
    complete = _without_nulls(asked)
    return asked, complete, asked if complete is None else asked.take(pa.array(complete))


def take_row_bytes(rows: RowBytes, which: npt.NDArray[np.int64]) -> RowBytes:
    """Take some of the byte strings; without a copy when it is all of them."""
    if len(which) == len(rows) and (len(which) == 0 or bool((np.diff(which) == 1).all())):
        return rows
    starts = rows.offsets[which]
    return take_spans(rows.data.ctypes.data + starts, rows.offsets[which + 1] - starts)


def in_key_order(
    found: Sequence[Versions], schema: TableSchema, n: int, complete: npt.NDArray[np.int64] | None
) -> LookupResult:
    """Resolve the versions of each key to one row.

    n          keys asked
    complete   which of them `found` counts; None: all
    """
    # A key that is not there has nulls in all columns.
    wanted = schema.once("lookup_schema", lambda: pa.schema([f.with_nullable(True) for f in schema.arrow_schema]))
    found = [
        Versions(v.asked, v.kv.cast(pa.schema([(SEQUENCE_NUMBER, pa.int64()), (VALUE_KIND, pa.int8()), *wanted])))
        for v in found
        if len(v.asked)
    ]
    at = np.zeros(n, np.int64)
    is_found = np.zeros(n, np.bool_)
    if not found:
        # One array of all columns: they share their memory.
        nulls = pa.nulls(n, pa.struct(list(wanted)))
        return LookupResult(is_found, pa.Table.from_arrays([nulls.field(i) for i in range(len(wanted))], schema=wanted))
    merged = merge_versions(found, schema)
    asked = merged.asked if complete is None else complete[merged.asked]
    at[asked], is_found[asked] = np.arange(len(asked)), True
    indices = pa.array(at, mask=~is_found)
    columns = [take_column(merged.kv.column(f.name), indices) for f in wanted]
    return LookupResult(is_found, pa.Table.from_arrays(columns, schema=wanted))


def first_found(results: Sequence[LookupResult]) -> LookupResult:
    """Merge several answers to the same n keys: for each key the first that has it."""
    if len(results) == 1:
        return results[0]
    n = len(results[0].found)
    chosen = np.zeros(n, np.int64)
    is_found = np.zeros(n, np.bool_)
    for i, result in enumerate(results):
        fresh = result.found & ~is_found
        chosen[fresh] = i * n + np.flatnonzero(fresh)
        is_found |= fresh
    # Where no one has a key, the first answer's row is the row of nulls.
    chosen[~is_found] = np.flatnonzero(~is_found)
    return LookupResult(is_found, take_rows(pa.concat_tables([r.rows for r in results]), chosen))
