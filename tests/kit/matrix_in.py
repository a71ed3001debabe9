"""Ways into a table: each takes rows of the matrix, and tells which were not taken, and why.

A way has layouts: ways of writing the same values, such as units of time in Arrow. What no layout of it can write is told by
`CANNOT`; the docs show it.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import fastavro.validation
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq

import lakeidx
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.errors import LakeIdxError
from lakeidx.landing.read import LandingOptions
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, parse_type
from tests.kit.matrix_texts import (
    csv_lines,
    json_bytes,
    json_of,
    native,
    nested_text,
    text_of,
)
from tests.kit.matrix_values import DAY, Column, Row, Unfit, plain, to_arrow
from tests.kit.share import share_of

#: By id of a row that was not taken: the reason.
Refused = dict[int, str]


@dataclass(frozen=True)
class Load:
    """What a way in is to write: good rows, and rows with one bad value, in a layout; files go to the folder."""

    folder: Path
    table: lakeidx.Table
    columns: Sequence[Column]
    good: Sequence[Row]
    bad: Sequence[Row]
    layout: int


@dataclass(frozen=True)
class WayIn:
    """A way in.

    put      writes rows into a table, and tells of those that it does not take
    writes   raises Unfit for a value of a column that cannot be written in a layout; what is written, else
    layouts  how many there are
    """

    put: Callable[[Load], Refused]
    writes: Callable[[Column, Any, int], Any]
    layouts: int = 1


def can_write(way: WayIn, layout: int) -> Callable[[Column, Any], bool]:
    """Return what tells of values whether a layout of a way can write them."""

    def writes(column: Column, value: Any) -> bool:
        try:
            way.writes(column, value, layout)
        except Unfit:
            return False
        return True

    return writes


# -- Arrow data ----------------------------------------------------------------------------------------------------------------


#: Parts of names of Arrow types that a library does not have, or pyarrow does not write.
_NOT_IN_PARQUET = ("[s", "date64", "_view", ": dictionary", "map<dictionary")
_NOT_IN_ORC = ("time32", "time64", "dictionary", "decimal256", "_view", "date64")
_NOT_IN_POLARS = ("decimal256", "[s", "dictionary", "+05", "date64")


def carrier_of(column: Column, layout: int, unknown: Sequence[str] = ()) -> pa.DataType:
    known = [c for c in column.carriers if not any(name in str(c) for name in unknown)]
    if not known:
        raise Unfit(f"no carrier for {column.name}")
    return known[layout % len(known)]


def arrow_value(column: Column, value: Any, layout: int) -> pa.Array:
    return to_arrow([value], column.type, carrier_of(column, layout))


def arrow_rows(columns: Sequence[Column], rows: Sequence[Row], layout: int, unknown: Sequence[str] = ()) -> pa.Table:
    """Return rows as an Arrow table; `unknown`: parts of names of types that are not used."""
    data: dict[str, pa.Array] = {"id": pa.array([r.id for r in rows], pa.int32())}
    for c in columns:
        data[c.name] = to_arrow([r.values.get(c.name) for r in rows], c.type, carrier_of(c, layout, unknown))
    return pa.table(data)


#: Makes rows in memory of some columns, in a layout.
Maker = Callable[[Sequence[Column], Sequence[Row], int], Any]


def complete(load: Load, row: Row) -> Row:
    """Return a row with a value for each column: those of the first good row."""
    return replace(row, values={**load.good[0].values, **row.values})


def put_one_by_one(load: Load, part: float, put: Callable[[Sequence[Row]], None]) -> Refused:
    """Put good rows, then a share of the bad ones one by one: in memory a row that is not taken is an error, and nothing is put."""
    put(load.good)
    out = {row.id: f"{row.bad}: not tried" for row in load.bad}
    for row in share_of(load.bad, part, key=lambda r: r.id):
        del out[row.id]
        try:
            put([row])
        except LakeIdxError as error:
            out[row.id] = str(error)
    return out


def _upsert(make: Maker, load: Load) -> Refused:
    def put(rows: Sequence[Row]) -> None:
        columns = [c for c in load.columns if c.name in rows[0].values]
        load.table.upsert(make(columns, rows, load.layout), missing="null")

    return put_one_by_one(load, 0.2, put)


# -- Files ---------------------------------------------------------------------------------------------------------------------


def rejected(table: lakeidx.Table, path: str | None) -> Refused:
    """Return the rejected rows of a batch by id; of those without one by their line, below zero."""
    rows = [] if path is None else read_rejected(table.store, path).to_pylist()
    found = ((re.search(r'"id": ?"?(\d+)', r["row"]), r) for r in rows)
    return {int(m[1]) if m else -r["line"]: r["reason"] for m, r in found}


def upserted(table: lakeidx.Table, file: Path, options: LandingOptions | None = None) -> Refused:
    return rejected(table, table.upsert_files([file], options or LandingOptions(missing="null")).ingest.rejected_path)


def _put_parquet(load: Load) -> Refused:
    pq.write_table(
        arrow_rows(load.columns, [*load.good, *load.bad], load.layout, _NOT_IN_PARQUET),
        load.folder / "f.parquet",
        version="2.6",
        row_group_size=64,
    )
    return upserted(load.table, load.folder / "f.parquet")


def _writes_parquet(column: Column, value: Any, layout: int) -> pa.Array:
    return to_arrow([value], column.type, carrier_of(column, layout, _NOT_IN_PARQUET))


def _put_ipc(load: Load) -> Refused:
    rows = arrow_rows(load.columns, [*load.good, *load.bad], load.layout)
    pyarrow.feather.write_feather(rows, str(load.folder / "f.arrow"), compression="zstd", chunksize=50)
    return upserted(load.table, load.folder / "f.arrow")


def _put_orc(load: Load) -> Refused:
    rows = arrow_rows(load.columns, [*load.good, *load.bad], load.layout, _NOT_IN_ORC)
    pyarrow.orc.write_table(rows, str(load.folder / "f.orc"), stripe_size=4096, compression="zstd")
    return upserted(load.table, load.folder / "f.orc")


def _writes_orc(column: Column, value: Any, layout: int) -> pa.Array:
    carrier = carrier_of(column, layout, _NOT_IN_ORC)
    per = DAY if "DATE" in str(column.type) else 1
    for moment in re.findall(r"-?\d+", repr(value)) if "timestamp" in str(carrier) else ():
        if not -(2**63) <= int(moment) * per < 2**63:
            raise Unfit("Arrow reads no such moment in ORC")
    return to_arrow([value], column.type, carrier)


def avro_schema(t: DataType, name: str) -> Any:
    """Return the schema of a type's values; decimals have two digits more, one behind the point."""
    names = {Root.BOOLEAN: "boolean", Root.BIGINT: "long", Root.FLOAT: "double", Root.DOUBLE: "double"}
    kind: Any
    if t.root is Root.VARIANT:
        fields = [{"name": n, "type": "bytes"} for n in ("value", "metadata")]
        kind = {"type": "record", "name": name, "fields": fields}
    elif t.root is Root.ROW:
        fields = [{"name": f.name, "type": avro_schema(f.type, f"{name}_{f.name}")} for f in t.fields]
        kind = {"type": "record", "name": name, "fields": fields}
    elif t.root in (Root.MAP, Root.MULTISET, Root.ARRAY):
        key = t.element if t.root is Root.MULTISET else t.key
        if key is not None and key.root is not Root.VARCHAR:
            raise Unfit("keys of maps are text")
        item = "int" if t.root is Root.MULTISET else avro_schema(t.element, f"{name}_item")  # type: ignore[arg-type]
        kind = {"type": "array", "items": item} if key is None else {"type": "map", "values": ["null", item]}
    elif t.root is Root.DECIMAL:
        kind = {"type": "bytes", "logicalType": "decimal", "precision": t.precision + 2, "scale": t.scale + 1}
    elif t.root is Root.DATE:
        kind = {"type": "int", "logicalType": "date"}
    elif t.root is Root.TIME:
        kind = {"type": "long", "logicalType": "time-micros"}
    elif t.root in TIMESTAMP_ROOTS:
        local = "local-" if t.root is Root.TIMESTAMP else ""
        kind = {"type": "long", "logicalType": f"{local}timestamp-{_AVRO_UNITS[-(-t.precision // 3)]}s"}
    else:
        kind = names.get(t.root, "string" if t.root in STRING_ROOTS else "bytes" if t.root in BYTES_ROOTS else "long")
    return kind if isinstance(kind, list) else ["null", kind]


