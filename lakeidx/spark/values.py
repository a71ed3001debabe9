"""Columns between a table and Spark: their types, and points in time by the rules of Spark.

==========================================  ==================================================================================
Paimon                                      Spark
==========================================  ==================================================================================
``TIMESTAMP(p)``                            ``TIMESTAMP_NTZ``: what a clock on the wall shows
``TIMESTAMP(p) WITH LOCAL TIME ZONE``       ``TIMESTAMP``: a point in time, which Spark shows by ``spark.sql.session.timeZone``
``TIME(p)``                                 ``TIME``, of at most 3 digits: Paimon keeps milliseconds
``CHAR``, ``MULTISET<e>``                   ``STRING``, ``MAP<e, INT>``
others                                      of the same name
==========================================  ==================================================================================

Spark keeps microseconds, so it sees points in time of more than 6 digits without the rest, as in Java.

An INSERT into a table of Spark's catalog is cast by Spark. Frames come as they are, and `in_zone` does the same to them.

source   org.apache.paimon.spark.SparkTypeUtils, release 1.4.2; org.apache.spark.sql.catalyst.util.DateTimeUtils, release 4.3
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lakeidx.data.cast import floor_moments
from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType, Field, Root, to_arrow

_SIMPLE: dict[Root, Callable[[], spark.DataType]] = {
    Root.CHAR: spark.StringType,
    Root.VARCHAR: spark.StringType,
    Root.BINARY: spark.BinaryType,
    Root.VARBINARY: spark.BinaryType,
    Root.BOOLEAN: spark.BooleanType,
    Root.TINYINT: spark.ByteType,
    Root.SMALLINT: spark.ShortType,
    Root.INT: spark.IntegerType,
    Root.BIGINT: spark.LongType,
    Root.FLOAT: spark.FloatType,
    Root.DOUBLE: spark.DoubleType,
    Root.DATE: spark.DateType,
    Root.TIMESTAMP: spark.TimestampNTZType,
    Root.TIMESTAMP_LTZ: spark.TimestampType,
    Root.VARIANT: spark.VariantType,
}
#: The setting by which Spark shows points in time.
TIME_ZONE = "spark.sql.session.timeZone"
_CASE_SENSITIVE = "spark.sql.caseSensitive"
_TIME_DIGITS = 3
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")

#: Gets the values of a leaf and the type that they are for.
_Leaf = Callable[[pa.Array, pa.DataType], pa.Array]


def check_names(frame: DataFrame) -> None:
    """Refuse to send rows to tasks when Spark takes two columns for one.

    errors   InvalidInputError
    """
    if frame.sparkSession.conf.get(_CASE_SENSITIVE) == "true":
        return
    seen: dict[str, str] = {}
    for name in frame.columns:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"columns {other} and {name} of the frame are one name to Spark: spark.conf.set('{_CASE_SENSITIVE}', 'true')"
            )


def _spark_type(t: DataType) -> spark.DataType:
    """Return Spark's type for the values of a column."""
    if t.root in _SIMPLE:
        return _SIMPLE[t.root]()
    if t.root is Root.DECIMAL:
        return spark.DecimalType(t.precision, t.scale)
    if t.root is Root.TIME:
        return spark.TimeType(min(t.precision, _TIME_DIGITS))
    if t.root is Root.ROW:
        return spark_schema(t.fields)
    assert t.element is not None
    if t.root is Root.ARRAY:
        return spark.ArrayType(_spark_type(t.element), t.element.nullable)
    if t.root is Root.MULTISET:
        return spark.MapType(_spark_type(t.element), spark.IntegerType(), False)
    assert t.key is not None
    return spark.MapType(_spark_type(t.key), _spark_type(t.element), t.element.nullable)


