"""Columns of a table that have file indexes, from its options.

==========================================  ========================================================================
``file-index.<type>.columns``               names separated by commas; ``col[key]`` is one entry of a map column
``file-index.<type>.<col>.<option>``        option of one column; for a map column, of all its entries
``file-index.<type>.<col[key]>.<option>``   option of one entry, before that of the map column
==========================================  ========================================================================

source   org.apache.paimon.fileindex.FileIndexOptions, org.apache.paimon.io.DataFileIndexWriter, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.types import STRING_ROOTS, DataType, Field, Root

_PREFIX = "file-index."
_COLUMNS = ".columns"


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """One index of one column.

    reference  the name in the container: the column, or ``col[key]``
    source     the table column
    map_key    the key, for an entry of a map column
    index      index type
    options    the options of this column
    """

    reference: str
    source: str
    map_key: str | None
    index: str
    options: Mapping[str, str]


def split_reference(reference: str) -> tuple[str, str | None]:
    """Split ``col[key]`` into column and key; a plain name has no key."""
    start = reference.find("[")
    if start < 0 or not reference.endswith("]"):
        return reference, None
    return reference[:start], reference[start + 1 : -1]


def indexed_columns(options: Mapping[str, str]) -> tuple[IndexedColumn, ...]:
    """Parse the file indexes that table options request, in the order of the options.

    errors   InvalidInputError for an empty name, or an option of a column that has no such index
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in options.items():
        if key.startswith(_PREFIX) and key.endswith(_COLUMNS) and len(key) > len(_PREFIX + _COLUMNS):
            index = key[len(_PREFIX) : -len(_COLUMNS)]
            for name in value.split(","):
                if not name.strip():
                    raise InvalidInputError(f"option '{key}': an empty column name in {value!r}")
                found.setdefault((name.strip(), index), {})
    for_maps: dict[tuple[str, str], dict[str, str]] = {}
    for reference, index in found:
        source, map_key = split_reference(reference)
        if map_key is not None:
            for_maps.setdefault((source, index), {})
    for key, value in options.items():
        parts = key[len(_PREFIX) :].split(".") if key.startswith(_PREFIX) and not key.endswith(_COLUMNS) else []
        if len(parts) != 3:
            continue  # as Java does; the options of a column whose name has a dot cannot be written
        index, column, option = parts
        target = found.get((column, index), for_maps.get((column, index)))
        if target is None:
            raise InvalidInputError(f"option '{key}': column {column!r} is not in 'file-index.{index}.columns'")
        target[option] = value
    made = []
    for (reference, index), own in found.items():
        source, map_key = split_reference(reference)
        inherited = for_maps[(source, index)] if map_key is not None else {}
        made.append(IndexedColumn(reference, source, map_key, index, {**inherited, **own}))
    return tuple(made)


def index_type(indexed: IndexedColumn, fields: Mapping[str, Field]) -> DataType:
    """Return the type of the values an index sees: the column's, or the value type of a map column.

    errors   InvalidInputError for a column that does not exist, or a key on what is no map with string keys
    """
    from lakeidx.predicate.bind import unknown_column

    field = fields.get(indexed.source)
    if field is None:
        raise InvalidInputError(unknown_column(indexed.source, fields))
    if indexed.map_key is None:
        if field.type.root is Root.MAP:
            raise InvalidInputError(f"column {field.name!r} is a map: name one entry of it, {field.name}[key]")
        return field.type
    t = field.type
    if t.root is not Root.MAP or t.key is None or t.key.root not in STRING_ROOTS or t.element is None:
        raise InvalidInputError(f"{indexed.reference} needs a map column with string keys, not {t.with_nullable(True)}")
    return t.element


def validate_file_index_options(schema: TableSchema) -> None:
    """Check a table's file index options; for the moment a table is made or its options are changed.

    errors   InvalidInputError naming the option: unknown index type, column that does not exist, type that cannot be
             indexed, unknown option of an index type, bad option value
    """
    for indexed in indexed_columns(schema.options):
        check_indexed_columns(indexed, schema)


def check_indexed_columns(indexed: IndexedColumn, schema: TableSchema) -> None:
    """Check one index of one column; errors as `validate_file_index_options`."""
    from lakeidx.file_index.registry import file_index_of

    key = f"{_PREFIX}{indexed.index}{_COLUMNS}"
    try:
        indexer = file_index_of(indexed.index)
        t = index_type(indexed, schema.fields_by_name)
        for option in indexed.options:
            _check_option(option, indexer.options, indexed)
        indexer.check(t, indexed.options)
    except InvalidInputError as e:
        raise InvalidInputError(f"option '{key}', column {indexed.reference!r}: {e.message}") from e


def _check_option(option: str, known: Sequence[str] | frozenset[str], indexed: IndexedColumn) -> None:
    if option in known:
        return
    hint = did_you_mean(option, sorted(known), listing="it has", empty="it has none")
    raise InvalidInputError(f"unknown option {option!r} of {indexed.index}; {hint}")
