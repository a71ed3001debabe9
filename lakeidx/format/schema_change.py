"""Schema evolution: pure functions TableSchema -> TableSchema with the next id.

source   org.apache.paimon.schema.SchemaManager, SchemaEvolutionUtil, release 1.4.2 (rules)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import TableSchema, highest_field_id
from lakeidx.format.schema_rules import check_schema
from lakeidx.options import OPTION_BY_KEY
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, assign_field_ids

IMMUTABLE_OPTIONS = frozenset(
    {
        "type",
        "bucket-key",
        "bucket-function.type",
        "data-file.path-directory",
        "merge-engine",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "rowkind.field",
        "primary-key",
        "primary-key.nullable",
        "partition",
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "blob-field",
        "blob-descriptor-field",
        "blob-view-field",
        "pk-clustering-override",
    }
)
"""Options that cannot change once the table has a snapshot."""

_NEVER_TURNED_OFF = ("ignore-delete", "ignore-update-before")
_INT_ORDER = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_INT_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}

SchemaChange = Callable[[TableSchema], TableSchema]


def evolve(schema: TableSchema, changes: Sequence[SchemaChange], *, time_millis: int | None = None) -> TableSchema:
    """Apply changes in order and give the result the next schema id.

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


def add_column(
    name: str,
    data_type: DataType,
    *,
    description: str | None = None,
    first: bool = False,
    after: str | None = None,
) -> SchemaChange:
    """A new nullable column, at the end unless placed; its id is the next after the highest ever given."""

    def change(schema: TableSchema) -> TableSchema:
        if name in schema.fields_by_name:
            raise InvalidInputError(f"column {name!r} exists")
        if not data_type.nullable:
            raise InvalidInputError(
                f"a new column must be nullable; {name!r} is NOT NULL and old rows have no value for it"
            )
        if first and after is not None:
            raise InvalidInputError("a column goes first or after another, not both")
        field = assign_field_ids([(name, data_type, description)], start=schema.highest_field_id + 1)[0]
        at = 0 if first else len(schema.fields) if after is None else _position(schema, after) + 1
        fields = (*schema.fields[:at], field, *schema.fields[at:])
        return replace(schema, fields=fields, highest_field_id=max(schema.highest_field_id, highest_field_id((field,))))

    return change


def drop_column(name: str) -> SchemaChange:
    """Take a column away; its id is not given again."""

    def change(schema: TableSchema) -> TableSchema:
        _refuse_key(schema, name, "dropped", primary=True)
        _refuse_in_options(schema, name, "dropped")
        if len(schema.fields) == 1:
            raise InvalidInputError(f"column {name!r} is the only one left")
        at = _position(schema, name)
        return replace(schema, fields=schema.fields[:at] + schema.fields[at + 1 :])

    return change


def rename_column(name: str, new_name: str) -> SchemaChange:
    """Give a column another name; its id stays, so old files are still read. Options that name it are rewritten."""

    def change(schema: TableSchema) -> TableSchema:
        _refuse_key(schema, name, "renamed", primary=False)
        if new_name in schema.fields_by_name:
            raise InvalidInputError(f"column {new_name!r} exists")
        at = _position(schema, name)
        field = replace(schema.fields[at], name=new_name)
        return replace(
            schema,
            fields=(*schema.fields[:at], field, *schema.fields[at + 1 :]),
            primary_keys=tuple(new_name if k == name else k for k in schema.primary_keys),
            options=_renamed_options(schema.options, name, new_name),
        )

    return change


def change_type(name: str, data_type: DataType) -> SchemaChange:
    """Widen a column's type: every value of the old type must be one of the new. Nullability stays."""

    def change(schema: TableSchema) -> TableSchema:
        _refuse_key(schema, name, "given another type", primary=True)
        at = _position(schema, name)
        old = schema.fields[at]
        if not is_widening(old.type, data_type):
            raise InvalidInputError(f"column {name!r}: {old.type} cannot be widened to {data_type}")
        field = replace(old, type=data_type.with_nullable(old.type.nullable))
        return replace(schema, fields=(*schema.fields[:at], field, *schema.fields[at + 1 :]))

    return change