def spark_schema(fields: Sequence[Field]) -> spark.StructType:
    """Return columns in Spark's types."""
    return spark.StructType([spark.StructField(f.name, _spark_type(f.type), f.type.nullable) for f in fields])


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow types in which Spark takes columns; points in time as of UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Bring rows of a table into the types in which Spark takes them; a column that they do not have is null.

    errors   InvalidInputError naming the column, when a frame's own schema wants another type that cannot hold a value
    """
    arrays = []
    for field in wanted:
        if field.name not in rows.column_names:
            arrays.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(field.name)
        try:
            if not column.type.equals(field.type):
                column = _mapped(column, field.type, _for_spark)
            # Not otherwise: Arrow refuses what is null in a value that must not be null, also where the whole value is.
            if not column.type.equals(field.type):
                column = column.cast(field.type)
            arrays.append(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, InvalidInputError) as error:
            said = error.message if isinstance(error, InvalidInputError) else str(error).partition("\n")[0]
            raise InvalidInputError(f"column {field.name} cannot be read as {field.type}: {said}") from error
    return pa.Table.from_arrays(arrays, schema=wanted)


def in_zone(rows: pa.Table, fields: Sequence[Field], zone: str | None) -> pa.Table:
    """Turn a frame's points in time into what a clock of the session's zone shows, and back, as the table's columns want it.

    zone     `spark.sql.session.timeZone`; None where it is not known: only points in time bring theirs
    errors   InvalidInputError naming the column, when the zone is needed and not known, or when it cannot be looked up
    """
    types = {f.name: to_arrow(f.type) for f in fields}
    for i, name in enumerate(rows.column_names):
        column = rows.column(i)
        if name not in types or not _holds_times(column.type):
            continue
        try:
            turned = _mapped(column, types[name], lambda array, wanted: _turned(array, wanted, zone))
        except InvalidInputError as error:
            raise InvalidInputError(f"column {name}: {error.message}") from error
        rows = rows.set_column(i, name, turned)
    return rows


def _turned(array: pa.Array, wanted: pa.DataType, zone: str | None) -> pa.Array:
    t = array.type
    to_instant = pa.types.is_timestamp(wanted) and wanted.tz is not None
    if pa.types.is_timestamp(t) and t.tz is not None:
        shown = pa.types.is_timestamp(wanted) or pa.types.is_date(wanted) or pa.types.is_string(wanted)
        if to_instant or not shown:
            return array
        array = _looked_up(pc.local_timestamp, array, t.tz)
    if pa.types.is_timestamp(t) and pa.types.is_string(wanted):
        return _as_text(array)
    if not to_instant:
        return array
    if zone is None:
        raise InvalidInputError(
            "without a zone, it becomes a point in time by the session's, which tasks only know when it is set: "
            "spark.conf.set('spark.sql.session.timeZone', …), or cast the column to TIMESTAMP"
        )
    clock = array.cast(pa.timestamp("us")) if pa.types.is_date(t) else array
    return _looked_up(_point_in_time, clock, zone)


def _as_text(clock: pa.Array) -> pa.Array:
    """Write clocks as Spark does: of a second no digits that say nothing."""
    return pc.replace_substring_regex(pc.cast(clock, pa.string()), r"\.0*$|(\.\d*[1-9])0*$", r"\1")


def _looked_up(function: Callable[[pa.Array], pa.Array], array: pa.Array, zone: str) -> pa.Array:
    """Apply a function to values that carry a zone; they keep the count that they have."""
    offset = _OFFSET.fullmatch(zone)
    name = "UTC" if zone == "Z" else zone
    if offset is not None:
        name = f"{offset[1]}{offset[2]:0>2}:{offset[3] or '00'}"
    counted = array.cast(pa.timestamp(array.type.unit)) if array.type.tz is None else array
    try:
        return function(counted.cast(pa.int64()).cast(pa.timestamp(array.type.unit, name)))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"spark.sql.session.timeZone {zone!r} is not known here: write it as Europe/Berlin or as +01:00"
        ) from error


def _point_in_time(clock: pa.Array) -> pa.Array:
    """Return when clocks of the values' zone show what the values say.

    What they show twice is the earlier time. What they leave out is counted on from before: 02:30 is 03:30.
    """
    unit = clock.type.unit
    shown = clock.cast(pa.int64())
    near = pc.assume_timezone(
        shown.cast(pa.timestamp(unit)), clock.type.tz, ambiguous="earliest", nonexistent="earliest"
    )
    offset = pc.subtract(pc.local_timestamp(near).cast(pa.int64()), near.cast(pa.int64()))
    return pc.subtract(shown, offset).cast(pa.timestamp(unit, "UTC"))


def _for_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast, and leave out what Spark cannot hold of points in time."""
    t = array.type
    if pa.types.is_timestamp(t) and pa.types.is_timestamp(wanted):
        if (t.tz is None) is not (wanted.tz is None):
            there, here = ("TIMESTAMP_NTZ", "TIMESTAMP") if t.tz is None else ("TIMESTAMP", "TIMESTAMP_NTZ")
            raise InvalidInputError(f"the table has {there}: name it so in the frame's schema, and cast it to {here}")
        if t.unit == "ns":
            array = floor_moments(array, "us")
    return array.cast(wanted)


def _holds_times(t: pa.DataType) -> bool:
    if pa.types.is_timestamp(t) or pa.types.is_date(t):
        return True
    return any(_holds_times(t.field(i).type) for i in range(t.num_fields))


def _mapped(column: pa.ChunkedArray, wanted: pa.DataType, leaf: _Leaf) -> pa.ChunkedArray:
    """Apply a function to the leaves of a column, as far as it is nested like what is wanted."""
    return pa.chunked_array([_mapped_chunk(c, wanted, leaf) for c in column.chunks or [pa.nulls(0, column.type)]])


def _mapped_chunk(array: pa.Array, wanted: pa.DataType, leaf: _Leaf) -> pa.Array:
    t = array.type
    if not pa.types.is_nested(t):
        return leaf(array, wanted)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(t) and pa.types.is_struct(wanted):
        names = [f.name for f in t]
        children = [
            _mapped_chunk(child, wanted.field(name).type, leaf) if wanted.get_field_index(name) >= 0 else child
            for name, child in zip(names, array.flatten(), strict=True)
        ]
        fields = [pa.field(f.name, c.type, f.nullable) for f, c in zip(t, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    offsets = pa.array(np.asarray(array.offsets)) if pa.types.is_list(t) or pa.types.is_map(t) else None
    if pa.types.is_map(t) and pa.types.is_map(wanted):
        keys = _mapped_chunk(array.keys, wanted.key_type, leaf)
        items = _mapped_chunk(array.items, wanted.item_type, leaf)
        return pa.MapArray.from_arrays(offsets, keys, items, mask=mask)
    if pa.types.is_list(t) and pa.types.is_list(wanted):
        return pa.ListArray.from_arrays(offsets, _mapped_chunk(array.values, wanted.value_type, leaf), mask=mask)
    return array
