"""Wanted changes of a schema as data, and two versions of a schema compared column by column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.changes import (
    add_column,
    change_default,
    change_description,
    change_nullability,
    change_type,
    drop_column,
    move_column,
    rename_column,
    set_comment,
)
from lakeidx.format.schema.option_changes import SchemaChange, remove_options, set_options
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.options.arguments import texts
from lakeidx.options.descriptors import raw_options
from lakeidx.types import DataType, Field, Root, parse_type

#: A type as schema JSON writes it: text, an object for nested ones, or the type itself.
TypeSpec = str | Mapping[str, Any] | DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEdits:
    """Changes of one schema, made in the order of these attributes, all of them or none.

    Columns are named as in `lakeidx.format.schema.changes`: ``city``, ``address.city``, ``lines.element.price``.

    reset      options that get their default back
    set        options and their new values
    drop       columns to remove
    rename     old name -> new name (of a nested field without its path)
    add        new columns -> type: ``"INT"``, ``{"type": "ARRAY", "element": "INT"}``
    types      columns -> wider type
    nullable   columns -> whether they may hold nulls
    comments   columns -> description, or None for none
    defaults   columns -> default as text, or None for none
    move       columns -> ``first``, or ``after NAME``
    comment    description of the table, "" for none; None leaves it
    """

    reset: Sequence[str] = ()
    set: Mapping[str, Any] | None = None
    drop: Sequence[str] = ()
    rename: Mapping[str, str] | None = None
    add: Mapping[str, TypeSpec] | None = None
    types: Mapping[str, TypeSpec] | None = None
    nullable: Mapping[str, bool] | None = None
    comments: Mapping[str, str | None] | None = None
    defaults: Mapping[str, str | None] | None = None
    move: Mapping[str, str] | None = None
    comment: str | None = None

    def __post_init__(self) -> None:
        for name in ("set", "rename", "add", "types", "nullable", "comments", "defaults", "move"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise InvalidInputError(f"{name} must be a mapping of names, not {value!r}")

    def __bool__(self) -> bool:
        return self.comment is not None or any(getattr(self, f.name) for f in fields(self))

    def changes(self, *, has_snapshot: bool) -> list[SchemaChange]:
        """Return the changes as functions, in order.

        has_snapshot   the table holds data: options that decide where rows are cannot change any more
        errors         InvalidInputError for a type or a place that cannot be read
        """
        return [*self._option_changes(has_snapshot), *self._column_changes()]

    def _option_changes(self, has_snapshot: bool) -> Iterator[SchemaChange]:
        if self.reset:
            yield remove_options(list(texts(self.reset, name="reset")), has_snapshot=has_snapshot)
        if self.set:
            yield set_options(raw_options(self.set), has_snapshot=has_snapshot)

    def _column_changes(self) -> Iterator[SchemaChange]:
        yield from (drop_column(name) for name in texts(self.drop, name="drop"))
        yield from (rename_column(name, new) for name, new in (self.rename or {}).items())
        yield from (add_column(name, _read_type(t, name)) for name, t in (self.add or {}).items())
        yield from (change_type(name, _read_type(t, name)) for name, t in (self.types or {}).items())
        yield from (change_nullability(name, flag) for name, flag in (self.nullable or {}).items())
        yield from (change_description(name, text) for name, text in (self.comments or {}).items())
        yield from (change_default(name, text) for name, text in (self.defaults or {}).items())
        yield from (_move(name, place) for name, place in (self.move or {}).items())
        if self.comment is not None:
            yield set_comment(self.comment or None)


def _read_type(spec: TypeSpec, name: str) -> DataType:
    """Parse a column's type from its text, from JSON text, or from the object of schema JSON."""
    if isinstance(spec, DataType):
        return spec
    parsed: str | Mapping[str, Any] = spec
    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        try:
            parsed = json.loads(spec)
        except ValueError as error:
            raise InvalidInputError(f"column {name!r}: the type is not JSON: {error}") from error
    try:
        return parse_type(parsed, where=f"column {name!r}")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidInputError(f"column {name!r}: cannot read the type {spec!r}") from error


