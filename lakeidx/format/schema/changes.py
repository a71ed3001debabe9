"""Schema evolution: pure functions TableSchema -> TableSchema with the next id.

A column is named by its name; a field of a ROW by its path, ``address.city``; below an ARRAY or MAP the words ``element`` and
``value`` stand for what it holds: ``lines.element.price``.

source   org.apache.paimon.schema.SchemaManager, SchemaEvolutionUtil, release 1.4.2 (rules);
         SchemaManager.applyRenameColumnsToOptions (options of file indexes and of the index family are lakeidx's own care)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.format.schema.option_changes import SchemaChange
from lakeidx.format.schema.rules import check_schema
from lakeidx.format.schema.schema_file import TableSchema, highest_field_id
from lakeidx.types import DataType, Field, Root, assign_field_ids
from lakeidx.types.widening import is_widening

#: The columns of a table, or the fields of one ROW.
Siblings = tuple[Field, ...]


def evolve(schema: TableSchema, changes: Sequence[SchemaChange], *, time_millis: int | None = None) -> TableSchema:
    """Apply changes in order; the result gets the next schema id.

    changes   functions made by `add_column` and the others below
    errors    InvalidInputError for a change that is not allowed, or a result that is not a valid schema
    """
    result = schema
    for change in changes:
        result = change(result)
    result = replace(
        result,
        id=schema.id + 1,
        time_millis=time.time_ns() // 1_000_000 if time_millis is None else time_millis,
        highest_field_id=max(result.highest_field_id, highest_field_id(result.fields)),
        version=3,
    )
    check_schema(result)
    return result


def add_column(name: str, data_type: DataType) -> SchemaChange:
    """Add a nullable column at the end; its id is the next after the highest ever given."""

    def change(schema: TableSchema) -> TableSchema:
        *parents, leaf = _path(schema, name)
        if not data_type.nullable:
            raise InvalidInputError(
                f"a new column must be nullable; {name!r} is NOT NULL and old rows have no value for it"
            )
        start = schema.highest_field_id + 1
        (field,) = assign_field_ids([Field(0, leaf, data_type)], start=start)

        def insert(siblings: Siblings) -> Siblings:
            if any(f.name == leaf for f in siblings):
                raise InvalidInputError(f"column {name!r} exists")
            return (*siblings, field)

        changed = _edit(schema, parents, insert)
        return replace(changed, highest_field_id=max(schema.highest_field_id, highest_field_id((field,))))

    return change


def drop_column(name: str) -> SchemaChange:
    """Drop a column; its id is not reused."""

    def change(schema: TableSchema) -> TableSchema:
        *parents, leaf = _path(schema, name)
        if not parents:
            _refuse_key(schema, name, "dropped", primary=True)
            _refuse_in_options(schema, name, "dropped")

        def remove(siblings: Siblings) -> Siblings:
            at = _index(siblings, leaf)
            if len(siblings) == 1:
                raise InvalidInputError(f"column {name!r} is the only one left")
            return siblings[:at] + siblings[at + 1 :]

        return _edit(schema, parents, remove)

    return change


def rename_column(name: str, new_name: str) -> SchemaChange:
    """Rename a column; its id stays, so old files remain readable. Options that name it are rewritten.

    new_name   of a nested field: its own name, without the path
    """

    def change(schema: TableSchema) -> TableSchema:
        *parents, leaf = _path(schema, name)
        if not parents:
            _refuse_key(schema, name, "renamed", primary=False)

        def rename(siblings: Siblings) -> Siblings:
            at = _index(siblings, leaf)
            if any(f.name == new_name for f in siblings):
                raise InvalidInputError(f"column {new_name!r} exists")
            return (*siblings[:at], replace(siblings[at], name=new_name), *siblings[at + 1 :])

        changed = _edit(schema, parents, rename)
        if parents:
            return changed
        return replace(
            changed,
            primary_keys=tuple(new_name if k == name else k for k in schema.primary_keys),
            options=_renamed_options(schema.options, name, new_name),
        )

    return change


def change_type(name: str, data_type: DataType) -> SchemaChange:
    """Widen a column's type: every value of the old type must be one of the new. Nullability stays."""

    def change(schema: TableSchema) -> TableSchema:
        if len(_path(schema, name)) == 1:
            _refuse_key(schema, name, "given another type", primary=True)

        def widen(old: Field) -> Field:
            if not is_widening(old.type, data_type):
                raise InvalidInputError(
                    f"column {name!r}: {old.type} cannot be widened to {data_type}; types only grow, so that no value changes"
                )
            return replace(old, type=data_type.with_nullable(old.type.nullable))

        return _edit_field(schema, name, widen)

    return change


