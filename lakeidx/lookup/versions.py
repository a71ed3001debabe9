"""Versions of looked-up keys, gathered from many files, merged into one row per key by the table's merge engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.order.key import argsort_keys
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.codec.rows.compacted_row import decode_compacted_rows
from lakeidx.data.engines import make_engine
from lakeidx.data.evolution.evolve import evolve_column, plan_columns
from lakeidx.data.merge.sort import sequence_columns
from lakeidx.data.rows import take_rows
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.lookup.value_rows import ValueRows
from lakeidx.types import DataType, Root

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
    for plan in plan_columns(then.fields, schema.fields):
        raw = rows.column(plan.source.name) if plan.source is not None else None
        columns.append(evolve_column(plan, raw, rows.num_rows))
    return pa.Table.from_arrays(columns, names=[SEQUENCE_NUMBER, VALUE_KIND, *schema.field_names])


def newest_wins(schema: TableSchema) -> bool:
    """Return True when the row with the largest sequence number is the answer, so older files need no lookup."""
    options = schema.table_options
    return options.merge_engine == "deduplicate" and not options.sequence_field and not options.ignore_delete


def merge_versions(found: Sequence[Versions], schema: TableSchema) -> Versions:
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
