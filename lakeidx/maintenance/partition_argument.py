"""The ``--partition`` argument of commands and jobs, and ``partitions`` of the Python API."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.values import arrow_to_internal
from lakeidx.errors import InvalidInputError, NotFoundError, did_you_mean
from lakeidx.format.partition_names import partition_value_text
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast import cast_column
from lakeidx.options import arguments
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import load_newest
from lakeidx.table.view import decode_partition_dict

log = logging.getLogger(__name__)


def find_partitions(table: TableHandle, texts: Sequence[str] | None, *, missing_ok: bool = False) -> set[bytes] | None:
    """Find the partitions that are named as ``k=v,k=v``, as bytes of manifests; no text at all means all partitions (None).

    missing_ok   one without data files is logged, for callers that named it before it may have expired
    errors       NotFoundError for a partition without data files in the newest snapshot, with those most like it; see
                 `parse_partitions`
    """
    wanted = parse_partitions(texts, table.schema)
    if not wanted:
        return None
    there = load_newest(table.metadata, partitions=wanted.values()).entries.partition_counts()
    for text, partition in wanted.items():
        if partition in there:
            continue
        if missing_ok:
            log.warning("%s: partition %r does not exist, skipping it", table.uri, text)
            continue
        known = [partition_name(p, table.schema) for p in load_newest(table.metadata).entries.partition_counts()]
        hint = did_you_mean(text, known, empty="the table is empty")
        raise NotFoundError(f"--partition {text!r} does not exist; {hint}", path=table.uri)
    return {*wanted.values()}


def parse_partitions(texts: Sequence[str] | None, schema: TableSchema) -> dict[str, bytes]:
    """Parse every ``k=v,k=v`` into the partition bytes of manifests.

    A comma belongs to a value unless the name of a partition column and ``=`` follow. The value of option
    ``partition.default-name`` means null, as in names of directories.

    errors   InvalidInputError for other columns than the partition's, one that is given twice or not at all, or a value that is
             not of the column's type
    """
    return {
        text: _parse_partition(text, schema)
        for text in (() if texts is None else arguments.texts(texts, name="partitions"))
    }


def _parse_partition(text: str, schema: TableSchema) -> bytes:
    keys = schema.partition_keys
    if not keys:
        raise InvalidInputError(f"--partition {text!r}: the table has no partitions")
    pairs = [part.split("=", 1) for part in re.split(rf",(?=(?:{'|'.join(map(re.escape, keys))})=)", text)]
    given = {pair[0]: pair[-1] for pair in pairs}
    if sorted(pair[0] for pair in pairs) != sorted(keys) or any(len(pair) == 1 for pair in pairs):
        raise InvalidInputError(f"--partition {text!r}: give {', '.join(f'{k}=...' for k in keys)}, each once")
    values: list[Any] = []
    for key in schema.partition_keys:
        field = schema.field(key)
        if given[key] == schema.table_options.partition_default_name:
            values.append(None)
            continue
        cast = cast_column(pa.array([given[key]], pa.string()), field.type)
        if cast.failed is not None:
            raise InvalidInputError(f"--partition: {given[key]!r} is not {field.type}")
        values += arrow_to_internal(cast.values, field.type)
    return with_arity(encode_row(values, schema.partition_types), len(values))


def partition_name(partition: bytes, schema: TableSchema) -> str:
    """Return the name of a partition as `parse_partitions` takes it: ``k=v,k=v``."""
    return ",".join(f"{k}={text}" for k, text in texts_of_partition(partition, schema).items())


def texts_of_partition(partition: bytes, schema: TableSchema, *, legacy: bool = False) -> dict[str, str]:
    """Return the texts of a partition's columns, `legacy`: as names of directories have them by default; null has its name."""
    default = schema.table_options.partition_default_name
    values = decode_partition_dict(partition, schema).items()
    texts = {k: partition_value_text(v, schema.field(k).type, legacy=legacy) for k, v in values}
    return {k: default if text is None else text for k, text in texts.items()}
