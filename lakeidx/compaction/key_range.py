"""A range of keys: the part of a bucket's sorted runs that one share of its compaction reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.order.normalized_key import NormalizedKeys, normalized_keys, search_sorted
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate import BoundPredicate, Compare, Op, and_
from lakeidx.types import STRING_ROOTS, DataType, Root

#: Key columns whose internal values are those of predicates, and sort as these do.
_PRUNES = STRING_ROOTS | {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE}


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `low` on and before `high`: trimmed primary keys as manifests have them; None where there is no bound.

    cut   names of the files that have keys inside and outside; of all others that are read every key is inside
    """

    low: bytes | None = None
    high: bytes | None = None
    cut: frozenset[str] = frozenset()

    def condition(self, schema: TableSchema) -> BoundPredicate | None:
        """Return a condition on the first key column that every row inside satisfies; None where there is none."""
        first = schema.field(schema.trimmed_primary_keys[0])
        if first.type.root not in _PRUNES:
            return None
        bounds = ((Op.GE, self.low), (Op.LE, self.high))
        known = [Compare(first.name, op, _values(key, schema.key_types)[0]) for op, key in bounds if key is not None]
        return BoundPredicate(and_(known), schema.fields) if known else None

    def inside(self, tables: Iterable[pa.Table], schema: TableSchema) -> Iterator[pa.Table]:
        """Take the rows inside, each by its own key: whatever their order, a row is in exactly one range."""
        low, high = (None if k is None else _probe(k, schema.key_types) for k in (self.low, self.high))
        for table in tables:
            keys = normalized_keys([table.column(n) for n in schema.trimmed_primary_keys], schema.key_types)
            wanted = np.ones(len(keys), np.bool_)
            if low is not None:
                wanted &= search_sorted(low, keys, side="right") == 1
            if high is not None:
                wanted &= search_sorted(high, keys, side="right") == 0
            rows = _taken(table, wanted)
            if rows.num_rows:
                yield rows


def _taken(table: pa.Table, wanted: npt.NDArray[np.bool_]) -> pa.Table:
    rows = np.flatnonzero(wanted)
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return table.filter(pa.array(wanted))


def _values(key: bytes, types: Sequence[DataType]) -> list[Any]:
    return decode_row(split_arity(key)[1], types)


def _probe(key: bytes, types: Sequence[DataType]) -> NormalizedKeys:
    columns = [internal_to_arrow([v], t) for v, t in zip(_values(key, types), types, strict=True)]
    return normalized_keys(columns, types)
