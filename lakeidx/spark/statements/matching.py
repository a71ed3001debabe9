"""Conditions of verbs: the parts that a table's scan can test, and the columns that equal those of a source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import sqlglot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from sqlglot import exp

from lakeidx.api.sql.conditions import where_text
from lakeidx.api.sql.statement import LakeidxSql
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.spark.catalog_tables import quoted
from lakeidx.spark.jobs import is_connect
from lakeidx.spark.values import spark_schema
from lakeidx.types import INT_ROOTS, Field, Root

Node = Any  # a node of sqlglot's tree; the name of their common class differs between releases

_WIDTHS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
#: Types whose values are equal in lakeidx where they are in Spark: not CHAR with its blanks, nor numbers with NaN and -0.
_COMPARED = (Root.VARCHAR, Root.DATE, Root.BOOLEAN, Root.DECIMAL, Root.BINARY, Root.VARBINARY)
_SPARK_DIGITS = 6
_WORD, _PATH = re.compile(r"\w+"), re.compile(r"\w+(?:\.\w+)*")


def condition_text(condition: str | Column | None, frame: DataFrame) -> str:
    """Return a condition as SQL; "" for none, and where only a server knows it (a column in Spark Connect).

    frame   that the condition is over, joined or filtered by it
    """
    if condition is None or isinstance(condition, str):
        return condition or ""
    if is_connect(frame.sparkSession):
        return ""
    found = frame._jdf.queryExecution().analyzed().condition()
    # A join's is an Option of Scala's.
    return str((found.get() if found.getClass().getName() == "scala.Some" else found).sql())


def named_in(expression: str | Column, alias: str, names: Collection[str]) -> set[str]:
    """Return the columns of a table that an expression may name; more of them where that is not clear.

    alias   of the table: columns of another one are not its own
    """
    if isinstance(expression, str):
        try:
            tree = sqlglot.parse_one(expression, dialect=LakeidxSql)
        except (sqlglot.errors.SqlglotError, RecursionError):
            return set(names)
        if tree.find(exp.Star, exp.Select) is not None:
            return set(names)
        words = [[p.name.lower() for p in c.parts] for c in tree.find_all(exp.Column)]
    else:
        # A column as text has all names, and operators stand before what they are about: `*(k, 2)`.
        text = str(expression).lower()
        if any(not part.startswith("(") for part in text.split("*")[1:]) or not all(map(_WORD.fullmatch, names)):
            return set(names)
        words = [w.split(".") for w in _PATH.findall(text)]
    known = {n.lower() for n in names}
    # `a.b` may be field b of a column a.
    said = {
        n for first, *more in words for n in (first, *more[:1]) if not more or first == alias.lower() or first in known
    }
    return {n for n in names if n.lower() in said}


class Matching:
    """A condition over a table's rows, and those of a source.

    alias    names the table in it
    source   names of the source's columns
    text     "" says nothing
    """

    def __init__(self, schema: TableSchema, alias: str, source: Collection[str], text: str) -> None:
        self._schema = schema
        self._alias = alias.lower()
        self._fields = {n.lower(): n for n in schema.field_names}
        self._source = {n.lower() for n in source}
        self._parts = list(_parts(text)) if len(self._fields) == len(schema.field_names) else []

    def __len__(self) -> int:
        return len(self._parts)

    def where(self) -> list[str]:
        """Return the parts that are about the table alone, and that its scan can test."""
        mine = [p for p in self._parts if all(self._is_table(c) is True for c in p.find_all(exp.Column))]
        texts = (where_text(p, {self._alias, ""}, self._schema) for p in mine)
        return [t for t in texts if t is not None]

    def equal(self, source: DataFrame) -> dict[str, Column]:
        """Return by column of the table what it equals of the source, in its type, and null where that cannot be.

        Only where Spark compares the two as lakeidx does.
        """
        out = {}
        for part in self._parts:
            if not isinstance(part, (exp.EQ, exp.NullSafeEQ)):
                continue
            for mine, other in ((part.left, part.right), (part.right, part.left)):
                (column, cast), (given, given_cast) = _without_cast(mine), _without_cast(other)
                if not (isinstance(column, exp.Column) and isinstance(given, exp.Column)):
                    continue
                name = self._fields.get(column.name.lower())
                if name is None or self._is_table(column) is not True or self._is_table(given) is not False:
                    continue
                found = _compared(self._schema.field(name), cast, given, given_cast, source)
                if found is not None and len(column.parts) < 3:
                    out[name] = found
        return out

    def _is_table(self, column: Node) -> bool | None:
        """Return whether a column is the table's; None where that is not clear."""
        first, *more = (p.name.lower() for p in column.parts)
        mine, given = first in self._fields, first in self._source
        if not more:
            return mine if mine != given else None
        # `a.b` may be field b of a column a.
        return None if mine or given else first == self._alias


def _parts(text: str) -> Iterator[Node]:
    # Texts are read here as Spark reads them, but for some of its escapes.
    if text and "\\" not in text:
        try:
            yield from _conjuncts(sqlglot.parse_one(text, dialect=LakeidxSql))
        except (sqlglot.errors.SqlglotError, RecursionError):
            return


def _conjuncts(node: Node) -> Iterator[Node]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _without_cast(node: Node) -> tuple[Node, str]:
    """Return what is cast, and Spark's name of the type; "" for no cast."""
    if isinstance(node, exp.Cast):
        return node.this, str(node.to.sql(dialect="spark")).lower()
    return node, ""


def _compared(field: Field, cast: str, given: Node, given_cast: str, source: DataFrame) -> Column | None:
    column = sf.col(".".join(quoted(p.name) for p in given.parts))
    wanted = spark_schema([field]).fields[0].dataType
    found = source.select(column).schema.fields[0].dataType
    if field.type.root in INT_ROOTS:
        # Casts to types that have all values of a column change nothing.
        widens = (_WIDTHS.get(cast or wanted.simpleString(), 0) >= _WIDTHS[wanted.simpleString()],
                  _WIDTHS.get(given_cast or found.simpleString(), 0) >= _WIDTHS.get(found.simpleString(), 9))  # fmt: skip
        return column.try_cast(wanted) if all(widens) else None
    times = field.type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and field.type.precision == _SPARK_DIGITS
    same = found == wanted and not cast and not given_cast
    return column if same and (times or field.type.root in _COMPARED) else None
