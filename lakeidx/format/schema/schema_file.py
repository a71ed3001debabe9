"""Schema files ``schema/schema-<id>``: JSON.

==================  ==========================================================================================
key                 value
==================  ==========================================================================================
version             3; files of version 1 without option ``bucket`` mean 1 bucket, of version 1 and 2 without
                    ``file.format`` mean orc; a missing version is 1
id                  long, the N of the file name
fields              array of ``id``, ``name``, ``type``, optional ``description``, optional ``defaultValue``
highestFieldId      int, nested fields included; never decreases
partitionKeys       array of text
primaryKeys         array of text, partition columns included
options             object, all values text
comment             text, left out when there is none
timeMillis          long, 0 when missing
==================  ==========================================================================================

Unknown keys are kept, those of a column too, and written again after the others.
Keys are written in this order, in Paimon's pretty printing (`lakeidx.format.json_text`).

source   org.apache.paimon.schema.TableSchema, SchemaSerializer, release 1.4.2
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError
from lakeidx.format.json_text import JsonObject
from lakeidx.format.json_write import format_json
from lakeidx.format.schema.rules import check_schema, parse_columns, parse_key_columns
from lakeidx.format.schema.table_schema import (
    KEY_PREFIX,
    POSTPONE_BUCKET,
    SCHEMA_VERSION,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    BucketMode,
    TableSchema,
)
from lakeidx.options.descriptors import raw_options
from lakeidx.options.names import check_given_options
from lakeidx.options.table_options import TableOptions
from lakeidx.types import FIELD_KEYS, Field, assign_field_ids, format_field, parse_type, walk_field_ids

__all__ = [
    "KEY_PREFIX",
    "POSTPONE_BUCKET",
    "SCHEMA_VERSION",
    "SEQUENCE_NUMBER",
    "VALUE_KIND",
    "BucketMode",
    "TableSchema",
    "decode_schema",
    "encode_schema",
    "highest_field_id",
    "new_schema",
    "schema_to_json",
]

_KNOWN = frozenset(
    {"version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis"}
)
# Fields that readers add themselves carry ids from here on; they do not count for highestFieldId.
_SYSTEM_FIELD_ID_START = 1073741823
_UNKNOWN_TO_US = ("VECTOR", "BLOB", "GEOMETRY", "GEOGRAPHY")
_TYPE_ERRORS = (InvalidInputError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


def highest_field_id(fields: tuple[Field, ...]) -> int:
    """Return the greatest id over columns and nested fields; -1 without any."""
    ids = [i for f in fields for i in (f.id, *walk_field_ids(f.type))]
    return max((i for i in ids if i < _SYSTEM_FIELD_ID_START), default=-1)


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """Return the schema's keys and values in written order."""
    out: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [format_field(f) for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
        "timeMillis": schema.time_millis,
    }
    if schema.comment is None:
        del out["comment"]
    return out | dict(schema.unknown)


def encode_schema(schema: TableSchema) -> bytes:
    """Encode the schema file."""
    return format_json(schema_to_json(schema))


def decode_schema(data: bytes, path: str | None = None) -> TableSchema:
    """Read a schema file of any version up to 3.

    errors   CorruptFileError; UnsupportedError for a later version or a type lakeidx does not have
    """
    o = JsonObject.parse(data, path)
    version = o.need_int("version", 1)
    if version > SCHEMA_VERSION:
        raise UnsupportedError(f"schema version {version} is newer than {SCHEMA_VERSION}", path=path)
    fields = tuple(_read_field(f) for f in o.objects("fields"))
    options = o.string_map("options")
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    schema = TableSchema(
        id=o.need_int("id"),
        fields=fields,
        highest_field_id=o.need_int("highestFieldId", highest_field_id(fields)),
        partition_keys=o.strings("partitionKeys"),
        primary_keys=o.strings("primaryKeys"),
        options=options,
        comment=o.get_text("comment"),
        time_millis=o.need_int("timeMillis", 0),
        version=version,
        unknown=o.rest(_KNOWN),
    )
    schema.once("digest", lambda: hashlib.sha256(data).hexdigest())
    names = set(schema.field_names)
    if len(names) != len(fields):
        raise o.error("fields", "columns of different names")
    for key in ("partitionKeys", "primaryKeys"):
        if not names.issuperset(o.strings(key)):
            raise o.error(key, f"columns of the table ({', '.join(schema.field_names)})")
    return schema


def _read_field(o: JsonObject) -> Field:
    name, spec = o.need_text("name"), o.value.get("type")
    try:
        data_type = parse_type(spec if isinstance(spec, (str, Mapping)) else {}, where=f"column {name!r}")
        texts = o.get_text("description"), o.get_text("defaultValue")
        return Field(o.need_int("id"), name, data_type, *texts, o.rest(FIELD_KEYS))
    except CorruptFileError:
        raise
    except _TYPE_ERRORS as e:
        if any(word in str(spec).upper() for word in _UNKNOWN_TO_US):
            raise UnsupportedError(f"column {name!r} has type {spec!r}", path=o.path) from e
        raise o.error("type", "a type of Paimon") from e


def new_schema(spec: Mapping[str, Any], *, time_millis: int | None = None) -> TableSchema:
    """Make the first schema of a table, from the JSON of ``table create``.

    spec     ``fields``: array of ``name``, ``type``, optional ``description`` and ``defaultValue``; optional ``primaryKeys``,
             ``partitionKeys``, ``options``, ``comment``. Options ``primary-key`` and ``partition`` (``a,b``) may name the keys.
    returns  id 0, field ids given in order, primary key columns NOT NULL
    errors   InvalidInputError naming the column or option that is wrong
    """
    if not isinstance(spec, Mapping):
        raise InvalidInputError(f"a schema must be an object with 'fields', not {type(spec).__name__}")
    options = raw_options(spec.get("options") or {})
    check_given_options(options)
    columns = parse_columns(spec)
    primary_keys = parse_key_columns(spec, "primaryKeys", options, "primary-key")
    partition_keys = parse_key_columns(spec, "partitionKeys", options, "partition")
    comment = spec.get("comment")
    if comment is not None and not isinstance(comment, str):
        raise InvalidInputError(f"comment must be text, not {comment!r}")
    if "bucket-key" in options:
        # Java does not trim this list: blanks in it would make the table unreadable there.
        options["bucket-key"] = ",".join(name.strip() for name in options["bucket-key"].split(","))
    nullable_keys = TableOptions(options).primary_key_nullable
    fields = tuple(
        replace(f, type=f.type.with_nullable(f.type.nullable and (f.name not in primary_keys or nullable_keys)))
        for f in assign_field_ids(columns)
    )
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest_field_id(fields),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=comment,
        time_millis=time.time_ns() // 1_000_000 if time_millis is None else time_millis,
    )
    check_schema(schema)
    return schema
