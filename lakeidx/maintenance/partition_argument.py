"""The ``--partition`` argument of commands and jobs."""

from __future__ import annotations

import re
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

    A comma belongs to a value unless the name of a partition column and ``=`` follow.

    errors   InvalidInputError for other columns than the partition's, one that is given twice or not at all, or a value that is
             not of the column's type
    """
    return {_parse_partition(text, schema) for text in texts} if texts else None


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
        cast = cast_column(pa.array([given[key]], pa.string()), field.type)
        if cast.failed is not None:
            raise InvalidInputError(f"--partition: {given[key]!r} is not {field.type}")
        values += arrow_to_internal(cast.values, field.type)
    return with_arity(encode_row(values, schema.partition_types), len(values))
