"""Gathered rows equal take, as slices or not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.arrays import frozen
from lakeidx.codec.gather import gather_rows, stretches, take_rows

TABLES = [pa.table({"a": range(s, s + 700), "b": [str(i) for i in range(s, s + 700)]}) for s in (0, 700)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1399), st.integers(1, 900)), max_size=6))
def test_gathered_stretches_equal_take(stretches: list[tuple[int, int]]) -> None:
    parts = [np.arange(b, min(b + n, 1400)) for b, n in stretches]
    rows = np.concatenate([np.zeros(0, np.int64), *parts])
    whole = pa.concat_tables(TABLES)
    found = gather_rows(TABLES, rows)
    assert found.equals(whole.take(pa.array(rows)))
    assert gather_rows([whole.combine_chunks()], rows).equals(found)
    assert take_rows(whole, rows).equals(found)


def test_all_rows_in_order_are_not_copied() -> None:
    found = gather_rows(TABLES, np.arange(1400))
    assert found.column("a").chunk(0).buffers()[1].address == TABLES[0].column("a").chunk(0).buffers()[1].address


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.dictionary(pa.int32(), pa.string()), [["x", "y"], ["y", None]]),
        (pa.list_(pa.int32()), [[[1], None], [[2, 3], []]]),
        (pa.decimal128(5, 1), [[Decimal("1.0"), None], [Decimal("2.5"), Decimal("-3.0")]]),
    ],
)
def test_other_types_are_gathered_too(kind: pa.DataType, values: list[list[Any]]) -> None:
    tables = [pa.table({"c": pa.array(v, kind)}) for v in values]
    rows = np.array([3, 0, 2, 0, 1])
    flat = values[0] + values[1]
    for parts in (tables, [pa.concat_tables(tables).unify_dictionaries().combine_chunks()]):
        assert gather_rows(parts, rows).column("c").to_pylist() == [flat[i] for i in rows]


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 12))
def test_stretches_cover_the_rows(rows: list[int], room: int) -> None:
    begins, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
    count = stretches(frozen(np.array(rows, np.int64)), begins, lengths)
    if count > room:
        return
    found = [b + i for b, n in zip(begins[:count].tolist(), lengths[:count].tolist(), strict=True) for i in range(n)]
    assert found == rows
