"""Casts of landing columns to the table's types, column by column, with the rows that cannot be cast.

Columns that have their type go through as they are; `lakeidx.landing.cast_values` casts all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.declared import fit_declared, has_ranges
from lakeidx.data.nested_nulls import without_hidden_nulls
from lakeidx.errors import InvalidInputError
from lakeidx.types import (
    NESTED_ROOTS,
    STRING_ROOTS,
    DataType,
    Root,
    to_arrow,
)

_LISTS = ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list))
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


@dataclass(frozen=True, slots=True)
class CastColumn:
    """A cast column.

    values   array of the wanted type; null where the cast failed
    failed   bool[n], None when every value was cast
    """

    values: pa.Array
    failed: np.ndarray | None = None


def cast_column(column: pa.ChunkedArray | pa.Array, wanted: DataType, *, as_stored: bool = False) -> CastColumn:
    """Cast a column to a Paimon type's Arrow type; values that do not fit are marked, not guessed.

    Text is read as SQL would: ISO dates and times, decimal numbers, hex for binary, true/false.
    A fraction that the Arrow type cannot hold, an overflow and a text that is no such value fail; what the declared length or
    precision does to values is up to `lakeidx.data.declared`.

    as_stored   values are those of a table: they are kept though they do not fit
    errors      InvalidInputError when values of the column's type never cast to the wanted one
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=column.type)
    cast = cast_array(array, wanted)
    if wanted.root in NESTED_ROOTS or wanted.root is Root.VARIANT:
        if not as_stored and has_ranges(wanted):
            from lakeidx.landing.cast_nested import cast_nested

            cast = failing_too(cast_nested(cast.values, wanted), cast.failed)
        values, bad = without_hidden_nulls(cast.values)
        return failing_too(CastColumn(values, cast.failed), bad, settle=True)
    if as_stored:
        return cast
    values, unfit = fit_declared(cast.values, wanted)
    return failing_too(CastColumn(values, unfit), cast.failed)


def failing_too(cast: CastColumn, failed: np.ndarray | None, *, settle: bool = False) -> CastColumn:
    """Fail more rows of a column; `settle`: they have values that are to become null."""
    if failed is None:
        return cast
    values = cast.values
    if settle:
        values = without_hidden_nulls(pc.if_else(pa.array(failed), pa.scalar(None, values.type), values))[0]
    return CastColumn(values, failed if cast.failed is None else cast.failed | failed)


def plain(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return values in a layout that all kernels have; few have views (Polars), short decimals, run ends or extensions.

    errors   InvalidInputError for a type that nothing can be made of
    """
    wanted = _plain_type(values.type)
    try:
        if pa.types.is_run_end_encoded(values.type):
            return plain(pc.run_end_decode(values))
        return values if wanted == values.type else values.cast(wanted)
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(f"values of {values.type} cannot be read; cast them to {wanted}") from error


def _plain_type(t: pa.DataType) -> pa.DataType:
    if isinstance(t, pa.BaseExtensionType):
        return _plain_type(t.storage_type)
    if pa.types.is_struct(t):
        return pa.struct([_plain_field(f) for f in t])
    if pa.types.is_map(t):
        if pa.types.is_null(t.key_type):
            # Arrow makes such maps of none, and ends the process where a function copies one.
            raise InvalidInputError(
                f"{t} has no type for its keys: make the maps with one, as pa.map_(pa.string(), ...)"
            )
        return pa.map_(*(_plain_field(f) for f in (t.key_field, t.item_field)))
    if pa.types.is_decimal(t) and t.bit_width < 128:
        return pa.decimal128(t.precision, t.scale)
    if pa.types.is_fixed_size_list(t):
        return pa.list_(_plain_field(t.value_field), t.list_size)
    for is_of, make in _LISTS:
        if is_of(t):
            return make(_plain_field(t.value_field))
    return _PLAIN.get(t, t)


def _plain_field(f: pa.Field) -> pa.Field:
    """Return what a nested type holds in a plain layout; of dictionaries in it a part of a column would keep all texts."""
    return f.with_type(_plain_type(f.type.value_type if pa.types.is_dictionary(f.type) else f.type))


def cast_array(array: pa.Array, wanted: DataType) -> CastColumn:
    """Cast one array; what a declared length or precision does to values is not looked at. Errors as for `cast_column`."""
    target = to_arrow(wanted)
    if array.type == pa.uuid() and wanted.root in STRING_ROOTS:
        raise InvalidInputError(f"{array.type} does not cast to {wanted}: make it text first, or use BYTES")
    array = plain(array)
    if array.type == target:
        return CastColumn(array)
    from lakeidx.landing.cast_values import cast_changed

    return cast_changed(array, wanted, target)