def change_nullability(name: str, nullable: bool) -> SchemaChange:
    """Let a column hold nulls, or no longer (only with option ``alter-column-null-to-not-null.disabled`` = false)."""

    def change(schema: TableSchema) -> TableSchema:
        _refuse_key(schema, name, "given another nullability", primary=True)
        at = _position(schema, name)
        old = schema.fields[at]
        if old.type.nullable and not nullable and schema.table_options.alter_column_null_to_not_null_disabled:
            raise InvalidInputError(
                f"column {name!r} cannot become NOT NULL: option 'alter-column-null-to-not-null.disabled' is true"
            )
        field = replace(old, type=old.type.with_nullable(nullable))
        return replace(schema, fields=(*schema.fields[:at], field, *schema.fields[at + 1 :]))

    return change


def change_description(name: str, description: str | None) -> SchemaChange:
    """Give a column another description."""

    def change(schema: TableSchema) -> TableSchema:
        at = _position(schema, name)
        field = replace(schema.fields[at], description=description)
        return replace(schema, fields=(*schema.fields[:at], field, *schema.fields[at + 1 :]))

    return change


def move_column(name: str, *, first: bool = False, after: str | None = None) -> SchemaChange:
    """Put a column first, or after another one."""

    def change(schema: TableSchema) -> TableSchema:
        if first == (after is not None) or after == name:
            raise InvalidInputError(f"column {name!r} goes first, or after another column")
        at = _position(schema, name)
        rest = schema.fields[:at] + schema.fields[at + 1 :]
        to = 0 if after is None else 1 + next((i for i, f in enumerate(rest) if f.name == after), -2)
        if to < 0:
            raise InvalidInputError(f"no column {after!r}; the table has {', '.join(schema.field_names)}")
        return replace(schema, fields=(*rest[:to], schema.fields[at], *rest[to:]))

    return change


def set_options(options: Mapping[str, str], *, has_snapshot: bool = True) -> SchemaChange:
    """Set options; those in `IMMUTABLE_OPTIONS` only before the table's first snapshot."""

    def change(schema: TableSchema) -> TableSchema:
        merged = {**schema.options, **options}
        for key, value in options.items():
            if schema.options.get(key) != value:
                _refuse_option(schema, key, value, has_snapshot)
        return replace(schema, options=merged)

    return change


def remove_options(keys: Sequence[str], *, has_snapshot: bool = True) -> SchemaChange:
    """Take options away, so that their defaults hold; keys that are not set are fine."""

    def change(schema: TableSchema) -> TableSchema:
        for key in keys:
            if key in schema.options:
                _refuse_option(schema, key, None, has_snapshot)
        return replace(schema, options={k: v for k, v in schema.options.items() if k not in keys})

    return change


def set_comment(comment: str | None) -> SchemaChange:
    """Give the table a comment, or none."""
    return lambda schema: replace(schema, comment=comment)


