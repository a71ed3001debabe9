"""Finding the table a file belongs to, by walking up from its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.api.listings import readable
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.errors import LakeIdxError
from lakeidx.format.file_names import numbered
from lakeidx.format.schema.schema_file import TableSchema, decode_schema
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join, parent_of
from lakeidx.types import Field

_MOST_LEVELS = 12


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table directory with its latest schema."""

    root: str
    schema: TableSchema

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns."""
        return tuple(self.schema.field(k) for k in self.schema.partition_keys)


def table_of(store: ObjectStore, path: str) -> TableAt | None:
    """Find the table above a file, or None when no directory above holds a readable schema."""
    directory = parent_of(path)
    for _ in range(_MOST_LEVELS):
        if not directory.strip("/") or directory.endswith(":/"):
            return None
        try:
            ids = [
                n for n in (numbered(i.name, "schema") for i in store.list(join(directory, "schema"))) if n is not None
            ]
            if ids:
                schema_path = join(directory, "schema", f"schema-{max(ids)}")
                return TableAt(directory, decode_schema(store.get(schema_path), schema_path))
        except LakeIdxError:
            return None
        directory = parent_of(directory)
    return None


def readable_row(data: bytes, fields: Sequence[Field]) -> dict[str, Any] | None:
    """Decode a prefixed BinaryRow by column name, for people; None when it does not fit the columns."""
    try:
        arity, row = split_arity(data)
        if arity != len(fields):
            return None
        # Statistics may be null for columns that may not.
        types = [f.type.with_nullable(True) for f in fields]
        values = decode_row(row, types)
    except LakeIdxError:
        return None
    return {f.name: readable(value, f.type) for f, value in zip(fields, values, strict=True)}
