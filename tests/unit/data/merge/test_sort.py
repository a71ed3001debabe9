"""Merge order: key, sequence fields (nulls first both ways), sequence number, retracts first."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.data.merge.order import descending_ranks, merge_order
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import parse_type
from tests.kit.scalar_twins import compare_values
from tests.unit.data.tables import kv_table, table_schema

TIMES = [None, (0, 0), (0, 1000), (-5, 999_000), (7, 0)]
ROWS = st.tuples(
    st.sampled_from(["", "a", "ab", "é"]),
    st.sampled_from([None, 1.5, -0.0, 0.0, float("nan")]),
    st.sampled_from(TIMES),
    st.integers(0, 2),
    st.integers(0, 3),
)


def sequence_schema(descending: bool) -> TableSchema:
    options = {"sequence.field": "x,t", "sequence.field.sort-order": "descending" if descending else "ascending"}
    return table_schema({"k": "STRING NOT NULL", "x": "DOUBLE", "t": "TIMESTAMP(6)"}, options=options)


def compare_nullable(a: Any, b: Any, t: Any, *, descending: bool) -> int:
    if a is None or b is None:
        return (a is not None) - (b is not None)
    order = compare_values(a, b, t)
    return -order if descending else order


@pytest.mark.parametrize("descending", [False, True])
@settings(deadline=None)
@given(rows=st.lists(ROWS, max_size=12))
def test_merge_order_is_the_comparators(descending: bool, rows: list[tuple[Any, ...]]) -> None:
    schema = sequence_schema(descending)
    kv = kv_table(schema, [r[:3] for r in rows], kinds=[r[4] for r in rows])
    kv = kv.set_column(0, kv.schema.field(0), pa.array([r[3] for r in rows], pa.int64()))
    types = [f.type for f in schema.fields]

    def compare(i: int, j: int) -> int:
        a, b = rows[i], rows[j]
        order = compare_values(a[0], b[0], types[0])
        for at in (1, 2):
            order = order or compare_nullable(a[at], b[at], types[at], descending=descending)
        order = order or a[3] - b[3]
        return order or (b[4] & 1) - (a[4] & 1) or i - j

    wanted = sorted(range(len(rows)), key=cmp_to_key(compare))
    assert merge_order(kv, schema).tolist() == wanted


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from(["", "a", "ab", "é"]), st.integers(0, 3), st.integers(0, 3)), max_size=12),
    arrived=st.booleans(),
)
def test_without_sequence_fields_the_number_decides(rows: list[tuple[str, int, int]], arrived: bool) -> None:
    """Numbered as they come, or as other writers have numbered them."""
    schema = table_schema({"k": "STRING NOT NULL"})
    numbers = [*range(5, 5 + len(rows))] if arrived else [r[1] for r in rows]
    kv = kv_table(schema, [r[:1] for r in rows], kinds=[r[2] for r in rows])
    kv = kv.set_column(0, kv.schema.field(0), pa.array(numbers, pa.int64()))
    wanted = sorted(range(len(rows)), key=lambda i: (rows[i][0].encode(), numbers[i], -(rows[i][2] & 1)))
    assert merge_order(kv, schema).tolist() == wanted


def test_descending_ranks_turn_values_round_and_leave_nulls_first() -> None:
    column = pa.chunked_array([pa.array([5, None, 7]), pa.array([5, -1])])
    assert descending_ranks(column, parse_type("BIGINT")).tolist() == [2, 0, 1, 2, 3]
    assert descending_ranks(pa.chunked_array([pa.array([2, 1])]), parse_type("BIGINT")).tolist() == [1, 2]
    assert descending_ranks(pa.chunked_array([], pa.int64()), parse_type("BIGINT")).dtype == np.int64
