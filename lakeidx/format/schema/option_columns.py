"""Which options of a table name a column, and what becomes of them when the column is renamed.

source   org.apache.paimon.schema.SchemaManager.applyRenameColumnsToOptions, release 1.4.2; options of file indexes and of
         the index family are lakeidx's own care
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import TableSchema

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


def refuse_in_options(schema: TableSchema, name: str, verb: str) -> None:
    """Raise InvalidInputError when an option of the table names the column.

    verb   what was to be done with the column, for the message: ``dropped``
    """
    key = _option_naming(schema.options, name)
    if key is not None:
        raise InvalidInputError(
            f"column {name!r} cannot be {verb}: option '{key}' names it; set or reset that option in the same change"
        )


def renamed_options(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
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
