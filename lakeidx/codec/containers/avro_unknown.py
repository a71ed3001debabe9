"""Fields of Avro records that this release does not know: found in a writer's schema, kept with a record, written back.

A file of metadata is often rewritten with most of its entries as they were. A later release of Paimon may have given these
entries fields of its own; dropping them would remove what their writer relies on. So decoders keep such fields beside a
record, each with its definition, and encoders add the definitions to the schema they write. Records without a value for a field
that another record brought hold its default, or null.

Schemas are compared by the path of a record: () for the records of the file, ("_FILE",) for those inside its field ``_FILE``;
unions with null and arrays on the way add nothing to a path.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from lakeidx.codec.containers.avro import Record
from lakeidx.codec.containers.avro_schemas import resolved_schema, with_types_named
from lakeidx.codec.containers.avro_write import RecordSchema
from lakeidx.errors import UnsupportedError

Path = tuple[str, ...]
Definitions = tuple[tuple[str, str], ...]
"""Name and definition (the field's JSON) of fields, in the writer's order."""


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field this release does not know.

    definition   its JSON in a schema that has it
    value        never None: a field without a value is not kept
    """

    name: str
    definition: str
    value: Any


Unknown = tuple[UnknownField, ...]
"""Fields of a record that this release does not know, kept as they are."""


@functools.lru_cache(maxsize=256)
def unknown_definitions(writer: bytes, known: RecordSchema) -> dict[Path, Definitions]:
    """Return the fields that a writer's schema has and `known` has not, by the path of their record; empty when there are none.

    writer   JSON text of the schema in a file's header
    """
    return dict(_differences(resolved_schema(writer), json.loads(known.text), ()))


def _differences(writer: Any, known: Any, path: Path) -> Iterator[tuple[Path, Definitions]]:
    theirs, ours = _record_in(writer), _record_in(known)
    if theirs is None or ours is None:
        return
    by_name = {f["name"]: f for f in ours["fields"]}
    new = tuple((f["name"], _definition(f)) for f in theirs["fields"] if f["name"] not in by_name)
    if new:
        yield path, new
    for field in theirs["fields"]:
        if field["name"] in by_name:
            yield from _differences(field["type"], by_name[field["name"]]["type"], (*path, field["name"]))


def _record_in(node: Any) -> dict[str, Any] | None:
    """Find the record at a node of a schema, through unions with null and arrays."""
    while True:
        if isinstance(node, list):
            branches = [b for b in node if b != "null"]
            if len(branches) != 1:
                return None
            node = branches[0]
        elif not isinstance(node, dict):
            return None
        elif node["type"] == "record":
            return node
        else:
            node = node["items"] if node["type"] == "array" else node["type"]


def keep(record: Mapping[str, Any], definitions: Definitions) -> Unknown:
    """Return the values a record has for unknown fields."""
    return tuple(UnknownField(n, d, record[n]) for n, d in definitions if record.get(n) is not None)


def put_back(record: Record, unknown: Unknown) -> Record:
    """Rebuild the record with its unknown fields."""
    for field in unknown:
        record[field.name] = field.value
    return record


def extended(schema: RecordSchema, kept: Iterable[tuple[Path, Unknown]]) -> RecordSchema:
    """Extend the schema with the definitions of the unknown fields that some records brought; `schema` itself without any.

    kept     path of a record, and what it kept
    errors   UnsupportedError when two writers define one field differently
    """
    found: dict[tuple[Path, str], str] = {}
    for path, unknown in kept:
        for field in unknown:
            if found.setdefault((path, field.name), field.definition) != field.definition:
                raise UnsupportedError(
                    f"field {'.'.join((*path, field.name))} is defined in two ways by files of this table; "
                    "lakeidx does not know it and cannot write both into one"
                )
    return _extended(schema, tuple((path, definition) for (path, _), definition in found.items())) if found else schema


@functools.lru_cache(maxsize=64)
def with_fields_of(writer: bytes, schema: RecordSchema) -> RecordSchema:
    """Extend the schema with the definitions of all fields that a writer's schema has beyond it."""
    found = unknown_definitions(writer, schema)
    return _extended(schema, tuple((path, definition) for path, fields in found.items() for _, definition in fields))


@functools.lru_cache(maxsize=64)
def _extended(schema: RecordSchema, added: tuple[tuple[Path, str], ...]) -> RecordSchema:
    tree = deepcopy(json.loads(schema.text))
    for path, definition in added:
        record = _record_in(tree)
        for name in path:
            assert record is not None
            record = _record_in(next(f["type"] for f in record["fields"] if f["name"] == name))
        assert record is not None
        record["fields"].append(json.loads(definition))
    # Two writers may have given their types one name.
    return RecordSchema(resolved_schema(json.dumps(tree).encode()))


def _definition(field: dict[str, Any]) -> str:
    """Format a field's definition; it is the same again when it is read from a file that lakeidx wrote it to.

    It is nullable unless it has a default: records of other writers have no value for it.
    """
    kind = with_types_named(field["type"], field["name"])
    if "default" not in field:
        branches = kind if isinstance(kind, list) else [kind]
        field = {**field, "default": None}
        kind = ["null", *(b for b in branches if b != "null")]
    return json.dumps({**field, "type": kind}, separators=(",", ":"))
