"""TableSchema: one version of a table's schema, and everything that follows from it (keys, buckets, Arrow schemas).

source   org.apache.paimon.schema.TableSchema, org.apache.paimon.table.BucketMode, release 1.4.2
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from lakeidx.errors import InvalidInputError, UnsupportedError, did_you_mean
from lakeidx.options.features import Refused, Use, refused_by
from lakeidx.options.names import INDEX_PREFIXES, doubtful_options
from lakeidx.options.table_options import TableOptions
from lakeidx.types import DataType, Field, to_arrow_schema

T = TypeVar("T")

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
KEY_PREFIX = "_KEY_"
SCHEMA_VERSION = 3
POSTPONE_BUCKET = -2
_KV_FIELDS = [pa.field(SEQUENCE_NUMBER, pa.int64(), False), pa.field(VALUE_KIND, pa.int8(), False)]


class BucketMode(StrEnum):
    """Way in which rows find their bucket."""

    HASH_FIXED = "HASH_FIXED"
    HASH_DYNAMIC = "HASH_DYNAMIC"
    KEY_DYNAMIC = "KEY_DYNAMIC"
    POSTPONE = "POSTPONE_MODE"
    BUCKET_UNAWARE = "BUCKET_UNAWARE"


@dc.dataclass(frozen=True, kw_only=True)
class TableSchema:
    """One version of a table's schema.

    id                 the N of ``schema/schema-N``
    highest_field_id   greatest id ever given, nested fields included; -1 without fields
    primary_keys       full primary key, partition columns included
    options            texts as stored; parsed in `table_options`
    time_millis        when it was written, epoch milliseconds
    unknown            keys of a later release and their values: schemas made from this one keep them
    """

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = dc.field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = SCHEMA_VERSION
    unknown: Mapping[str, Any] = dc.field(default_factory=dict)
    # What `once` computed.
    _derived: dict[str, Any] = dc.field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        # What was computed may hold what cannot be pickled; tasks compute what they need.
        return {**self.__dict__, "_derived": {}}

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what follows from the schema, computed when first requested; `name`: what it is called."""
        found: T | None = self._derived.get(name)
        if found is None:
            found = self._derived[name] = compute()
        return found

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def fields_by_name(self) -> Mapping[str, Field]:
        """Columns by name, in order."""
        return {f.name: f for f in self.fields}

    @cached_property
    def fields_by_id(self) -> Mapping[int, Field]:
        """Columns by id, in order: what schema evolution matches on."""
        return {f.id: f for f in self.fields}

    def field(self, name: str) -> Field:
        """Return the column of that name.

        errors   InvalidInputError naming the columns there are
        """
        found = self.fields_by_name.get(name)
        if found is None:
            raise InvalidInputError(
                f"no column {name!r}; {did_you_mean(name, self.field_names, listing='the table has')}"
            )
        return found

    def types_of(self, names: tuple[str, ...] | list[str]) -> tuple[DataType, ...]:
        """Return the types of some columns, in the order of the names."""
        return tuple(self.field(n).type for n in names)

    @cached_property
    def table_options(self) -> TableOptions:
        """Return the options; an InvalidInputError comes from the attribute whose text cannot be read."""
        return TableOptions(self.options)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key columns that are not partition columns, in key order."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """Columns that identify a key for an index: the trimmed primary key inside a partition, and in a cross-partition table,
        whose index covers all partitions, the whole primary key.
        """
        return self.primary_keys if self.bucket_mode is BucketMode.KEY_DYNAMIC else self.trimmed_primary_keys

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The columns of the trimmed primary key."""
        return tuple(self.field(k) for k in self.trimmed_primary_keys)

    @cached_property
    def key_types(self) -> tuple[DataType, ...]:
        """Types of the trimmed primary key."""
        return self.types_of(self.trimmed_primary_keys)

    @cached_property
    def partition_types(self) -> tuple[DataType, ...]:
        """Types of the partition columns."""
        return self.types_of(self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns that decide a fixed bucket: option ``bucket-key``, else the trimmed primary key (none for append tables)."""
        return self.table_options.bucket_key or self.trimmed_primary_keys

    @property
    def bucket(self) -> int:
        """Option ``bucket``: a number of buckets, -1 or -2."""
        return self.table_options.bucket

    @property
    def is_cross_partition(self) -> bool:
        """True when one key may move between partitions: the primary key does not contain every partition column."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @cached_property
    def bucket_mode(self) -> BucketMode:
        """How rows find their bucket."""
        bucket = self.bucket
        if bucket == POSTPONE_BUCKET:
            return BucketMode.POSTPONE
        if bucket > 0:
            return BucketMode.HASH_FIXED
        if not self.primary_keys:
            return BucketMode.BUCKET_UNAWARE
        return BucketMode.KEY_DYNAMIC if self.is_cross_partition else BucketMode.HASH_DYNAMIC

    @property
    def asks_for_index(self) -> bool:
        """False where no option names an index, and the table needs none: every key is found by its own bucket and partition."""
        return self.bucket_mode is BucketMode.KEY_DYNAMIC or any(key.startswith(INDEX_PREFIXES) for key in self.options)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the schema's file: after a branch was fast-forwarded another schema may have the id."""
        from lakeidx.format.schema.schema_file import encode_schema

        return hashlib.sha256(encode_schema(self)).hexdigest()

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """All columns as an Arrow schema."""
        return to_arrow_schema(self.fields)

    @cached_property
    def kv_arrow_schema(self) -> pa.Schema:
        """``_SEQUENCE_NUMBER`` int64, ``_VALUE_KIND`` int8, then all columns: rows of a primary-key table inside lakeidx."""
        return pa.schema([*_KV_FIELDS, *self.arrow_schema])


def refused_uses(schema: TableSchema) -> list[tuple[str, Refused]]:
    """Return the options that refuse uses of the table, each with its rule."""
    return [*refused_by(schema.options), *doubtful_options(schema.options)]


def check_use(schema: TableSchema, use: Use, path: str | None = None) -> None:
    """Refuse a use of a table that one of its options makes go wrong.

    errors   UnsupportedError naming the first such option, its value and the reason
    """
    for key, rule in schema.once("refused_by", lambda: refused_uses(schema)):
        if use in rule.uses:
            raise UnsupportedError(f"{use.value} is refused: {key}={schema.options[key]}: {rule.reason}", path=path)
