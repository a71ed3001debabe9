"""Ways out of a table: each gives its rows as values of the matrix, or raises; what a way shows as another value, and why, is in
`WayOut.shown`, which the docs list.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import lakeidx
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, TIMESTAMP_ROOTS, DataType, Root, parse_type
from tests.kit.matrix_values import DAY, Column, from_arrow

#: By id and column.
Shown = dict[int, dict[str, Any]]
_DAY_ZERO = dt.date(1970, 1, 1)
_MOMENT = re.compile(r"(-?\d+-\d\d-\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(Z?)")


@dataclass(frozen=True)
class WayOut:
    """A way out.

    read    gives the rows of a table, by id
    shown   type roots -> what the way shows of a value of theirs; also inside nested types
    """

    read: Callable[[lakeidx.Table, Sequence[Column], Path], Shown]
    shown: Mapping[Root, Callable[[Any, DataType], Any]] = field(default_factory=dict)

    def expected(self, value: Any, t: DataType) -> Any:
        """Return what the way shows of a value."""
        if value is None or t.root in self.shown:
            return self.shown[t.root](value, t) if t.root in self.shown else None
        if t.root is Root.ARRAY and t.element is not None:
            return [self.expected(v, t.element) for v in value]
        if t.root is Root.ROW:
            return tuple(self.expected(v, f.type) for v, f in zip(value, t.fields, strict=True))
        if t.root in (Root.MAP, Root.MULTISET):
            key, item = map_parts(t)
            return [(self.expected(k, key), self.expected(v, item)) for k, v in value]
        return value


def map_parts(t: DataType) -> tuple[DataType, DataType]:
    """Return the types of keys and values of a MAP or MULTISET."""
    key, item = (t.key, t.element) if t.key is not None else (t.element, parse_type("INT"))
    assert key is not None
    assert item is not None
    return key, item


def of_arrow(rows: Any, columns: Sequence[Column]) -> Shown:
    """Return Arrow data by id."""
    ids = rows.column("id").to_pylist()
    values = {c.name: from_arrow(rows.column(c.name), c.type) for c in columns}
    shown = {i: {n: v[at] for n, v in values.items()} for at, i in enumerate(ids)}
    assert len(shown) == len(ids)
    return shown


# -- lakeidx -------------------------------------------------------------------------------------------------------------------


def _scan(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    return of_arrow(table.scan().to_arrow(), columns)


def _ids(table: lakeidx.Table) -> list[int]:
    return list(table.scan(columns=["id"]).to_arrow().column("id").to_pylist())


def _lookup(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    return of_arrow(table.lookup([{"id": i} for i in _ids(table)]), columns)


def _changes(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    return of_arrow(table.changes(0, mode="delta").to_arrow(), columns)


def _diff(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    assert table.snapshot is not None
    return of_arrow(table.diff(0, table.snapshot.id).to_arrow(), columns)


def _follow(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    (step,) = table.follow("latest-full")
    return of_arrow(step.changes.to_arrow(), columns)


def _dataset(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    from lakeidx.api.dataset import TableDataset

    return of_arrow(TableDataset(table).to_table(), columns)


def _verify(table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    report = table.verify()
    assert report.findings == (), report.findings
    return _scan(table, columns, folder)


# -- The command line ----------------------------------------------------------------------------------------------------------


def _written(table: lakeidx.Table, folder: Path, ending: str, *more: str) -> Path:
    from typer.testing import CliRunner

    from lakeidx.cli.main import app

    file = folder / f"out.{ending}"
    done = CliRunner().invoke(app, ["scan", table.uri, "-o", str(file), *more])
    assert done.exit_code == 0, done.output
    return file


def of_text(text: str | None, t: DataType) -> Any:
    """Read a value that is not nested from its text."""
    if text is None or t.root in (Root.CHAR, Root.VARCHAR):
        return text
    if t.root in BYTES_ROOTS:
        return bytes.fromhex(text)
    if t.root is Root.BOOLEAN:
        return {"true": True, "false": False}[text]
    if t.root in INT_ROOTS:
        return int(text)
    if t.root is Root.DECIMAL:
        return Decimal(text)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return float(text)
    if t.root is Root.TIME:
        return of_text(f"1970-01-01T{text}", parse_type("TIMESTAMP(9)"))
    found = _MOMENT.fullmatch(text)
    assert found is not None, text
    assert bool(found[6]) == (t.root is Root.TIMESTAMP_LTZ), text
    days = int(np.datetime64(found[1], "D").astype(np.int64))
    if t.root is Root.DATE:
        return days
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
    return days * DAY + seconds * 10**9 + int((found[5] or "").ljust(9, "0"))


def of_json(value: Any, t: DataType) -> Any:
    """Read a value from JSON, as `lakeidx.data.json_values` says."""
    if value is None:
        return None
    if t.root is Root.VARIANT:
        return bytes.fromhex(value["value"]), bytes.fromhex(value["metadata"])
    if t.root is Root.ROW:
        return tuple(of_json(value[f.name], f.type) for f in t.fields)
    if t.root is Root.ARRAY and t.element is not None:
        return [of_json(v, t.element) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = map_parts(t)
        return [(of_json(k, key), of_json(v, item)) for k, v in value]
    return (
        of_text(value, t) if isinstance(value, str) else float(value) if t.root in (Root.FLOAT, Root.DOUBLE) else value
    )


def _jsonl(table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    with _written(table, folder, "jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return {r["id"]: {c.name: of_json(r[c.name], c.type) for c in columns} for r in rows}


def _csv(table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    """Null is an empty field, and an empty text one in quotes."""

    def value(text: str | None, c: Column) -> Any:
        nested = c.type.is_nested or c.type.root is Root.VARIANT
        return of_json(json.loads(text), c.type) if nested and text is not None else of_text(text, c.type)

    names = ["id", *(c.name for c in columns)]
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )  # fmt: skip
    parse = pacsv.ParseOptions(newlines_in_values=True)
    rows = pacsv.read_csv(_written(table, folder, "csv"), parse_options=parse, convert_options=convert).to_pylist()
    return {int(r["id"]): {c.name: value(r[c.name], c) for c in columns} for r in rows}


def _parquet(table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    return of_arrow(pq.read_table(_written(table, folder, "parquet")), columns)


def _arrow(table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    with pa.ipc.open_stream(_written(table, folder, "arrow").read_bytes()) as stream:
        return of_arrow(stream.read_all(), columns)


def _for_people(table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    """A table for people has no more to it than that each row is there."""
    file = _written(table, folder, "txt", "--format", "table")
    text = file.read_text(encoding="utf-8")
    assert all(str(i) in text for i in _ids(table))
    return _scan(table, columns, folder)


# -- Engines -------------------------------------------------------------------------------------------------------------------


def _duckdb(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    import duckdb

    import lakeidx.duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    lakeidx.duckdb.register(connection, "t", table)
    return of_arrow(connection.sql("FROM t").to_arrow_table(), columns)


def _polars(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    import lakeidx.polars

    return of_arrow(lakeidx.polars.scan(table).collect().to_arrow(), columns)


def _pandas_value(value: Any, t: DataType) -> Any:
    import pandas as pd

    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    if isinstance(value, float) and value != value:
        return None
    if t.root is Root.VARIANT:
        return value["value"], value["metadata"]
    if t.root is Root.ROW:
        return tuple(_pandas_value(value[f.name], f.type) for f in t.fields)
    if t.root is Root.ARRAY and t.element is not None:
        return [_pandas_value(v, t.element) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = map_parts(t)
        return [(_pandas_value(k, key), _pandas_value(v, item)) for k, v in value]
    if t.root is Root.DATE:
        return (value - _DAY_ZERO).days
    if t.root is Root.TIME:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1000
    if t.root in TIMESTAMP_ROOTS:
        return _pandas_moment(value)
    if t.root in INT_ROOTS:
        return int(value)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return float(value)
    return bool(value) if t.root is Root.BOOLEAN else value


def _pandas_moment(value: Any) -> int:
    import pandas as pd

    if isinstance(value, (int, np.integer)):
        # Nanoseconds in a nested value are numbers there.
        return int(value)
    if isinstance(value, dt.datetime) and not isinstance(value, pd.Timestamp):
        delta = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        return (delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1000
    moment = value if isinstance(value, np.datetime64) else value.tz_localize(None).to_datetime64()
    unit = np.datetime_data(moment.dtype)[0]
    return int(moment.astype(np.int64)) * {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]


def of_pandas(frame: Any, columns: Sequence[Column]) -> Shown:
    """Return a data frame of pandas by id."""
    found = {c.name: [_pandas_value(v, c.type) for v in frame[c.name]] for c in columns}
    return {int(i): {c.name: found[c.name][at] for c in columns} for at, i in enumerate(frame["id"])}


def nan_is_null(value: Any, _: DataType) -> Any:
    """NaN is null in pandas."""
    return None if value is None or value != value else value


def _pandas(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    import pandas as pd

    frame = table.scan().to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
    return of_arrow(pa.Table.from_pandas(frame, preserve_index=False), columns)


WAYS_OUT: dict[str, WayOut] = {
    "scan": WayOut(_scan),
    "lookup": WayOut(_lookup),
    "changes": WayOut(_changes),
    "diff": WayOut(_diff),
    "follow": WayOut(_follow),
    "JSON": WayOut(_jsonl),
    "CSV": WayOut(_csv),
    "Parquet": WayOut(_parquet),
    "Arrow IPC": WayOut(_arrow),
    "table": WayOut(_for_people),
    "Arrow dataset": WayOut(_dataset),
    "DuckDB": WayOut(_duckdb),
    "Polars": WayOut(_polars),
    "pandas": WayOut(_pandas),
    "verify": WayOut(_verify),
}
