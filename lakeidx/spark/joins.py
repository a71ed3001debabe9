"""Joins a Spark frame, batch or streaming, with the rows of a table by its primary key, looked up on the executors.

Every Python worker keeps one `TableLookup` per table: open lookup files, hash indexes, decompressed blocks. Copies of lookup files
from an object store are in one directory per machine with a byte bound, which its workers share. Before each Arrow batch the worker
looks whether there is a newer snapshot; a batch is answered from one snapshot. When the table was dropped and created again, the
worker opens the new one; columns that it lacks stop the join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructField, StructType

from lakeidx.errors import InvalidInputError, TableReplacedError
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.options.arguments import PathLike
from lakeidx.spark.values import TIME_ZONE, arrow_schema, check_names, in_zone, spark_schema, to_spark
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.types import Field

T = TypeVar("T")

_SHARD = "__lakeidx_shard"
#: Rows that a task gives at a time.
_BATCH_ROWS = 1 << 16
#: Of this worker process, by table.
_LOOKUPS: dict[tuple[str, str, int | None, bool], TableLookup] = {}


@dataclass(frozen=True, slots=True)
class Join:
    """A join as its tasks do it; pickles.

    keys      (column of the frame, key column of the table)
    columns   (column of the table, its name in the result)
    zone      of the session
    added     the columns as Spark takes them
    unseen    of the table alone, also rows that readers see after a compaction: for what writes
    """

    metadata: TableMetadata
    keys: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    zone: str | None
    added: pa.Schema
    key_fields: tuple[Field, ...]
    inner: bool = True
    cache_dir: str | None = None
    cache_bytes: int | None = None
    unseen: bool = False

    def shard(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add the shard of every row's key."""
        for batch in batches:
            keys = self._keys_of(batch)
            shards = self._ask(lambda lookup, keys=keys: lookup.shards(keys))  # type: ignore[misc]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(shards, pa.int32())], names=[*batch.schema.names, _SHARD]
            )

    def join(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add the looked-up columns."""
        for batch in batches:
            keys = self._keys_of(batch)
            answer = self._ask(lambda lookup, keys=keys: lookup.lookup(keys))  # type: ignore[misc]
            names = [n for n in batch.schema.names if n != _SHARD]
            arrays = [batch.column(batch.schema.get_field_index(n)) for n in names]
            found = answer.rows.select([c for c, _ in self.columns]).rename_columns(self.added.names)
            for column in to_spark(found, self.added).columns:
                looked_up = column.combine_chunks()
                arrays.append(looked_up if isinstance(looked_up, pa.Array) else pa.concat_arrays(looked_up.chunks))
            out = pa.RecordBatch.from_arrays(arrays, names=[*names, *self.added.names])
            yield out.filter(pa.array(answer.found)) if self.inner else out

    def find(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the rows of keys; a task looks up all of its own at once: a data file without a lookup file is read each time."""
        found = list(batches)
        if not found:
            return
        # Equal keys are of one shard, and so of one task.
        keys = pa.Table.from_batches(found).group_by([k for _, k in self.keys]).aggregate([])
        keys = in_zone(keys, self.key_fields, self.zone)
        answer = self._ask(lambda lookup: lookup.lookup(keys))
        rows = answer.rows.select([c for c, _ in self.columns]).filter(pa.array(answer.found))
        yield from to_spark(rows, self.added).to_batches(max_chunksize=_BATCH_ROWS)

    def _keys_of(self, batch: pa.RecordBatch) -> pa.Table:
        keys = pa.Table.from_arrays([batch.column(c) for c, _ in self.keys], names=[k for _, k in self.keys])
        return in_zone(keys, self.key_fields, self.zone)

    def _ask(self, question: Callable[[TableLookup], T]) -> T:
        """Look up keys in this worker's lookup of the table; of the new table when it was dropped and created again."""
        key = (self.metadata.paths.root, self.metadata.paths.branch, self.cache_bytes, self.unseen)
        try:
            if key not in _LOOKUPS:
                _LOOKUPS[key] = self._open_lookup(self.metadata)
            return question(_LOOKUPS[key])
        except TableReplacedError:
            _LOOKUPS.pop(key, None)
            _LOOKUPS[key] = self._open_lookup(self.metadata.reopened())
            return question(_LOOKUPS[key])

    def _open_lookup(self, metadata: TableMetadata) -> TableLookup:
        schema = metadata.latest_schema()
        asked = {k for _, k in self.keys} | {c for c, _ in self.columns}
        missing = sorted(asked - set(schema.field_names))
        if missing or sorted(schema.primary_keys) != sorted(k for _, k in self.keys):
            why = f"no column {missing[0]!r}" if missing else f"the primary key {', '.join(schema.primary_keys)}"
            raise InvalidInputError(
                f"the table was created again and has {why}: start the join again", path=metadata.paths.root
            )
        disk = self.cache_bytes or schema.table_options.lookup_cache_max_disk_size
        files = LookupFileCache(self.cache_dir, disk)
        return TableLookup(metadata, files=files, unseen=self.unseen, falls_back=not self.unseen)


def lookup_join(
    df: DataFrame,
    table: TableHandle | PathLike,
    on: Sequence[str] | Mapping[str, str],
    columns: Sequence[str] | Mapping[str, str] | None = None,
    how: Literal["left", "inner"] = "left",
    *,
    by_bucket: bool = True,
    cache_dir: str | None = None,
    cache_bytes: int | None = None,
) -> DataFrame:
    """Join the frame's rows, each with columns of the table's row of its key.

    table         the table, or its directory as a path or URI
    on            the table's primary key columns, or frame column -> key column; all of the key, each once
    columns       the table's columns to add, or column -> name in the result; default all but the key
    how           left: rows without a match get nulls; inner: they go. A null in a key matches nothing
    by_bucket     shuffle first, so that keys of a bucket meet in one task and a task needs few lookup files; without it rows stay
                  where they are (small frames, streams that must not wait for a shuffle)
    cache_dir     where executors keep copies of lookup files; default: a temporary directory of the user
    cache_bytes   bound of that directory; default ``lookup.cache-max-disk-size``
    errors        InvalidInputError naming a column; errors of a lookup fail the task
    """
    if how not in ("left", "inner"):
        raise InvalidInputError(f"a lookup join is left or inner, not {how!r}")
    check_names(df)
    table = table if isinstance(table, TableHandle) else TableHandle.open(table)
    schema = table.schema
    keys = tuple(on.items()) if isinstance(on, Mapping) else tuple((n, n) for n in on)
    if sorted(k for _, k in keys) != sorted(schema.primary_keys):
        raise InvalidInputError(f"join on the whole primary key: {', '.join(schema.primary_keys)}")
    missing = [c for c, _ in keys if c not in df.columns]
    if missing:
        raise InvalidInputError(f"the frame has no column {missing[0]!r}")
    if columns is None:
        columns = [n for n in schema.field_names if n not in schema.primary_keys]
    added = tuple(columns.items()) if isinstance(columns, Mapping) else tuple((n, n) for n in columns)
    twice = [a for _, a in added if a in df.columns]
    if twice:
        raise InvalidInputError(f"the frame already has a column {twice[0]!r}: give the new one another name")
    join, new = _joined(df, table, keys, added, inner=how == "inner", cache_dir=cache_dir, cache_bytes=cache_bytes)
    result = StructType([*df.schema.fields, *new.fields])
    return (_by_bucket(df, join) if by_bucket else df).mapInArrow(join.join, result)


def find_rows(keys: DataFrame, table: TableHandle, columns: Sequence[str]) -> DataFrame:
    """Return the rows that a table has of some keys, as its next compaction leaves them, with some of its columns.

    keys   the columns of the primary key, without nulls; a task holds those of its buckets
    """
    own = tuple((k, k) for k in table.schema.primary_keys)
    join, found = _joined(keys, table, own, tuple((n, n) for n in columns), unseen=True)
    return _by_bucket(keys, join).mapInArrow(join.find, found)


def _joined(
    df: DataFrame,
    table: TableHandle,
    keys: tuple[tuple[str, str], ...],
    columns: tuple[tuple[str, str], ...],
    **how: Any,
) -> tuple[Join, StructType]:
    """Return a join of a frame, and the columns that it adds as Spark has them; keys, columns and how as of `Join`."""
    schema = table.schema
    new = spark_schema([Field(0, name, schema.field(column).type.with_nullable(True)) for column, name in columns])
    fields = tuple(schema.field(k) for _, k in keys)
    zone = df.sparkSession.conf.get(TIME_ZONE)
    return Join(table.metadata, keys, columns, zone, arrow_schema(new), fields, **how), new


def _by_bucket(df: DataFrame, join: Join) -> DataFrame:
    shard = StructType([*df.schema.fields, StructField(_SHARD, IntegerType(), False)])
    return df.mapInArrow(join.shard, shard).repartition(_SHARD)