def change_nullability(name: str, nullable: bool) -> SchemaChange:
    """Make a column nullable, or required (only with option ``alter-column-null-to-not-null.disabled`` = false)."""

    def change(schema: TableSchema) -> TableSchema:
        if len(_path(schema, name)) == 1:
            _refuse_key(schema, name, "given another nullability", primary=True)

        def turn(old: Field) -> Field:
            if old.type.nullable and not nullable and schema.table_options.alter_column_null_to_not_null_disabled:
                raise InvalidInputError(
                    f"column {name!r} cannot become NOT NULL: option 'alter-column-null-to-not-null.disabled' is true"
                )
            return replace(old, type=old.type.with_nullable(nullable))

        return _edit_field(schema, name, turn)

    return change


def change_description(name: str, description: str | None) -> SchemaChange:
    """Change a column's description."""
    return lambda schema: _edit_field(schema, name, lambda old: replace(old, description=description))


def change_default(name: str, default_value: str | None) -> SchemaChange:
    """Change a column's default, as text of its type; it replaces null in rows written from now on."""

    def change(schema: TableSchema) -> TableSchema:
        if len(_path(schema, name)) > 1:
            raise InvalidInputError(f"column {name!r}: only whole columns have defaults, not fields inside them")
        return _edit_field(schema, name, lambda old: replace(old, default_value=default_value))

    return change


def move_column(name: str, *, first: bool = False, after: str | None = None) -> SchemaChange:
    """Move a column to the front, or after another one of the same row."""

    def change(schema: TableSchema) -> TableSchema:
        *parents, leaf = _path(schema, name)
        if first == (after is not None) or after == leaf:
            raise InvalidInputError(f"move column {name!r} either first or after another column")

        def move(siblings: Siblings) -> Siblings:
            at = _index(siblings, leaf)
            rest = siblings[:at] + siblings[at + 1 :]
            to = 0 if after is None else 1 + _index(rest, after)
            return (*rest[:to], siblings[at], *rest[to:])

        return _edit(schema, parents, move)

    return change


def set_comment(comment: str | None) -> SchemaChange:
    """Set or remove the table's comment."""
    return lambda schema: replace(schema, comment=comment)


def _path(schema: TableSchema, name: str) -> tuple[str, ...]:
    """Parse a column's path; a name with dots is a column of that name before it is a path."""
    return (name,) if name in schema.fields_by_name or "." not in name else tuple(name.split("."))


def _index(siblings: Siblings, name: str) -> int:
    for i, f in enumerate(siblings):
        if f.name == name:
            return i
    raise InvalidInputError(f"no column {name!r}; {did_you_mean(name, [f.name for f in siblings])}")


def _edit(schema: TableSchema, parents: Sequence[str], edit: Callable[[Siblings], Siblings]) -> TableSchema:
    """Change the columns, or the fields of the ROW at a path."""
    if not parents:
        return replace(schema, fields=edit(schema.fields))

    def inside(field: Field) -> Field:
        if field.type.root is not Root.ROW:
            raise InvalidInputError(f"{'.'.join(parents)!r} is {field.type} and has no fields")
        return replace(field, type=replace(field.type, fields=edit(field.type.fields)))

    return replace(schema, fields=_edit_at(schema.fields, parents, inside))


def _edit_field(schema: TableSchema, name: str, edit: Callable[[Field], Field]) -> TableSchema:
    """Change one column, or one field at a path."""
    return replace(schema, fields=_edit_at(schema.fields, _path(schema, name), edit))


def _edit_at(siblings: Siblings, path: Sequence[str], edit: Callable[[Field], Field]) -> Siblings:
    at = _index(siblings, path[0])
    field = siblings[at]
    field = edit(field) if len(path) == 1 else replace(field, type=_edit_type(field.type, path, 1, edit))
    return (*siblings[:at], field, *siblings[at + 1 :])


