"""Ways into and out of a table by Spark, the classic session's and Connect's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException

import lakeidx
from lakeidx.errors import LakeIdxError
from lakeidx.types import TIMESTAMP_ROOTS, DataType, Root
from tests.kit.matrix_in import Load, Refused, WayIn, carrier_of, check_text, complete, put_one_by_one
from tests.kit.matrix_out import Shown, WayOut, of_arrow
from tests.kit.matrix_values import Column, Row, Unfit, to_arrow

#: Spark's Arrow knows microseconds, and none of the newer layouts.
_NOT_IN_SPARK = ("decimal256", "_view", "dictionary", "large_", "date64", "[s", "[ms", "[ns", "time32", "date32[")
_VARIANT = '{"a":1}'


def writes_spark(column: Column, value: Any, _: int = 0) -> Any:
    """Return a value as Spark gets it from Arrow; a VARIANT is parsed from JSON there."""
    if column.type.root is Root.VARIANT:
        return _VARIANT
    if "VARIANT" in str(column.type):
        raise Unfit("only whole columns are parsed")
    found = to_arrow([value], column.type, carrier_of(column, 0, _NOT_IN_SPARK))
    check_text(found)
    return found


def writes_sql(column: Column, value: Any, _: int = 0) -> Any:
    """Return a value for an INSERT, which Spark casts: no TIME(6) to fewer digits, fractions to whole numbers, 1e300 to inf."""
    t, shown = str(column.type), repr(value)
    if "TIME(" in t or ("0.5" in shown and "INT" in t) or ("e+300" in shown and t == "FLOAT"):
        raise Unfit("cast by Spark")
    return writes_spark(column, value)


def spark_frame(session: Any, columns: Sequence[Column], rows: Sequence[Row]) -> Any:
    """Return rows as a data frame of Spark."""
    data: dict[str, pa.Array] = {"id": pa.array([r.id for r in rows], pa.int32())}
    variants = []
    for c in columns:
        values = [r.values.get(c.name) for r in rows]
        if c.type.root is Root.VARIANT:
            variants.append(c.name)
            data[c.name] = pa.array([None if v is None else _VARIANT for v in values], pa.string())
        else:
            data[c.name] = to_arrow(values, c.type, carrier_of(c, 0, _NOT_IN_SPARK))
    frame = session.createDataFrame(pa.table(data))
    return frame.selectExpr(*(f"parse_json(`{n}`) AS `{n}`" if n in variants else f"`{n}`" for n in data))


def _write(session: Any, frame: Any, table: lakeidx.Table) -> None:
    frame.write.format("lakeidx").mode("append").save(table.uri)


def _upsert(session: Any, frame: Any, table: lakeidx.Table) -> None:
    from lakeidx.spark import upsert

    upsert(frame, table.uri)


def _insert(session: Any, frame: Any, table: lakeidx.Table) -> None:
    frame.createOrReplaceTempView("matrix_rows")
    session.sql(f"CREATE TABLE IF NOT EXISTS matrix USING lakeidx LOCATION '{table.uri}'")
    session.sql(f"INSERT INTO matrix WITH (path = '{table.uri}') SELECT * FROM matrix_rows")


def said(error: BaseException) -> LakeIdxError:
    """Return an error of Spark as the one line that is in it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return LakeIdxError(lines[0] if len(lines) == 1 else " ".join(lines)[:2000])


def _put(session: Any, door: Callable[[Any, Any, lakeidx.Table], None], load: Load) -> Refused:
    def put(rows: Sequence[Row]) -> None:
        frame = spark_frame(session, load.columns, [complete(load, r) for r in rows])
        try:
            door(session, frame, load.table)
        except LakeIdxError:
            raise
        except PySparkException as error:
            raise said(error) from error

    return put_one_by_one(load, 0.03, put)


def ways_in(session: Any) -> dict[str, WayIn]:
    """Return the ways into a table by a session."""
    doors = {"Spark write": _write, "Spark upsert": _upsert, "Spark SQL": _insert}
    return {n: WayIn(partial(_put, session, d), writes_sql if d is _insert else writes_spark) for n, d in doors.items()}


def collected(frame: Any, columns: Sequence[Column]) -> Shown:
    """Return a frame's rows; pyspark makes no Arrow data of a null STRUCT with a field that must not be null, nor of a VARIANT."""
    from pyspark.sql.types import StructType

    columns = [c for c in columns if _iscollected(c.type)]
    text = re.sub(r'"(nullable|containsNull|valueContainsNull)":false', r'"\1":true', frame.schema.json())
    types = StructType.fromJson(json.loads(text))
    wanted = []
    for field, given in zip(types, frame.schema, strict=True):
        if field.name in ("id", *(c.name for c in columns)):
            column = frame[f"`{field.name}`"]
            wanted.append(column if field.dataType == given.dataType else column.cast(field.dataType).alias(field.name))
    return of_arrow(frame.select(wanted).toArrow(), columns)


def _iscollected(t: DataType) -> bool:
    return "VARIANT" not in str(t) and not (t.root is Root.ROW and "TIME(" in str(t))


def _batch(session: Any, table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    return collected(session.read.format("lakeidx").load(table.uri), columns)


def _changes(session: Any, table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    options = {"incremental-between": "0,1", "read.changelog": "true"}
    return collected(session.read.format("lakeidx").options(**options).load(table.uri), columns)


def _stream(session: Any, table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    columns = [c for c in columns if "TIME(" not in str(c.type)]
    shown: Shown = {}
    frame = (
        session.readStream.format("lakeidx")
        .option("columns", ",".join(["id", *(c.name for c in columns)]))
        .load(table.uri)
    )
    query = (
        frame.writeStream.foreachBatch(lambda rows, n: shown.update(collected(rows, columns)))
        .option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return shown


def micros(value: Any, t: DataType) -> Any:
    """Digits beyond microseconds are left out."""
    return None if value is None else value // 1000 * 1000 if t.precision > 6 else value


def ways_out(session: Any) -> dict[str, WayOut]:
    """Return the ways out of a table by a session."""
    shown = dict.fromkeys(TIMESTAMP_ROOTS, micros)
    ways = {"Spark": _batch, "Spark changes": _changes, "Spark stream": _stream}
    return {name: WayOut(partial(read, session), shown) for name, read in ways.items()}