def is_widening(old: DataType, new: DataType) -> bool:
    """True when every value of `old` is one of `new` without loss, nullability aside."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if old.root in _INT_ORDER:
        if new.root in _INT_ORDER:
            return _INT_ORDER.index(new.root) >= _INT_ORDER.index(old.root)
        if new.root is Root.DECIMAL:
            return new.precision - new.scale >= _INT_DIGITS[old.root]
        return new.root is Root.DOUBLE or (new.root is Root.FLOAT and old.root in (Root.TINYINT, Root.SMALLINT))
    if old.root is Root.FLOAT:
        return new.root is Root.DOUBLE
    if old.root is Root.DECIMAL:
        return (
            new.root is Root.DECIMAL
            and new.scale >= old.scale
            and new.precision - new.scale >= old.precision - old.scale
        )
    if old.root in STRING_ROOTS:
        return new.root is Root.VARCHAR and new.length >= old.length
    if old.root in BYTES_ROOTS:
        return new.root is Root.VARBINARY and new.length >= old.length
    if old.root is Root.TIME or old.root in TIMESTAMP_ROOTS:
        return new.root is old.root and new.precision >= old.precision
    return False


def _position(schema: TableSchema, name: str) -> int:
    schema.field(name)
    return schema.field_names.index(name)


def _refuse_key(schema: TableSchema, name: str, verb: str, *, primary: bool) -> None:
    schema.field(name)
    if name in schema.partition_keys:
        raise InvalidInputError(f"partition column {name!r} cannot be {verb}")
    if primary and name in schema.primary_keys:
        raise InvalidInputError(f"primary key column {name!r} cannot be {verb}")


def _names_in(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


_COLUMN_LISTS = ("bucket-key", "sequence.field", "rowkind.field", "record-level.time-field")


def _refuse_in_options(schema: TableSchema, name: str, verb: str) -> None:
    for key in _COLUMN_LISTS:
        if name in _names_in(schema.options.get(key, "")):
            raise InvalidInputError(f"column {name!r} cannot be {verb}: option '{key}' names it")
    for key, value in schema.options.items():
        if not key.startswith("fields."):
            continue
        columns, _, option = key[len("fields.") :].rpartition(".")
        if name in _names_in(columns) or (option == "sequence-group" and name in _names_in(value)):
            raise InvalidInputError(f"column {name!r} cannot be {verb}: option '{key}' names it")


def _renamed_options(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
    def swap(value: str) -> str:
        return ",".join(new_name if part == name else part for part in _names_in(value))

    out = {}
    for key, value in options.items():
        if key in _COLUMN_LISTS and name in _names_in(value):
            value = swap(value)
        elif key.startswith("fields.") and key != "fields.default-aggregate-function":
            columns, _, option = key[len("fields.") :].rpartition(".")
            if name in _names_in(columns):
                key = f"fields.{swap(columns)}.{option}"
            if option == "sequence-group" and name in _names_in(value):
                value = swap(value)
        elif key.startswith("file-index."):
            if key.endswith(".columns"):
                value = ",".join(_renamed_index_column(part, name, new_name) for part in _names_in(value))
            else:
                parts = key.split(".")
                if len(parts) == 4 and parts[2] == name:
                    key = ".".join((*parts[:2], new_name, parts[3]))
        out[key] = value
    return out


def _renamed_index_column(column: str, name: str, new_name: str) -> str:
    base, bracket, rest = column.partition("[")
    return f"{new_name}{bracket}{rest}" if base == name else column


def _refuse_option(schema: TableSchema, key: str, value: str | None, has_snapshot: bool) -> None:
    if key in ("primary-key", "partition"):
        raise InvalidInputError(f"option '{key}' can only be given when the table is made")
    if not has_snapshot:
        return
    if key in IMMUTABLE_OPTIONS:
        raise InvalidInputError(f"option '{key}' cannot change once the table has a snapshot")
    options = schema.table_options
    option = OPTION_BY_KEY.get(key)
    new = None if option is None else option.default if value is None else option.value_of(value)
    if key == "bucket" and new != options.bucket and (new == -1 or options.bucket == -1):
        raise InvalidInputError("option 'bucket' cannot change to or from -1")
    if key == "bucket" and new != options.bucket and -2 in (new, options.bucket):
        raise InvalidInputError("option 'bucket' cannot change to or from -2")
    if (
        key == "deletion-vectors.enabled"
        and new != options.deletion_vectors_enabled
        and not options.deletion_vectors_modifiable
    ):
        raise InvalidInputError(
            "option 'deletion-vectors.enabled' can change only with 'deletion-vectors.modifiable' = true"
        )
    if key in _NEVER_TURNED_OFF and option is not None and getattr(options, option.attribute) is True and new is False:
        raise InvalidInputError(f"option '{key}' cannot go from true to false")


__all__ = [
    "IMMUTABLE_OPTIONS",
    "SchemaChange",
    "add_column",
    "change_description",
    "change_nullability",
    "change_type",
    "drop_column",
    "evolve",
    "is_widening",
    "move_column",
    "remove_options",
    "rename_column",
    "set_comment",
    "set_options",
]
