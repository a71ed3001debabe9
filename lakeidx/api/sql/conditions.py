"""Conditions of statements that lakeidx tests as DuckDB and Spark do, so that scans can be given them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlglot import exp

from lakeidx.errors import LakeIdxError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate.parse import LakeidxWhere
from lakeidx.table.scan.table_scan import bind_where
from lakeidx.types import DataType, Root

Node = Any  # a node of sqlglot's tree; the name of their common class differs between releases

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_WIDTHS = {"TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DECIMAL = re.compile(r"\d+(?:\.(\d*))?", re.ASCII)


def where_text(condition: Node, names: Collection[str], schema: TableSchema) -> str | None:
    """Return a condition of a statement as `lakeidx.Table.scan` takes it; None where lakeidx might test it otherwise.

    names   by which columns are qualified, in lower case; "" where one without a qualifier is the table's
    """
    fields = {n.lower(): n for n in schema.field_names}
    if len(fields) < len(schema.field_names):
        return None
    copy = _without_widening(condition.copy(), fields, schema)
    if not _is_known(copy, names, fields, schema):
        return None
    for column in copy.find_all(exp.Column):
        column.replace(exp.column(fields[column.name.lower()], quoted=True))
    text = str(copy.sql(dialect=LakeidxWhere))
    try:
        bind_where(text, schema)
    except LakeIdxError:
        return None
    return text


def _without_widening(tree: Node, fields: Mapping[str, str], schema: TableSchema) -> Node:
    """Return a condition without casts of whole numbers to types that have them all, as Spark puts where it compares two types."""
    root = exp.Paren(this=tree)
    for cast in list(root.find_all(exp.Cast)):
        to = _WIDTHS.get(cast.to.this.name if isinstance(cast.to.this, exp.DataType.Type) else "")
        inner = cast.this
        if to is None:
            continue
        if isinstance(inner, exp.Column):
            kind = schema.field(fields[inner.name.lower()]).type.root if inner.name.lower() in fields else None
            fits = kind in _INTEGERS and _WIDTHS[kind.name] <= to
        else:
            number = inner.this if isinstance(inner, exp.Neg) else inner
            whole = isinstance(number, exp.Literal) and not number.is_string and number.name.isdecimal()
            fits = whole and int(number.name) < 1 << (8 * to - 1)
        if fits:
            cast.replace(inner)
    return root.this


def _is_known(node: Node, names: Collection[str], fields: Mapping[str, str], schema: TableSchema) -> bool:
    """Return True for comparisons of this table's columns with literals of their types, where lakeidx compares as Spark does."""

    def type_of(side: Node) -> DataType | None:
        if isinstance(side, exp.Column) and side.table.lower() in names and side.name.lower() in fields:
            return schema.field(fields[side.name.lower()]).type
        return None

    def compares(column: Node, literals: Sequence[Node]) -> bool:
        kind = type_of(column)
        return kind is not None and bool(literals) and all(_fits(kind, x) for x in literals)

    if isinstance(node, (exp.And, exp.Or)):
        return all(_is_known(n, names, fields, schema) for n in (node.this, node.expression))
    if isinstance(node, (exp.Not, exp.Paren)):
        return _is_known(node.this, names, fields, schema)
    if isinstance(node, _COMPARISONS):
        return compares(node.this, [node.expression]) or compares(node.expression, [node.this])
    if isinstance(node, exp.In):
        return compares(node.this, node.expressions)
    if isinstance(node, exp.Between):
        return compares(node.this, [node.args["low"], node.args["high"]])
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null) and type_of(node.this) is not None


def _fits(kind: DataType, literal: Node) -> bool:
    if isinstance(literal, exp.Cast):
        is_date = literal.to.this == exp.DataType.Type.DATE and kind.root is Root.DATE
        return is_date and isinstance(literal.this, exp.Literal) and _fits(kind, literal.this)
    if isinstance(literal, exp.Boolean):
        return kind.root is Root.BOOLEAN
    number = literal.this if isinstance(literal, exp.Neg) else literal
    if not isinstance(number, exp.Literal):
        return False
    if number.is_string:
        is_text = kind.root is Root.VARCHAR
        return number is literal and (is_text or (kind.root is Root.DATE and _DATE.fullmatch(number.name) is not None))
    digits = _DECIMAL.fullmatch(number.name)
    if digits is None:
        return False
    if kind.root is Root.DECIMAL:
        return len(digits[1] or "") <= (kind.scale or 0)
    return kind.root in _INTEGERS and "." not in number.name
