"""A data type of Paimon, and a column of one.

*Internal values* (what scalar codecs take and give): BOOLEAN bool; integers int; FLOAT/DOUBLE float; DECIMAL
``decimal.Decimal`` with the type's scale; CHAR/VARCHAR str; BINARY/VARBINARY bytes; DATE int (epoch days); TIME int (ms of
day); TIMESTAMP and TIMESTAMP_LTZ ``(epoch_millis, nanos_of_milli)``; ARRAY list; MAP and MULTISET list of ``(key, value)``
pairs; ROW tuple; VARIANT ``(value, metadata)`` bytes; null is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

MAX_LENGTH = 2147483647


class Root(StrEnum):
    """Type roots, by the word that schema JSON uses."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"


STRING_ROOTS = frozenset({Root.CHAR, Root.VARCHAR})
BYTES_ROOTS = frozenset({Root.BINARY, Root.VARBINARY})
INT_ROOTS = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT})
NESTED_ROOTS = frozenset({Root.ARRAY, Root.MULTISET, Root.MAP, Root.ROW})
TIMESTAMP_ROOTS = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})


@dataclass(frozen=True, slots=True)
class Field:
    """A named column or a field of a ROW; `id` is stable over renames.

    unknown   keys that a later release gave it in the schema file; they do not make a type another one
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False)


FIELD_KEYS = frozenset({"id", "name", "type", "description", "defaultValue"})
"""Keys of a column or ROW field in a schema file."""


@dataclass(frozen=True, slots=True)
class DataType:
    """One Paimon type.

    length     CHAR, VARCHAR, BINARY, VARBINARY (characters or bytes)
    precision  DECIMAL (digits), TIME, TIMESTAMP, TIMESTAMP_LTZ (fraction digits)
    scale      DECIMAL
    element    ARRAY and MULTISET element, MAP value
    key        MAP key
    fields     ROW fields
    """

    root: Root
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    element: DataType | None = None
    key: DataType | None = None
    fields: tuple[Field, ...] = field(default=())

    def with_nullable(self, nullable: bool) -> DataType:
        """Return the same type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    @property
    def is_nested(self) -> bool:
        """True for ARRAY, MULTISET, MAP and ROW."""
        return self.root in NESTED_ROOTS

    @property
    def is_compact(self) -> bool:
        """True when a DECIMAL or TIMESTAMP fits the fixed 8-byte slot of a row (p <= 18, p <= 3)."""
        if self.root is Root.DECIMAL:
            return self.precision <= 18
        return self.root in TIMESTAMP_ROOTS and self.precision <= 3

    def __str__(self) -> str:
        from lakeidx.types.text import sql_type

        return sql_type(self)


def walk_field_ids(t: DataType) -> Iterator[int]:
    """Return the ids of all nested ROW fields below a type, depth first."""
    for child in (t.key, t.element):
        if child is not None:
            yield from walk_field_ids(child)
    for f in t.fields:
        yield f.id
        yield from walk_field_ids(f.type)


def assign_field_ids(columns: Sequence[Field], *, start: int = 0) -> tuple[Field, ...]:
    """Assign ids to columns as Paimon does: a column first, then its nested ROW fields, children before their parent field.

    columns  their ids, and those inside ROW types, are replaced
    source   org.apache.paimon.types.ReassignFieldId, release 1.4.2
    """
    counter = [start]

    def take() -> int:
        counter[0] += 1
        return counter[0] - 1

    def renumber(t: DataType) -> DataType:
        key = renumber(t.key) if t.key is not None else None
        element = renumber(t.element) if t.element is not None else None
        fields = []
        for f in t.fields:
            inner = renumber(f.type)
            fields.append(replace(f, id=take(), type=inner))
        return replace(t, key=key, element=element, fields=tuple(fields))

    out = []
    for column in columns:
        column_id = take()
        out.append(replace(column, id=column_id, type=renumber(column.type)))
    return tuple(out)