_AVRO_UNITS = ("milli", "milli", "micro", "nano")


def avro_value(value: Any, t: DataType) -> Any:
    """Return a value as fastavro writes it, what it has no type for as a number."""
    if value is None:
        return None
    if t.root is Root.ARRAY and t.element is not None:
        return [avro_value(v, t.element) for v in value]
    if t.root is Root.MAP and t.element is not None:
        return {k: avro_value(v, t.element) for k, v in value}
    if t.root in (Root.ROW, Root.VARIANT):
        parts = [(f.name, f.type) for f in t.fields] or [(n, parse_type("BYTES")) for n in ("value", "metadata")]
        return {name: avro_value(v, p) for v, (name, p) in zip(value, parts, strict=True)}
    if t.root is Root.TIME or t.root in TIMESTAMP_ROOTS:
        per = 1000 if t.root is Root.TIME else 1000 ** (2 - max(0, -(-t.precision // 3) - 1))
        if isinstance(value, str) or value % per:
            raise Unfit("not in the unit")
        return value // per
    return dict(value) if t.root is Root.MULTISET else value


def _writes_avro(column: Column, value: Any, _: int) -> Any:
    """Let fastavro write the value and read it again."""
    schema = avro_schema(column.type, "r")
    found = avro_value(value, column.type)
    try:
        # It takes whole numbers for decimals and the like, and cuts those.
        fastavro.validation.validate(found, schema, raise_errors=True, strict=False)
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, found)
    except (
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        struct.error,
        fastavro.validation.ValidationError,
    ) as error:
        raise Unfit(str(error)) from error
    return found


def _put_avro(load: Load) -> Refused:
    fields = [{"name": f"c{i}", "type": avro_schema(c.type, f"r{i}")} for i, c in enumerate(load.columns)]
    schema = {"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}, *fields]}
    rows = (
        {"id": r.id, **{f"c{i}": avro_value(r.values.get(c.name), c.type) for i, c in enumerate(load.columns)}}
        for r in (*load.good, *load.bad)
    )
    with (load.folder / "f.avro").open("wb") as file:
        fastavro.writer(file, schema, rows, codec="deflate", sync_interval=4096)
    # Avro's names have no spaces.
    names = {f"c{i}": c.name for i, c in enumerate(load.columns)}
    return upserted(load.table, load.folder / "f.avro", LandingOptions(missing="null", columns=names))


def _put_csv(load: Load) -> Refused:
    rows = [
        [str(r.id), *(nested_text(r.values.get(c.name), c.type) for c in load.columns)] for r in (*load.good, *load.bad)
    ]
    lines = csv_lines(["id", *(c.name for c in load.columns)], rows)
    (load.folder / "f.csv").write_bytes(b"".join(lines))
    begins = [1 + sum(line.count(b"\n") for line in lines[:at]) for at in range(len(lines))]
    ids = dict(zip(begins[1:], (r.id for r in (*load.good, *load.bad)), strict=True))
    return {ids.get(-i, i): why for i, why in upserted(load.table, load.folder / "f.csv").items()}


def _writes_csv(column: Column, value: Any, _: int) -> Any:
    return nested_text(value, column.type)


def _json_value(column: Column, value: Any, layout: int) -> Any:
    return json_of(value, column.type, text_of if layout else native)


def json_rows(columns: Sequence[Column], rows: Sequence[Row], layout: int) -> list[dict[str, Any]]:
    """Return rows as JSON; in layout 1 what is not nested is text, and nulls are left out."""
    out = []
    for r in rows:
        row = {c.name: _json_value(c, r.values.get(c.name), layout) for c in columns}
        out.append({"id": r.id, **{n: v for n, v in row.items() if v is not None or not layout}})
    return out


def _put_json(load: Load) -> Refused:
    rows = json_rows(load.columns, [*load.good, *load.bad], load.layout)
    (load.folder / "f.jsonl").write_bytes(b"".join(json_bytes(r) + b"\n" for r in rows))
    return upserted(load.table, load.folder / "f.jsonl")


def _put_commands(load: Load) -> Refused:
    from typer.testing import CliRunner

    from lakeidx.cli.main import app

    rows = json_rows(load.columns, [*load.good, *load.bad], 0)
    (load.folder / "f.jsonl").write_bytes(b"".join(json_bytes(r) + b"\n" for r in rows))
    done = CliRunner().invoke(
        app, ["upsert", load.table.uri, str(load.folder / "f.jsonl"), "--missing", "null", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    told = re.search(r"rows rejected, all in (.*); the first", done.stderr)
    return rejected(load.table, told[1] if told else None)


# -- Python, pandas, Polars ----------------------------------------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1)


def python_value(value: Any, t: DataType) -> Any:
    """Return a value as a Python program has it; Unfit where Python has none."""
    if value is None:
        return None
    if t.root is Root.VARIANT:
        return {"value": value[0], "metadata": value[1]}
    if t.root is Root.ROW:
        return {f.name: python_value(v, f.type) for f, v in zip(t.fields, value, strict=True)}
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [python_value(v, t.element) for v in value]
    if t.root is Root.MAP:
        assert t.key is not None
        assert t.element is not None
        return [(python_value(k, t.key), python_value(v, t.element)) for k, v in value]
    if t.root is Root.MULTISET:
        assert t.element is not None
        return [(python_value(k, t.element), n) for k, n in value]
    if isinstance(value, bytes) and t.root in STRING_ROOTS:
        raise Unfit("text is Unicode")
    if isinstance(value, str) or t.root not in (Root.DATE, Root.TIME, *TIMESTAMP_ROOTS):
        return value
    try:
        return _python_time(value, t)
    except (OverflowError, ValueError) as error:
        raise Unfit(str(error)) from error


def _python_time(value: int, t: DataType) -> Any:
    if t.root is Root.DATE:
        return dt.date.fromordinal(719_163 + value)
    if value % 1000:
        raise Unfit("nanoseconds")
    if t.root is Root.TIME:
        if not 0 <= value < DAY:
            raise Unfit("no time of day")
        return (_EPOCH + dt.timedelta(microseconds=value // 1000)).time()
    found = _EPOCH + dt.timedelta(microseconds=value // 1000)
    return found if t.root is Root.TIMESTAMP else found.replace(tzinfo=dt.UTC)


def _writes_python(column: Column, value: Any, _: int) -> Any:
    found = python_value(value, column.type)
    if isinstance(value, str) and column.type.root not in STRING_ROOTS:
        raise Unfit("a column of values of two types")
    if isinstance(value, Decimal) and column.type.root is not Root.DECIMAL:
        # Decimals among numbers: a column of them.
        return found
    return found


def list_rows(columns: Sequence[Column], rows: Sequence[Row], _: int) -> list[Mapping[str, Any]]:
    """Return rows as dictionaries."""
    return [{"id": r.id, **{c.name: python_value(r.values.get(c.name), c.type) for c in columns}} for r in rows]


def _pandas_column(column: Column, values: Sequence[Any], layout: int) -> Any:
    """A column as pandas users have it: its own dtypes for numbers, truth and times, Python's objects for all else."""
    import numpy as np
    import pandas as pd

    t = column.type
    if t.root in TIMESTAMP_ROOTS:
        unit, per = ("ns", 1) if layout == 0 else ("us", 1000)
        if any(isinstance(v, str) or (v is not None and (v % per or not -(2**63) < v // per < 2**63)) for v in values):
            raise Unfit(unit)
        ticks = np.array([np.iinfo(np.int64).min if v is None else v // per for v in values], np.int64)
        found = pd.Series(ticks.view(f"M8[{unit}]"))
        return found if t.root is Root.TIMESTAMP else found.dt.tz_localize("UTC")
    if t.root in (Root.FLOAT, Root.DOUBLE):
        if any(isinstance(v, str) or v is None for v in values):
            raise Unfit("NaN is null in pandas")
        return pd.Series(values, dtype="float64")
    if "MAP" in str(t) or t.root is Root.MULTISET:
        array = to_arrow(values, t, carrier_of(column, layout))
        check_text(array)
        return pd.Series(array, dtype=pd.ArrowDtype(array.type))
    objects = [python_value(v, t) for v in values]
    if t.root in (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT) and all(
        isinstance(v, (int, type(None))) for v in values
    ):
        try:
            return pd.Series(objects, dtype="Int64")
        except (OverflowError, TypeError) as error:
            raise Unfit(str(error)) from error
    if any(isinstance(v, str) for v in values) and t.root not in STRING_ROOTS:
        raise Unfit("a column of values of two types")
    if t.root is Root.BOOLEAN:
        return pd.Series(objects, dtype="boolean")
    return pd.Series(objects, dtype=object)


def writes_pandas(column: Column, value: Any, layout: int) -> Any:
    if value is None and column.type.root in (Root.FLOAT, Root.DOUBLE):
        raise Unfit("NaN is null in pandas")
    if "nan" in repr(value):
        raise Unfit("NaN is null in pandas")
    return _pandas_column(column, [value], layout)


def pandas_frame(columns: Sequence[Column], rows: Sequence[Row], layout: int) -> Any:
    """Return rows as a data frame of pandas."""
    import pandas as pd

    data = {c.name: _pandas_column(c, [r.values.get(c.name) for r in rows], layout) for c in columns}
    return pd.DataFrame({"id": pd.Series([r.id for r in rows], dtype="int32"), **data})


def _polars_column(column: Column, values: Sequence[Any], layout: int) -> Any:
    """A column of Polars, from Arrow: it has no other way for times beyond those of Python."""
    import polars as pl

    array = to_arrow(values, column.type, carrier_of(column, layout, _NOT_IN_POLARS))
    check_text(array)
    return pl.Series(column.name, array)


def check_text(array: pa.Array) -> None:
    """Refuse text that a library would not have made."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise Unfit(str(error)) from error


def writes_polars(column: Column, value: Any, layout: int) -> Any:
    from tests.kit.matrix_values import from_arrow

    found = _polars_column(column, [value], layout)
    if [plain(v) for v in from_arrow(found.to_arrow(), column.type)] != [plain(value)]:
        raise Unfit("Polars makes another value of it")
    return found


def polars_frame(columns: Sequence[Column], rows: Sequence[Row], layout: int) -> Any:
    """Return rows as a data frame of Polars."""
    import polars as pl

    series = [_polars_column(c, [r.values.get(c.name) for r in rows], layout) for c in columns]
    return pl.DataFrame([pl.Series("id", [r.id for r in rows], pl.Int32), *series])


WAYS_IN: dict[str, WayIn] = {
    "Arrow": WayIn(partial(_upsert, arrow_rows), arrow_value, 4),
    "list": WayIn(partial(_upsert, list_rows), _writes_python),
    "pandas": WayIn(partial(_upsert, pandas_frame), writes_pandas, 2),
    "Polars": WayIn(partial(_upsert, polars_frame), writes_polars, 3),
    "Parquet": WayIn(_put_parquet, _writes_parquet, 3),
    "Arrow IPC": WayIn(_put_ipc, arrow_value, 4),
    "ORC": WayIn(_put_orc, _writes_orc, 3),
    "Avro": WayIn(_put_avro, _writes_avro),
    "CSV": WayIn(_put_csv, _writes_csv),
    "JSON": WayIn(_put_json, _json_value, 2),
    "command line": WayIn(_put_commands, _json_value),
}
