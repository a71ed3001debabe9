"""Predicates from Python: ``(col("a") > 5) & ~col("name").startswith("x")``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakeidx.predicate.like import like_predicate
from lakeidx.predicate.tree import Compare, In, IsNull, Match, MatchKind, Op, Predicate, between, map_reference


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column to build predicates on; ``col("m")["key"]`` is one entry of a map column.

    Literals are Python values (int, str, Decimal, date, datetime, bytes, ...); `bind` casts them to the column's type,
    which the table's own methods do for you.
    """

    name: str
    map_key: str | None = None

    def __getitem__(self, key: str) -> Column:
        if self.map_key is not None:
            raise TypeError(f"{self.name} already names an entry of a map")
        return Column(map_reference(self.name, key), key)

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]  # an expression, as in every such builder
        return self._compare(Op.EQ, value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compare(Op.NE, value)

    def __lt__(self, value: Any) -> Predicate:
        return self._compare(Op.LT, value)

    def __le__(self, value: Any) -> Predicate:
        return self._compare(Op.LE, value)

    def __gt__(self, value: Any) -> Predicate:
        return self._compare(Op.GT, value)

    def __ge__(self, value: Any) -> Predicate:
        return self._compare(Op.GE, value)

    __hash__ = None  # type: ignore[assignment]

    def _compare(self, op: Op, value: Any) -> Predicate:
        if isinstance(value, Column):
            raise TypeError("comparing two columns is not supported")
        return Compare(self.name, op, value, self.map_key)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Build ``IN (values)``."""
        return In(self.name, tuple(values), map_key=self.map_key)

    def not_in(self, values: Iterable[Any]) -> Predicate:
        """Build ``NOT IN (values)``."""
        return In(self.name, tuple(values), negated=True, map_key=self.map_key)

    def between(self, low: Any, high: Any) -> Predicate:
        """Build ``BETWEEN low AND high``, both ends included."""
        return between(self.name, low, high, map_key=self.map_key)

    def is_null(self) -> Predicate:
        """Build ``IS NULL``."""
        return IsNull(self.name, map_key=self.map_key)

    def is_not_null(self) -> Predicate:
        """Build ``IS NOT NULL``."""
        return IsNull(self.name, negated=True, map_key=self.map_key)

    def startswith(self, text: str) -> Predicate:
        """Match strings that start with `text`."""
        return Match(self.name, MatchKind.PREFIX, text, map_key=self.map_key)

    def endswith(self, text: str) -> Predicate:
        """Match strings that end with `text`."""
        return Match(self.name, MatchKind.SUFFIX, text, map_key=self.map_key)

    def contains(self, text: str) -> Predicate:
        """Test that `text` occurs in the string."""
        return Match(self.name, MatchKind.CONTAINS, text, map_key=self.map_key)

    def like(self, pattern: str, *, escape: str = "\\") -> Predicate:
        """Build ``LIKE pattern ESCAPE escape``."""
        return like_predicate(self.name, pattern, escape=escape, map_key=self.map_key)


def col(name: str) -> Column:
    """Name a column."""
    return Column(name)
