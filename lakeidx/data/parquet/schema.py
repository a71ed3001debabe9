"""The columns of a data file and their Parquet types, as Paimon lays them out.

A data file of a primary-key table holds, in this order::

    _KEY_<name>        every trimmed primary-key column, required; field id = the column's id + 1073741823
    _SEQUENCE_NUMBER   INT64, required, field id 2147483646
    _VALUE_KIND        INT32 INT(8, signed), required, field id 2147483645: 0 +I, 1 -U, 2 +U, 3 -D
    <all columns>      in schema order, partition and key columns included

In thin mode (`data-file.thin-mode`) the ``_KEY_`` columns are left out; files of append tables hold the table's columns
only.

=========================  =============================================================================================
Paimon type                Parquet type
=========================  =============================================================================================
TINYINT, SMALLINT          INT32 INT(8) / INT(16)
DECIMAL p <= 9, 18, 38     INT32, INT64, FIXED_LEN_BYTE_ARRAY(smallest n)
TIME                       INT32 TIME(MILLIS, isAdjustedToUTC=true)
TIMESTAMP p <= 3, 6, 9     INT64 MILLIS, INT64 MICROS, INT96; isAdjustedToUTC=false, true for LTZ
ARRAY                      3-level group ``list`` / ``element``
MAP, MULTISET              group ``key_value`` / ``key`` (required), ``value``
VARIANT                    group of two required binaries ``value``, ``metadata`` (field ids 0 and 1)
=========================  =============================================================================================

Field ids inside a column of id f at depth d (1 for its own elements, one more per further array or map; fields of a ROW
have their own ids and start again at depth 0): element and map value ``536870911 + 1024 f + d``, map key
``536870911 - 1024 f - d``.

source   org.apache.paimon.format.parquet.ParquetSchemaConverter, org.apache.paimon.table.SpecialFields; release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from lakeidx.format.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Field, Root, to_arrow

SYSTEM_COLUMNS = (SEQUENCE_NUMBER, VALUE_KIND)

_KEY_FIELD_ID_START = 1073741823
_SEQUENCE_NUMBER_ID = 2147483646
_VALUE_KIND_ID = 2147483645

_NESTED_ID_BASE = 536870911
_NESTED_IDS_PER_COLUMN = 1024
_FIELD_ID = b"PARQUET:field_id"

_SEQUENCE_FIELD = Field(_SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, DataType(Root.BIGINT, nullable=False))
_KIND_FIELD = Field(_VALUE_KIND_ID, VALUE_KIND, DataType(Root.TINYINT, nullable=False))


def key_field(field: Field) -> Field:
    """Return the ``_KEY_`` column of a primary-key column; it may be null where ``primary-key.nullable`` lets the column be."""
    return Field(_KEY_FIELD_ID_START + field.id, KEY_PREFIX + field.name, field.type)


def file_fields(fields: Sequence[Field], key_names: Sequence[str], *, thin: bool = False) -> tuple[Field, ...]:
    """Return all columns of a data file, in file order.

    fields     the table's columns
    key_names  the trimmed primary key in key order; empty for an append table
    thin       leave out the ``_KEY_`` columns
    """
    if not key_names:
        return tuple(fields)
    by_name = {f.name: f for f in fields}
    keys = () if thin else tuple(key_field(by_name[name]) for name in key_names)
    return (*keys, _SEQUENCE_FIELD, _KIND_FIELD, *fields)


def parquet_arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the Arrow schema that makes the Parquet writer give every column its Paimon type, repetition and field id."""
    return pa.schema([_with_id(f.name, f.type, f.id, f.id, 0) for f in fields])


@cache
def is_int96(t: DataType) -> bool:
    """Return True for the timestamps that Parquet keeps as INT96 (precision above 6): without statistics, PLAIN only."""
    return t.root in TIMESTAMP_ROOTS and t.precision > 6


def holds_int96(t: DataType) -> bool:
    """Return True when the type or anything nested in it is stored as INT96."""
    if is_int96(t):
        return True
    nested = [c for c in (t.key, t.element) if c is not None] + [f.type for f in t.fields]
    return any(holds_int96(c) for c in nested)


def element_id(column_id: int, depth: int) -> int:
    """Return the field id of the element of an array, or of the value of a map."""
    return _NESTED_ID_BASE + _NESTED_IDS_PER_COLUMN * column_id + depth


def map_key_id(column_id: int, depth: int) -> int:
    """Return the field id of the key of a map, or of the element of a multiset."""
    return _NESTED_ID_BASE - _NESTED_IDS_PER_COLUMN * column_id - depth


def _with_id(name: str, t: DataType, field_id: int, column_id: int, depth: int) -> pa.Field:
    """Add field ids: `column_id` and `depth` locate the type inside arrays and maps, `field_id` is this field's own."""
    return pa.field(name, _nested(t, column_id, depth), t.nullable, metadata={_FIELD_ID: str(field_id).encode()})


def _nested(t: DataType, column_id: int, depth: int) -> pa.DataType:
    if t.root is Root.ROW:
        return pa.struct([_with_id(f.name, f.type, f.id, f.id, 0) for f in t.fields])
    if t.root is Root.VARIANT:
        return pa.struct(
            [
                pa.field(name, pa.binary(), False, metadata={_FIELD_ID: str(i).encode()})
                for i, name in enumerate(("value", "metadata"))
            ]
        )
    inner = depth + 1
    if t.root is Root.ARRAY:
        assert t.element is not None
        return pa.list_(_with_id("element", t.element, element_id(column_id, inner), column_id, inner))
    if t.root in (Root.MAP, Root.MULTISET):
        assert t.element is not None
        key, value = (t.key, t.element) if t.key is not None else (t.element, DataType(Root.INT, nullable=False))
        return pa.map_(
            _with_id("key", key.with_nullable(False), map_key_id(column_id, inner), column_id, inner),
            _with_id("value", value, element_id(column_id, inner), column_id, inner),
        )
    return to_arrow(t)
