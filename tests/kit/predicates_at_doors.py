"""Random predicates of every type, and tables whose files have statistics, indexes, deletion vectors or an older schema."""

from __future__ import annotations

import datetime as dt
import math
import operator
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeidx
from lakeidx.landing.cast_rows import AS_STORED
from tests.kit.share import WHOLE

polars = pytest.importorskip("polars")

#: Predicates for each table: of `make test-all` 2,000 and more for each type. LAKEIDX_EXAMPLES says another number.
PREDICATES = int(os.environ.get("LAKEIDX_EXAMPLES", "0")) or (700 if WHOLE else 12)
#: LAKEIDX_SEED, which `make test-all` sets and prints, makes other predicates.
SEED = os.environ.get("LAKEIDX_SEED", "")
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_DAY = dt.datetime(2026, 3, 29, 1, 30)


@dataclass(frozen=True)
class Kind:
    """A type: its values, literals that are no values of it, how SQL writes them, and the narrower type it was before."""

    type: str
    values: Sequence[Any]
    beyond: Sequence[Any] = ()
    sql: Callable[[Any], str] = str
    duck: Callable[[Any], str] | None = None
    before: str | None = None
    indexes: str = ""


def _quoted(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _number(value: Any) -> str:
    return _quoted(value) if isinstance(value, float) and not math.isfinite(value) else str(value)


def _duck_number(value: Any) -> str:
    return f"{_number(value)}::DOUBLE" if isinstance(value, float) else str(value)


def _blob(value: bytes) -> str:
    return "'" + "".join(f"\\x{b:02X}" for b in value) + "'::BLOB"


def _zoned(value: dt.datetime) -> str:
    return f"TIMESTAMPTZ '{value.replace(tzinfo=dt.UTC).isoformat(sep=' ')}'"


_TEXTS = ["", "a", "ab", "ab ", "abc", "b", "a%", "é", "it's", 'q"u', "back\\", "🙂", "zz", "a\x01"]
_STAMPS = [
    _DAY,
    _DAY.replace(second=1),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31),
]
_MICROS = [*_STAMPS, _DAY.replace(microsecond=1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
_FLOATS = [0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 16777216.0]
_INTS = [0, 1, -1, 2, 7]
KINDS = [
    Kind("BOOLEAN", [True, False], sql=lambda v: str(v).upper(), indexes="bitmap"),
    Kind("TINYINT", [*_INTS, 127, -128], [300, -300, Decimal("1.5")], indexes="bitmap"),
    Kind("SMALLINT", [*_INTS, 32767], [40000, Decimal("-0.5")], before="TINYINT"),
    Kind("INT", [*_INTS, 2**31 - 1, -(2**31)], [2**31, Decimal("0.5")], indexes="bsi"),
    Kind("BIGINT", [*_INTS, 2**63 - 1, -(2**63), 2**53 + 1], [Decimal("0.5")], before="INT", indexes="range-bitmap"),
    Kind("FLOAT", _FLOATS, sql=_number, duck=_duck_number),
    Kind("DOUBLE", [*_FLOATS, 0.1], [16777217.0], sql=_number, duck=_duck_number, before="FLOAT"),
    Kind("DECIMAL(5, 2)", [Decimal(t) for t in ("0.00", "1.25", "-1.25", "999.99", "-999.99")], [Decimal("1.255"), 1000, 1]),
    Kind("DECIMAL(38, 10)", [Decimal("1.25"), Decimal(-(10**27)), Decimal("9" * 28 + ".9999999999")], [Decimal("1.2500001"), 7],
         before="DECIMAL(20, 3)"),
    Kind("CHAR(4)", [t for t in _TEXTS if len(t) < 5 and t not in ("ab ", "a\x01")], sql=_quoted, indexes="bloom-filter"),
    Kind("VARCHAR(20)", _TEXTS, sql=_quoted, before="VARCHAR(6)", indexes="bloom-filter"),
    Kind("STRING", _TEXTS, sql=_quoted, before="CHAR(6)", indexes="bitmap"),
    Kind("BINARY(4)", [b"", b"a", b"ab", b"ab\0", b"\xff"], sql=lambda v: f"X'{v.hex()}'", duck=_blob),
    Kind("BYTES", [b"", b"a", b"ab", b"\xff" * 40], sql=lambda v: f"X'{v.hex()}'", duck=_blob),
    Kind("DATE", [v.date() for v in _STAMPS], sql=lambda v: f"DATE '{v}'"),
    Kind("TIME(3)", [dt.time(0), dt.time(8), dt.time(23, 59, 59, 999000)], [dt.time(8, 0, 0, 1)],
         sql=lambda v: f"TIME '{v.isoformat('microseconds')}'"),
    Kind("TIMESTAMP(0)", _STAMPS, [_MICROS[-1]], sql=lambda v: f"TIMESTAMP '{v}'"),
    Kind("TIMESTAMP(6)", _MICROS, sql=lambda v: f"TIMESTAMP '{v}'", before="TIMESTAMP(3)"),
    Kind("TIMESTAMP(9)", [v for v in _MICROS if 1700 < v.year < 2200], sql=lambda v: f"TIMESTAMP '{v}'",
         duck=lambda v: f"'{v}'::TIMESTAMP_NS"),
    Kind("TIMESTAMP(3) WITH LOCAL TIME ZONE", _STAMPS, [_MICROS[-1]], sql=_zoned),
    Kind("TIMESTAMP(6) WITH LOCAL TIME ZONE", _MICROS, sql=_zoned),
]  # fmt: skip
TABLES = [
    (kind, form) for kind in KINDS for form in ("statistics", "file indexes", "deletion vectors", "evolved")
    if form != "file indexes" or kind.indexes
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One condition: as SQL for lakeidx, for DuckDB, and for DuckDB where it compares CHAR as lakeidx does; and as expressions,
    None where there is none.
    """

    sql: tuple[str, ...]
    arrow: pc.Expression | None
    polars: Any


def _joined(parts: Sequence[Case], word: str) -> Case:
    join: Any = operator.and_ if word == "AND" else operator.or_
    sql = tuple(f" {word} ".join(f"({text})" for text in texts) for texts in zip(*(p.sql for p in parts), strict=True))
    arrow = None if any(p.arrow is None for p in parts) else reduce(join, [p.arrow for p in parts])
    frame = None if any(p.polars is None for p in parts) else reduce(join, [p.polars for p in parts])
    return Case(sql, arrow, frame)


def _negated(case: Case) -> Case:
    no = tuple(f"NOT ({text})" for text in case.sql)
    return Case(no, None if case.arrow is None else ~case.arrow, None if case.polars is None else ~case.polars)


class Maker:
    """Makes random conditions on the column `v` of a type."""

    def __init__(self, kind: Kind, t: pa.DataType, generator: random.Random) -> None:
        self.kind, self.type, self.random = kind, t, generator
        self.padded = kind.type == "CHAR(4)"

    def case(self, depth: int = 2) -> Case:
        roll = self.random.random()
        if depth and roll < 0.45:
            parts = [self.case(depth - 1) for _ in range(self.random.choice((2, 2, 3)))]
            return _joined(parts, self.random.choice(("AND", "OR")))
        if depth and roll < 0.55:
            return _negated(self.case(depth - 1))
        if roll < 0.62:
            column, frame = pc.field("v"), polars.col("v")
            if self.random.random() < 0.5:
                return Case(("v IS NULL",) * 3, column.is_null(), frame.is_null())
            return Case(("v IS NOT NULL",) * 3, column.is_valid(), frame.is_not_null())
        if roll < 0.75 and isinstance(self.kind.values[0], str):
            return self._like()
        if roll < 0.82:
            return self._in()
        return self._comparison()

    def _comparison(self) -> Case:
        op = self.random.choice(list(_OPS))
        value = self.random.choice([*self.kind.values, *self.kind.beyond])
        sql = tuple(f"{c} {op} {v}" for c, v in self._sides(value))
        return Case(sql, self._arrow(op, value), self._polars(op, value))

    def _sides(self, value: Any) -> list[tuple[str, str]]:
        """The column and a literal for lakeidx, for DuckDB, and for DuckDB where CHAR is compared as lakeidx does."""
        duck = (self.kind.duck or self.kind.sql)(value)
        padded = ("v", duck)
        if self.padded:
            padded = ("rpad(v, 4, ' ')", f"rpad({duck}, greatest(4, length({duck}))::INT, ' ')")
        return [("v", self.kind.sql(value)), ("v", duck), padded]

    def _in(self) -> Case:
        values = [self.random.choice([*self.kind.values, *self.kind.beyond]) for _ in range(self.random.randint(1, 4))]
        no = self.random.choice(("", "NOT "))
        sides = [self._sides(v) for v in values]
        sql = tuple(f"{sides[0][i][0]} {no}IN ({', '.join(s[i][1] for s in sides)})" for i in range(3))
        scalars = [s for s in map(self._scalar, values) if s is not None and s.as_py() == s.as_py()]
        if no or len(scalars) < len(values):
            return Case(sql, None, None)
        return Case(sql, pc.field("v").isin(pa.array([s.as_py() for s in scalars], self.type)), None)

    def _like(self) -> Case:
        pattern = self.random.choice(["a%", "%b", "%b%", "a_", "", "ab", "%", "a\\%", "_", "ab  ", "%'%", "é%"])
        no = self.random.choice(("", "NOT "))
        quoted = _quoted(pattern)
        duck = f"v {no}LIKE {quoted} ESCAPE '\\'"
        return Case((f"v {no}LIKE {quoted}", duck, duck), None, None)

    def _scalar(self, value: Any) -> pa.Scalar | None:
        if isinstance(value, dt.datetime) and getattr(self.type, "tz", None):
            value = value.replace(tzinfo=dt.UTC)
        try:
            found = pa.scalar(value, self.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return None
        return found if found.as_py() == value or value != value else None

    def _arrow(self, op: str, value: Any) -> pc.Expression | None:
        scalar = self._scalar(value)
        return None if scalar is None else _OPS[op](pc.field("v"), scalar)

    def _polars(self, op: str, value: Any) -> Any:
        if isinstance(value, (Decimal, dt.time)) or self._scalar(value) is None:
            return None
        if isinstance(value, dt.datetime) and getattr(self.type, "tz", None):
            value = value.replace(tzinfo=dt.UTC)
        return _OPS[op](polars.col("v"), value)


def _files(kind: Kind, generator: random.Random) -> Iterator[list[Any]]:
    """Rows of files: all values, each value alone with nulls, and ranges of neighbours."""
    yield [*kind.values, None]
    for at in range(0, len(kind.values), 2):
        yield [*kind.values[at : at + 2], *([None] if generator.random() < 0.5 else [])]
    yield [None, None]


def make_table(folder: Path, kind: Kind, form: str) -> tuple[lakeidx.Table, pa.Table]:
    """A table of a form, and its rows."""
    generator = random.Random(f"{kind.type} {form}")
    evolved = form == "evolved"
    options = {"bucket": "1", "write-only": "true"}
    if form == "deletion vectors":
        options |= {"deletion-vectors.enabled": "true", "write-only": "false"}
    if form == "file indexes":
        options |= {f"file-index.{kind.indexes}.columns": "v"}
    table = lakeidx.Table.create(f"{folder}/d.db/t", {
        "fields": [{"name": "id", "type": "INT NOT NULL"},
                   {"name": "w", "type": kind.before or kind.type} if evolved else {"name": "v", "type": kind.type}],
        "primaryKeys": ["id"] if form == "deletion vectors" else [],
        "options": options if form == "deletion vectors" else {**options, "bucket": "-1"},
    })  # fmt: skip
    first = 0
    for n, values in enumerate(_files(kind, generator)):
        if n == 2 and evolved:
            table.alter(rename={"w": "v"}, types={} if kind.before is None else {"v": kind.type})
        name, t = table.schema.field_names[1], table.schema.arrow_schema.field(1).type
        rows = pa.table(
            {"id": pa.array(range(first, first + len(values)), pa.int32()), name: _fitting(values, t, table)}
        )
        stored = generator.random() < 0.5 and table.schema.fields[1].type.root.name == "CHAR"
        table.upsert(rows.replace_schema_metadata(AS_STORED) if stored else rows)
        first += len(values)
    if form == "deletion vectors":
        table.compact(full=True)
        table.delete(pa.table({"id": pa.array([0, 2], pa.int32())}))
        table.compact()
    return table, table.scan().to_arrow()


def _fitting(values: Sequence[Any], t: pa.DataType, table: lakeidx.Table) -> pa.Array:
    """The values as the column takes them; null for what a narrower type does not hold."""
    kept = []
    for value in values:
        try:
            text = isinstance(value, str) and len(value) > (table.schema.fields[1].type.length or 10**9)
            kept.append(None if value is None or text or pa.scalar(value, t).as_py() is None else value)
        except (pa.ArrowException, OverflowError, ValueError):
            kept.append(None)
    return pa.array(kept, t)
