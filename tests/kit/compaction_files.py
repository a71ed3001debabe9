"""Data files and schemas for compaction and expiry tests: only what planning looks at."""

from __future__ import annotations

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.format.data_file import EMPTY_STATS, DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import DataType, Field, Root

INT_KEY = (DataType(Root.INT, nullable=False),)
MB = 1 << 20


def key_bytes(value: int) -> bytes:
    """An INT key as manifests hold it."""
    return with_arity(encode_row([value], INT_KEY), 1)


def a_file(
    name: str,
    level: int = 0,
    low: int = 0,
    high: int = 9,
    *,
    size: int = MB,
    sequence: int = 0,
    deletes: int | None = 0,
    created: int | None = 0,
) -> DataFileMeta:
    """A file of an INT-keyed bucket; `sequence` is its largest sequence number."""
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=10,
        min_key=key_bytes(low),
        max_key=key_bytes(high),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=max(0, sequence - 9),
        max_sequence_number=sequence,
        schema_id=0,
        level=level,
        delete_row_count=deletes,
        creation_time_ms=created,
    )


def schema_with(options: dict[str, str] | None = None) -> TableSchema:
    """A table keyed by INT `id`."""
    fields = (Field(0, "id", INT_KEY[0]), Field(1, "v", DataType(Root.BIGINT)))
    return TableSchema(id=0, fields=fields, highest_field_id=1, primary_keys=("id",), options=options or {})