def _move(name: str, place: str) -> SchemaChange:
    words = place.split(maxsplit=1)
    if words == ["first"]:
        return move_column(name, first=True)
    if len(words) == 2 and words[0] == "after":
        return move_column(name, after=words[1].strip())
    raise InvalidInputError(f"column {name!r} moves to 'first' or 'after NAME', not to {place!r}")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two schemas.

    what     column, option or table
    name     of the column (with its path) or option
    change   added, dropped, renamed, type, nullability, comment, default, moved, set, reset
    before, after   texts, "" where there is none
    """

    what: str
    name: str
    change: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        text = f"{self.what} {self.name}: {self.change}" if self.name else f"{self.what}: {self.change}"
        if self.before and self.after:
            return f"{text}, {self.before} -> {self.after}"
        value = self.after or self.before
        return f"{text}, {value}" if value else text


def schema_differences(before: TableSchema, after: TableSchema) -> tuple[Difference, ...]:
    """Describe what changed from one version of a table's schema to another, columns first; they are matched by their ids."""
    return (
        *_column_differences(before.fields, after.fields, ""),
        *_option_differences(before.options, after.options),
        *_text_difference("table", "", "comment", before.comment, after.comment),
    )


def _option_differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    """Return the options that were set, changed or reset, by name."""
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            change = "set" if key in after else "reset"
            yield Difference("option", key, change, before.get(key, ""), after.get(key, ""))


def _column_differences(before: Sequence[Field], after: Sequence[Field], path: str) -> Iterator[Difference]:
    old = {f.id: f for f in before}
    kept = {f.id for f in after}
    yield from (Difference("column", path + f.name, "dropped", str(f.type)) for f in before if f.id not in kept)
    stay = [f.id for f in after if f.id in old]
    place = {i: n for n, i in enumerate(f.id for f in before if f.id in kept)}
    for f in after:
        if f.id not in old:
            yield Difference("column", path + f.name, "added", after=str(f.type))
        else:
            yield from _field_differences(old[f.id], f, path)
    if [i for i, _ in sorted(place.items(), key=lambda item: item[1])] != stay:
        names = {f.id: f.name for f in after}
        order = ", ".join(names[i] for i in stay)
        yield Difference("column", f"{path}*", "moved", after=f"the order is {order}")


def _field_differences(old: Field, new: Field, path: str) -> Iterator[Difference]:
    name = path + new.name
    if old.name != new.name:
        yield Difference("column", path + old.name, "renamed", old.name, new.name)
    yield from _type_differences(old.type, new.type, name)
    yield from _text_difference("column", name, "comment", old.description, new.description)
    yield from _text_difference("column", name, "default", old.default_value, new.default_value)


def _type_differences(old: DataType, new: DataType, name: str) -> Iterator[Difference]:
    if old.nullable != new.nullable:
        texts = ("NOT NULL", "nullable")
        yield Difference("column", name, "nullability", texts[old.nullable], texts[new.nullable])
    if old.root is Root.ROW and new.root is Root.ROW:
        yield from _column_differences(old.fields, new.fields, f"{name}.")
    elif old.root is new.root and old.element is not None and new.element is not None and old.key == new.key:
        word = "value" if old.root is Root.MAP else "element"
        yield from _type_differences(old.element, new.element, f"{name}.{word}")
    elif old.with_nullable(True) != new.with_nullable(True):
        yield Difference("column", name, "type", str(old.with_nullable(True)), str(new.with_nullable(True)))


def _text_difference(what: str, name: str, change: str, old: str | None, new: str | None) -> Iterator[Difference]:
    if old != new:
        yield Difference(what, name, change, repr(old) if old is not None else "none", repr(new) if new else "none")