def _edit_type(t: DataType, path: Sequence[str], depth: int, edit: Callable[[Field], Field]) -> DataType:
    """Change what is below a type at ``path[depth:]``."""
    if t.root is Root.ROW:
        return replace(t, fields=_edit_at(t.fields, path[depth:], edit))
    word = {Root.ARRAY: "element", Root.MAP: "value"}.get(t.root)
    if word is None or path[depth] != word or t.element is None:
        inside = f"name its {word!r}" if word else "it has no fields"
        raise InvalidInputError(f"{'.'.join(path[:depth])!r} is {t}: {inside}")
    if depth == len(path) - 1:
        return replace(t, element=edit(Field(0, path[depth], t.element)).type)
    return replace(t, element=_edit_type(t.element, path, depth + 1, edit))


def _refuse_key(schema: TableSchema, name: str, verb: str, *, primary: bool) -> None:
    schema.field(name)
    if name in schema.partition_keys:
        raise InvalidInputError(f"partition column {name!r} cannot be {verb}")
    if primary and name in schema.primary_keys:
        raise InvalidInputError(f"primary key column {name!r} cannot be {verb}")


_COLUMN_LISTS = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "partial-update.remove-record-on-sequence-group",
    "hoodie.bucket.index.hash.field",
)
_FILE_INDEX, _FIELDS = "file-index.", "fields."
_NOT_A_COLUMN = "fields.default-aggregate-function"


def _option_naming(options: Mapping[str, str], name: str) -> str | None:
    """Find the first option that names a column, None when none does."""
    for key, value in options.items():
        if key in _COLUMN_LISTS and name in _names_in(value):
            return key
        if key.startswith(_FIELDS) and key != _NOT_A_COLUMN and _field_option_names(key, value, name):
            return key
        if key.startswith(_FILE_INDEX) and _file_index_option_names(key, value, name):
            return key
    return None


def _refuse_in_options(schema: TableSchema, name: str, verb: str) -> None:
    """Raise InvalidInputError when an option of the table names the column.

    verb   what was to be done with the column, for the message: ``dropped``
    """
    key = _option_naming(schema.options, name)
    if key is not None:
        raise InvalidInputError(
            f"column {name!r} cannot be {verb}: option '{key}' names it; set or reset that option in the same change"
        )


def _renamed_options(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
    """Return the options with a column's new name wherever they name it."""
    return dict(_renamed(key, value, name, new_name) for key, value in options.items())


def _field_option_names(key: str, value: str, name: str) -> bool:
    columns, _, option = key[len(_FIELDS) :].rpartition(".")
    return name in _names_in(columns) or (option == "sequence-group" and name in _names_in(value))


def _file_index_option_names(key: str, value: str, name: str) -> bool:
    if key.endswith(".columns"):
        return any(_base(part) == name for part in _names_in(value))
    parts = key.split(".")
    return len(parts) == 4 and _base(parts[2]) == name


def _renamed(key: str, value: str, name: str, new_name: str) -> tuple[str, str]:
    if key in _COLUMN_LISTS:
        return key, _swap(value, name, new_name) if name in _names_in(value) else value
    if key.startswith(_FIELDS) and key != _NOT_A_COLUMN:
        columns, _, option = key[len(_FIELDS) :].rpartition(".")
        if name in _names_in(columns):
            key = f"{_FIELDS}{_swap(columns, name, new_name)}.{option}"
        if option == "sequence-group" and name in _names_in(value):
            value = _swap(value, name, new_name)
    elif key.startswith(_FILE_INDEX) and _file_index_option_names(key, value, name):
        if key.endswith(".columns"):
            return key, ",".join(_renamed_reference(part, name, new_name) for part in _names_in(value))
        parts = key.split(".")
        return ".".join((*parts[:2], _renamed_reference(parts[2], name, new_name), parts[3])), value
    return key, value


def _names_in(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


def _swap(value: str, name: str, new_name: str) -> str:
    return ",".join(new_name if part == name else part for part in _names_in(value))


def _base(reference: str) -> str:
    return reference.partition("[")[0]


def _renamed_reference(reference: str, name: str, new_name: str) -> str:
    base, bracket, rest = reference.partition("[")
    return f"{new_name}{bracket}{rest}" if base == name else reference
