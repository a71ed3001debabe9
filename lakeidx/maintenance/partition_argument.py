"""The ``--partition`` argument of commands and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakeidx.codec.rows.binary_row import encode_row, with_arity
from lakeidx.codec.values import arrow_to_internal
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast import cast_column


def parse_partitions(texts: Sequence[str] | None, schema: TableSchema) -> set[bytes] | None:
    """Parse every ``k=v,k=v`` into the partition bytes of manifests; no text at all means all partitions (None).

    errors   InvalidInputError for other columns than the partition's, or a value that is not of the column's type
    """
    return {_parse_partition(text, schema) for text in texts} if texts else None


def _parse_partition(text: str, schema: TableSchema) -> bytes:
    given = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if set(given) != set(schema.partition_keys):
        raise InvalidInputError(
            f"--partition {text!r}: give {', '.join(f'{k}=...' for k in schema.partition_keys) or 'none'}"
        )
    values: list[Any] = []
    for key in schema.partition_keys:
        field = schema.field(key)
        cast = cast_column(pa.array([given[key]], pa.string()), field.type)
        if cast.failed is not None:
            raise InvalidInputError(f"--partition: {given[key]!r} is not {field.type}")
        values += arrow_to_internal(cast.values, field.type)
    return with_arity(encode_row(values, schema.partition_types), len(values))
