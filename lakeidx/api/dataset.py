"""A table as a PyArrow dataset: engines that read datasets hand down which columns and rows they want.

A filter that can be said in lakeidx's own terms prunes partitions, buckets, files, row groups and pages. It is taken only when it
can be turned back into exactly the expression that came; PyArrow applies every filter to the rows in any case.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeidx.api.system_table import SystemTable, WarehouseTable
from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.predicate import IsNull, Op, Predicate, bind_foreign
from lakeidx.predicate import and_ as all_of
from lakeidx.predicate import or_ as any_of
from lakeidx.table.scan.states import Fallback
from lakeidx.table.scan.table_scan import TableScan, plan_state
from lakeidx.types import Field

_TEXT = r'"(?:[^"\\]|\\.)*"'
_SET = rf"\{{value_set=[^:]*:\[(?:{_TEXT}|[^\"\]])*\],\ null_matching_behavior=MATCH\}}"
#: An expression as PyArrow shows it: a test of one column, or two expressions in parentheses with a word between them.
_TOKEN = re.compile(
    rf"""is_valid\([^()]*\) | is_null\([^()]*,\ {{nan_is_null=false}}\)
    | if_else\(is_valid\([^()]*\),\ is_in\([^()]*?,\ {_SET}\),\ null\[bool\]\) | is_in\([^()]*?,\ {_SET}\)
    | \((?:{_TEXT}|[^"()])*\) | \( | \) | \ and\  | \ or\ """,
    re.VERBOSE | re.DOTALL,
)
_COMPARISON = re.compile(r"\((.+?) (==|!=|<=|<|>=|>) (.*)\)", re.DOTALL)
_IN = re.compile(r"(if_else\(is_valid\(.*?\), )?is_in\((.*?), \{value_set=[^:]*:\[(.*)\], null_matching.*", re.DOTALL)
_OPERATORS: dict[str, tuple[Any, Op]] = {
    "==": (eq, Op.EQ), "!=": (ne, Op.NE), "<": (lt, Op.LT), "<=": (le, Op.LE), ">": (gt, Op.GT), ">=": (ge, Op.GE)
}  # fmt: skip
_JOINS: dict[str, tuple[Any, Callable[[list[Predicate]], Predicate]]] = {
    " and ": (and_, all_of), " or ": (or_, any_of)
}  # fmt: skip
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """A table as a dataset: the newest state, at the moment of each scan.

    error         that ended a scan: the engine tells of it in its own way
    state         read this snapshot, None for one without rows, in the columns of a schema
    least_level, fallback   with `state`: as for `lakeidx.table.scan.table_scan.plan_state`
    """

    def __init__(
        self,
        table: Table,
        *,
        state: tuple[Snapshot | None, TableSchema] | None = None,
        least_level: int | None = None,
        fallback: Fallback | None = None,
    ) -> None:
        # The base class has no constructor to call: everything engines ask of a dataset is below.
        self.table = table
        self._state = state
        self._least_level, self._fallback = least_level, fallback
        self.error: LakeIdxError | None = None

    @property
    def _schema(self) -> TableSchema:
        return self.table.schema if self._state is None else self._state[1]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the state's schema."""
        return self._schema.arrow_schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> ds.Scanner:
        """Plan a scan of some columns of the rows that a filter keeps.

        columns  names, in order; None = all
        """
        schema = self._schema
        wanted = list(columns) if columns is not None else list(schema.field_names)
        # A name that occurs anywhere in the filter may be one of its columns.
        text = "" if filter is None else str(filter)
        needed = [n for n in schema.field_names if n in wanted or n in text] or [schema.field_names[0]]
        where = None if filter is None else predicate_of_arrow(filter, schema.fields, schema.arrow_schema)
        with self._noted():
            scan = self._scan(where, needed)
        return ds.Scanner.from_batches(self._batches(scan), schema=scan.arrow_schema, columns=wanted, filter=filter)

    def _batches(self, scan: TableScan) -> Iterator[pa.RecordBatch]:
        with self._noted():
            for rows in scan.batches():
                yield from rows.to_batches()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except LakeIdxError as error:
            self.error = error
            raise

    def _scan(self, where: Predicate | None, columns: list[str]) -> TableScan:
        if self._state is None:
            return self.table.scan(where=where, columns=columns)
        found, schema = self._state
        plan = plan_state(
            self.table.metadata, found, schema, where, least_level=self._least_level, fallback=self._fallback
        )
        return TableScan(self.table.metadata, plan, columns=columns)


class SystemDataset(ds.Dataset):  # type: ignore[misc]
    """A system table as a dataset, read anew by each scan."""

    def __init__(self, system: SystemTable | WarehouseTable) -> None:
        self.system = system

    @property
    def schema(self) -> pa.Schema:
        """Columns of the system table."""
        return self.system.arrow_schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> ds.Scanner:
        """Read the rows, and plan a scan of some columns of those that a filter keeps."""
        wanted = None if columns is None else list(columns)
        return ds.dataset(self.system.to_arrow()).scanner(columns=wanted, filter=filter)


def predicate_of_arrow(expression: pc.Expression, fields: Sequence[Field], schema: pa.Schema) -> Predicate | None:
    """Translate a filter into a predicate that every row it keeps passes.

    fields   the table's columns, and their Arrow types
    returns  None when it has more than comparisons of columns with values, lists of values and tests for null, joined by AND
             and OR, or a comparison that lakeidx does not make as PyArrow does
    """
    try:
        found = _Reader(fields, schema).read(str(expression))
    except (IndexError, ValueError, pa.ArrowException):
        return None
    # What was read out of a text is valid only if it is the same expression again.
    return found.predicate() if found.expression.equals(expression) else None


@dataclass(slots=True)
class _Part:
    """An expression that was read, and what it means: the joined predicates."""

    expression: pc.Expression
    meant: list[Predicate]
    word: str = " and "

    def predicate(self) -> Predicate:
        return _JOINS[self.word][1](self.meant)


class _Reader:
    """Reads one expression from its text, in one pass."""

    def __init__(self, fields: Sequence[Field], schema: pa.Schema) -> None:
        self._fields = {f.name: f for f in fields}
        self._types = {f.name: f.type for f in schema}

    def read(self, text: str) -> _Part:
        open_parts: list[_Part | str] = []
        at = 0
        for token in _TOKEN.finditer(text):
            if token.start() != at:
                raise ValueError
            at, word = token.end(), token.group()
            if word == ")":
                right, join, left, opening = (open_parts.pop() for _ in range(4))
                if not (isinstance(left, _Part) and isinstance(right, _Part) and join in _JOINS and opening == "("):
                    raise ValueError
                open_parts.append(_joined(left, str(join), right))
            else:
                open_parts.append(word if word == "(" or word in _JOINS else self._test(word))
        if at != len(text) or len(open_parts) != 1 or not isinstance(open_parts[0], _Part):
            raise ValueError
        return open_parts[0]

    def _test(self, text: str) -> _Part:
        found = _IN.fullmatch(text)
        if found is not None:
            return self._in(found[2], found[3], found[1] is not None)
        if text.startswith("is_"):
            name = self._known(text.partition("(")[2].removesuffix(")").removesuffix(", {nan_is_null=false}"))
            valid, column = text.startswith("is_valid"), pc.field(name)
            return _Part(column.is_valid() if valid else column.is_null(), [IsNull(name, negated=valid)])
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            raise ValueError
        name, (compare, op) = self._known(comparison[1]), _OPERATORS[comparison[2]]
        scalar, value = _value(comparison[3], self._types[name])
        return _Part(compare(pc.field(name), scalar), [self._meant(name, op, value)])

    def _in(self, column: str, listed: str, guarded: bool) -> _Part:
        name = self._known(column)
        t = self._types[name]
        values = [_value(v, t) for v in re.findall(rf"{_TEXT}|[^,\s][^,]*", listed)]
        if not values:
            raise ValueError
        kind = values[0][0].type
        expression = pc.field(name).isin(pa.array([s.as_py() for s, _ in values], kind))
        if guarded:
            expression = pc.if_else(pc.field(name).is_valid(), expression, pa.scalar(None, pa.bool_()))
        return _Part(expression, [any_of(self._meant(name, Op.EQ, v) for _, v in values)])

    def _known(self, name: str) -> str:
        if name not in self._types:
            raise ValueError
        return name

    def _meant(self, name: str, op: Op, value: Any) -> Predicate:
        found = bind_foreign(self._fields[name], op, value)
        if found is None:
            raise ValueError
        return found


def _joined(left: _Part, word: str, right: _Part) -> _Part:
    """Join two expressions. A long chain comes as pairs in pairs: the longer side's list goes on."""
    meant = left.meant if left.word == word or len(left.meant) == 1 else [left.predicate()]
    meant.extend(right.meant if right.word == word or len(right.meant) == 1 else [right.predicate()])
    return _Part(_JOINS[word][0](left.expression, right.expression), meant, word)


def _value(text: str, t: pa.DataType) -> tuple[pa.Scalar, Any]:
    """Read a literal as PyArrow shows it: as a scalar, and as a predicate takes it."""
    if text.startswith('"'):
        plain = re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
        if not pa.types.is_binary(t):
            return pa.scalar(plain, t), plain
        return pa.scalar(bytes.fromhex(plain), t), bytes.fromhex(plain)
    digits = re.search(r":\d\d\.(\d+)", text)
    unit = _UNITS.get(0 if digits is None else len(digits[1]))
    if pa.types.is_timestamp(t):
        t = pa.timestamp(unit, t.tz)
    elif pa.types.is_time(t):
        t = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        return pa.scalar(dt.time.fromisoformat(text.strip()), t), text.strip()
    return pa.scalar(text.strip()).cast(t), text.strip()
