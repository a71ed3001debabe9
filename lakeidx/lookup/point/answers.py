"""Checks of a caller's keys, and answers in the order of the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.arrays import is_text
from lakeidx.codec.gather import take_column, take_rows
from lakeidx.codec.order.key import argsort_keys
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.codec.rows.compacted_row import encode_compacted_rows
from lakeidx.codec.rows.compacted_row_read import decode_compacted_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.declared import pad_char
from lakeidx.data.engines import make_engine
from lakeidx.data.merge.order import sequence_columns
from lakeidx.data.read_data_file import evolve_column, plan_file_columns, read_data_file
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.lookup.value_rows import ValueRows
from lakeidx.predicate import BoundPredicate, In, Values
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import keys_may_match
from lakeidx.table.view import decode_partition_dict
from lakeidx.types import DataType, Root, to_arrow

Int64s = npt.NDArray[np.int64]
_BIGINT = DataType(Root.BIGINT, nullable=False)


@dataclass(frozen=True, slots=True)
class Versions:
    """Rows found for keys.

    asked   int64[m]: which key each row answers
    kv      m rows of a KV table in the newest schema
    """

    asked: Int64s
    kv: pa.Table


def kv_rows(values: ValueRows, then: TableSchema, schema: TableSchema) -> pa.Table:
    """Decode rows of lookup files as a KV table in the newest schema.

    then   the schema that the rows were written with
    """
    rows = decode_compacted_rows(values.rows, [f.type for f in then.fields], then.field_names)
    columns = [pa.chunked_array([values.sequences]), pa.chunked_array([values.kinds])]
    for plan in plan_file_columns(then.fields, schema.fields):
        raw = rows.column(plan.source.name) if plan.source is not None else None
        columns.append(evolve_column(plan, raw, rows.num_rows))
    return pa.Table.from_arrays(columns, names=[SEQUENCE_NUMBER, VALUE_KIND, *schema.field_names])


def newest_wins(schema: TableSchema) -> bool:
    """Return True when the row with the largest sequence number is the answer, so older files need no lookup."""
    options = schema.table_options
    return options.merge_engine == "deduplicate" and not options.sequence_field and not options.ignore_delete


def _merge_versions(found: Sequence[Versions], schema: TableSchema) -> Versions:
    """Merge versions to at most one row per key, without deletes.

    source   as a merging read (`data.merge.merge_runs`): a key's only version stays as it is, others go through the engine
    """
    asked = np.concatenate([v.asked for v in found])
    kv = pa.concat_tables([v.kv for v in found])
    order = np.argsort(asked, kind="stable")
    ordered = asked[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    if len(starts) < len(ordered):
        columns, types = sequence_columns(kv, schema)
        order = argsort_keys([pa.array(asked), *columns], [_BIGINT, *types])
        merged = make_engine(schema).merge(take_rows(kv, order), starts, shortcut=True)
        groups = ordered[starts]
        if merged.num_rows != len(starts):
            # The engine dropped keys: which ones, their keys say. Partition columns are alike for all rows of a key.
            groups = groups[_places(merged, kv, order[starts], schema)]
        asked, kv = groups, merged
    kinds = kv.column(VALUE_KIND).to_numpy()
    if (kinds & 1).any():
        keep = np.flatnonzero((kinds & 1) == 0)
        asked, kv = asked[keep], take_rows(kv, keep)
    return Versions(asked, kv)


def _places(merged: pa.Table, kv: pa.Table, firsts: Int64s, schema: TableSchema) -> Int64s:
    """Return the group of each merged row; both run through the groups in the same order."""
    names, types = list(schema.primary_keys), [schema.field(n).type for n in schema.primary_keys]

    def keys(rows: pa.Table) -> pa.Array:
        return encode_rows([rows.column(n) for n in names], types).to_arrow()

    of_groups, left = keys(take_rows(kv.select(names), firsts)), keys(merged)
    # A key that was asked twice has two groups with the same outcome, so membership decides.
    return np.flatnonzero(pc.is_in(of_groups, value_set=left).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Answers to n keys, in their order.

    found   bool[n]
    rows    n rows of the table's columns, all null where nothing was found
    """

    found: npt.NDArray[np.bool_]
    rows: pa.Table


