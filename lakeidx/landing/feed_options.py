"""Choice and naming of the tables that a feed of many tables fills; named as Paimon's own database synchronization names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.landing.changes import is_of_source
from lakeidx.landing.new_columns import merge_policy
from lakeidx.types import DataType, parse_type

#: In `primary_keys`, `partition_keys` and `types`: every table that is not named.
ALL = "*"
#: Names in an expression that only lists them.
_LISTED = re.compile(r"[\w|-]+")


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Choice, names and keys of the tables of a feed.

    A table of the source is named by its whole name (``shop.public.orders``) or the end of it (``orders``).

    including_tables   expression that a name has to match as a whole: ``orders|customers``, ``shop\\..*``
    excluding_tables   expression of those that are left out, also when they are included
    table_prefix, table_suffix   around the source's name
    table_mapping      source table -> whole name of its table, without prefix and suffix
    primary_keys       source table, or ``*`` -> columns; before what the messages say
    partition_keys     the same
    types              ``orders.price`` or ``*.price`` -> type; before what the messages say
    table_conf         options of new tables: ``bucket``, ``sequence.field`` …
    schema_changes     columns that a table does not have: ``refuse``, ``add``; ``widen`` also types that became wider
    errors             InvalidInputError for an expression, a type or a policy that is none
    """

    including_tables: str = ".*"
    excluding_tables: str | None = None
    table_prefix: str = ""
    table_suffix: str = ""
    table_mapping: Mapping[str, str] = field(default_factory=dict)
    primary_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partition_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    table_conf: Mapping[str, Any] = field(default_factory=dict)
    schema_changes: str = "widen"

    def __post_init__(self) -> None:
        for name in ("including_tables", "excluding_tables"):
            try:
                re.compile(getattr(self, name) or "")
            except re.error as error:
                raise InvalidInputError(f"{name} is no regular expression: {error}") from error
        merge_policy(self.schema_changes)
        for column, t in self.types.items():
            parse_type(t, where=f"type of {column}")
            if "." not in column:
                raise InvalidInputError(f"types: {column!r}: write table.column, or *.column for all tables")

    def wants(self, source: str) -> bool:
        """Return whether a table of the source is chosen."""
        left_out = self.excluding_tables is not None and _matches(self.excluding_tables, source)
        return not left_out and _matches(self.including_tables, source)

    def target(self, source: str) -> str:
        """Return the name of a source table's table."""
        mapped = _of(self.table_mapping, source)
        return mapped or f"{self.table_prefix}{source.rpartition('.')[2]}{self.table_suffix}"

    def keys_of(self, source: str) -> tuple[str, ...]:
        """Return the primary key that was given for a table; none where it was not."""
        return _of(self.primary_keys, source) or self.primary_keys.get(ALL, ())

    def partition_keys_of(self, source: str) -> tuple[str, ...]:
        """Return the partition columns that were given for a table."""
        return _of(self.partition_keys, source) or self.partition_keys.get(ALL, ())

    def types_of(self, source: str) -> dict[str, DataType]:
        """Return the types that were given for columns of a table, those for it alone last."""
        split = [(*name.rpartition("."), t) for name, t in self.types.items()]
        chosen = [(n == ALL, column, t) for n, _, column, t in split if n == ALL or is_of_source(source, [n])]
        return {column: parse_type(t) for _, column, t in sorted(chosen, key=lambda c: not c[0])}

    def listed(self) -> list[str]:
        """Return the tables that are named one by one; none where an expression chooses them."""
        return self.including_tables.split("|") if _LISTED.fullmatch(self.including_tables) else []


def _of(values: Mapping[str, Any], source: str) -> Any:
    return next((v for name, v in values.items() if is_of_source(source, [name])), None)


def _matches(expression: str, source: str) -> bool:
    parts = source.split(".")
    return any(re.fullmatch(expression, ".".join(parts[i:])) for i in range(len(parts)))