def _key_columns_of(keys: pa.Table, schema: TableSchema) -> pa.Table:
    """Return the primary key's columns of a table in their own types."""
    names = list(schema.primary_keys)
    missing = [n for n in names if n not in keys.column_names]
    extra = [n for n in keys.column_names if n not in names]
    if missing or extra:
        wrong = f"{missing[0]!r} is missing" if missing else f"{extra[0]!r} is not one of them"
        raise InvalidInputError(f"a key has the columns {', '.join(names)}: {wrong}")
    columns = []
    for name in names:
        target = to_arrow(schema.field(name).type)
        try:
            columns.append(pad_char(_without_loss(keys.column(name), target), schema.field(name).type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInputError(f"key column {name!r} is {schema.field(name).type}: {error}") from error
    return pa.Table.from_arrays(columns, names=names)


def _without_loss(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Cast keys; ArrowInvalid when the key would be another one, where Arrow's safe casts round without a word."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type == target:
        return column
    cast, given = column.cast(target), column.type
    if pa.types.is_binary(target) and is_text(given):
        raise pa.ArrowInvalid("a text may be hex digits, as in rows that are written, or characters: give bytes")
    if pa.types.is_floating(given):
        rounds = pa.types.is_decimal(target) or pa.types.is_boolean(target)
    elif pa.types.is_timestamp(given):
        rounds = pa.types.is_date(target) or pa.types.is_time(target)
    else:
        rounds = pa.types.is_integer(given) and pa.types.is_boolean(target)
    if rounds:
        lost = pc.not_equal(cast.cast(given), column)
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid(f"{column.filter(lost)[0].as_py()!r} is no value of it")
    return cast


def _without_nulls(keys: pa.Table) -> npt.NDArray[np.int64] | None:
    """Return the rows without a null; None when all are."""
    if not any(c.null_count for c in keys.columns):
        return None
    valid = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        valid &= column.is_valid().to_numpy()
    return np.flatnonzero(valid)


def complete_keys(keys: pa.Table, schema: TableSchema) -> tuple[pa.Table, npt.NDArray[np.int64] | None, pa.Table]:
    """Return the keys in their own types, the rows of those without a null (None: all), and these keys.

    errors   InvalidInputError naming a column that is missing, is none of the key's, or does not cast without loss
    """
    asked = _key_columns_of(keys, schema)
    complete = _without_nulls(asked)
    return asked, complete, asked if complete is None else asked.take(pa.array(complete))


def in_key_order(
    found: Sequence[Versions], schema: TableSchema, n: int, complete: npt.NDArray[np.int64] | None
) -> LookupResult:
    """Resolve the versions of each key to one row.

    n          keys asked
    complete   which of them `found` counts; None: all
    """
    # A key that is not there has nulls in all columns.
    wanted = schema.once("lookup_schema", lambda: pa.schema([f.with_nullable(True) for f in schema.arrow_schema]))
    found = [
        Versions(v.asked, v.kv.cast(pa.schema([(SEQUENCE_NUMBER, pa.int64()), (VALUE_KIND, pa.int8()), *wanted])))
        for v in found
        if len(v.asked)
    ]
    at = np.zeros(n, np.int64)
    is_found = np.zeros(n, np.bool_)
    if not found:
        # One array of all columns: they share their memory.
        nulls = pa.nulls(n, pa.struct(list(wanted)))
        return LookupResult(is_found, pa.Table.from_arrays([nulls.field(i) for i in range(len(wanted))], schema=wanted))
    merged = _merge_versions(found, schema)
    asked = merged.asked if complete is None else complete[merged.asked]
    at[asked], is_found[asked] = np.arange(len(asked)), True
    indices = pa.array(at, mask=~is_found)
    columns = [take_column(merged.kv.column(f.name), indices) for f in wanted]
    return LookupResult(is_found, pa.Table.from_arrays(columns, schema=wanted))


def first_found(results: Sequence[LookupResult]) -> LookupResult:
    """Merge several answers to the same n keys: for each key the first that has it."""
    if len(results) == 1:
        return results[0]
    n = len(results[0].found)
    chosen = np.zeros(n, np.int64)
    is_found = np.zeros(n, np.bool_)
    for i, result in enumerate(results):
        fresh = result.found & ~is_found
        chosen[fresh] = i * n + np.flatnonzero(fresh)
        is_found |= fresh
    # Where no one has a key, the first answer's row is the row of nulls.
    chosen[~is_found] = np.flatnonzero(~is_found)
    return LookupResult(is_found, take_rows(pa.concat_tables([r.rows for r in results]), chosen))


class DataFileLookup:
    """One data file of a bucket.

    deleted    positions that its deletion vector deletes; None without one
    was_read   True once the file itself was needed: key statistics may already say no
    """

    def __init__(
        self,
        metadata: TableMetadata,
        schema: TableSchema,
        partition: bytes,
        entry: ManifestEntry,
        deleted: Int64s | None,
    ) -> None:
        self.was_read = False
        self._metadata = metadata
        self._schema = schema
        self._entry = entry
        self._deleted = deleted
        self._path = metadata.paths.data_file(
            decode_partition_dict(partition, schema),
            entry.bucket,
            entry.file.file_name,
            external_path=entry.file.external_path,
        )

    def rows_of(self, keys: pa.Table, encoded: RowBytes, rows: Int64s) -> Versions | None:
        """Read rows of the keys rows[...], from the row groups that may hold them; None when there are none."""
        schema = self._schema
        first = schema.trimmed_primary_keys[0]
        wanted = pc.unique(keys.column(first).take(pa.array(rows)))
        # Of internal values, as binding makes them: no literal is to be cast.
        values = Values.of(arrow_to_internal(wanted, schema.field(first).type))
        predicate = BoundPredicate(In(first, values), schema.fields)
        if not keys_may_match(self._entry.file, predicate, schema):
            return None
        asked = encoded.take(rows).to_arrow()
        found = []
        # The first key column is read first; of floats, a predicate and the keys' bytes may differ on -0.0 and NaN.
        exact = schema.field(first).type.root not in (Root.FLOAT, Root.DOUBLE)
        for batch in self._read(predicate=predicate, deletion_vector=self._deleted, filter_rows=exact):
            at = pc.index_in(asked, value_set=lookup_keys(batch, schema).to_arrow())
            mine = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
            if len(mine):
                places = at.drop_null().to_numpy().astype(np.int64)
                found.append(Versions(rows[mine], take_rows(batch, places)))
        if not found:
            return None
        return Versions(np.concatenate([v.asked for v in found]), pa.concat_tables([v.kv for v in found]))

    def rows_at(self, positions: Int64s, encoded: RowBytes, rows: Int64s) -> Versions | None:
        """Read rows of the keys rows[...], which are at these positions; None when all of them are deleted.

        errors   CorruptFileError when another key is at a position
        """
        if self._deleted is not None:
            alive = np.flatnonzero(~np.isin(positions, self._deleted))
            positions, rows = positions[alive], rows[alive]
        if not len(rows):
            return None
        selection, order = np.unique(positions, return_inverse=True)
        kv = take_rows(pa.concat_tables(self._read(selection=selection)), order)
        asked = encoded.take(rows).to_arrow()
        if not lookup_keys(kv, self._schema).to_arrow().equals(asked):
            raise CorruptFileError("the key at the position in its lookup file is another one", path=self._path)
        return Versions(rows, kv)

    def _read(self, **choice: Any) -> Iterator[pa.Table]:
        self.was_read = True
        file = self._entry.file
        then = self._metadata.load_schema(file.schema_id)
        return read_data_file(self._metadata.store, self._path, file, then, self._schema, **choice)


def lookup_keys(table: pa.Table, schema: TableSchema) -> RowBytes:
    """Encode the trimmed primary keys of rows in the form lookup files have them."""
    columns = [table.column(n) for n in schema.trimmed_primary_keys]
    return encode_compacted_rows(columns, schema.key_types, table.num_rows)
