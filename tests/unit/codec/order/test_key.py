from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.order.key import argsort_keys, run_starts
from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType, parse_type
from tests.kit.scalar_twins import compare_rows
from tests.unit.codec.strategies import LAYOUTS, atomic_types, columns_of, laid_out, tables

STRING, INT, BIGINT = parse_type("STRING"), parse_type("INT"), parse_type("BIGINT")


def scalar_argsort(rows: list[list[Any]], types: list[DataType]) -> list[int]:
    """Python's stable sort under the scalar comparator."""
    return sorted(range(len(rows)), key=cmp_to_key(lambda i, j: compare_rows(rows[i], rows[j], types)))  # type: ignore[call-overload]


def scalar_starts(rows: list[list[Any]], types: list[DataType]) -> list[int]:
    return [i for i in range(len(rows)) if i == 0 or compare_rows(rows[i - 1], rows[i], types) != 0]


@pytest.mark.slow
@given(tables(atomic_types, max_columns=4, max_rows=25), st.sampled_from(LAYOUTS), st.randoms())
@settings(deadline=None, max_examples=300)
def test_equals_the_scalar_order(table: tuple[list[DataType], list[list[Any]]], layout: str, random: Any) -> None:
    types, rows = table
    # Duplicates, so that stability shows.
    rows = rows + [random.choice(rows) for _ in range(len(rows) // 2)]
    columns = [laid_out(c, t, layout) for c, t in zip(columns_of(types, rows), types, strict=True)]
    expected = scalar_argsort(rows, types)
    assert argsort_keys(columns, types).tolist() == expected
    in_order = [rows[i] for i in expected]
    ordered = columns_of(types, in_order)
    assert argsort_keys(ordered, types).tolist() == list(range(len(rows)))
    assert run_starts(ordered, types).tolist() == scalar_starts(in_order, types)


N = 3000
RNG = np.random.default_rng(42)
PATHS = pa.array([f"https://example.org/{i % 7}/{'x' * (i % 5)}/a/rather/long/path/{i % 211:05d}" for i in range(N)])
BIG = pa.array(RNG.integers(-(2**63), 2**63 - 1, N))
MANY: dict[str, tuple[list[Any], list[DataType]]] = {
    "wide integers": ([BIG], [BIGINT]),
    "narrow integers": ([pa.array(RNG.integers(10**15, 10**15 + N // 4, N))], [BIGINT]),
    "gaps between the bits that vary": ([pa.array(RNG.integers(0, 50, N) << 40 | RNG.integers(0, 9, N))], [BIGINT]),
    "few groups, then wide": ([pa.array(RNG.integers(0, 3, N).astype(np.int32)), BIG], [INT, BIGINT]),
    "wide twice": ([pa.array(np.asarray(BIG) >> 60 << 60), BIG], [BIGINT, BIGINT]),
    "coarse steps": ([pa.array(RNG.integers(-(10**9), 10**9, N) * 3_600_000_000)], [BIGINT]),
    "coarse steps but for one": ([pa.array(np.where(np.arange(N) == 17, 5, RNG.integers(0, 9, N) * 1000))], [BIGINT]),
    "one value": ([pa.array(np.full(N, 7))], [BIGINT]),
    "long shared prefixes": ([PATHS.take(pa.array(RNG.permutation(N)))], [STRING]),
    "text, then integers": ([PATHS.take(pa.array(RNG.permutation(N))), BIG], [STRING, BIGINT]),
    "zero bytes at the end": ([pa.array([b"k" * 9 + b"\0" * int(z) for z in RNG.integers(0, 20, N)])],
                              [parse_type("BYTES")]),
    "empty and null": ([pa.array([None, "", "\0"] * N)[:N]], [STRING]),
    "reversed": ([pa.array(np.arange(N)[::-1].copy())], [BIGINT]),
    "sorted but for the last": ([pa.array(np.append(np.arange(N - 1), 0))], [BIGINT]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_many_rows_sort_as_tuples_do(name: str) -> None:
    """Enough rows for several rounds of ties, against Python's own order of tuples."""
    columns, types = MANY[name]
    keys = [tuple((v is not None, v if v is not None else "") for v in row)
            for row in zip(*(c.to_pylist() for c in columns), strict=True)]  # fmt: skip
    if types[0] == STRING:
        keys = [tuple((k[0], k[1].encode() if isinstance(k[1], str) else k[1]) for k in key) for key in keys]
    expected = sorted(range(len(keys)), key=keys.__getitem__)
    order = argsort_keys(columns, types)
    assert order.dtype == np.int64
    assert order.tolist() == expected
    ordered = [c.take(pa.array(order)) for c in columns]
    starts = run_starts(ordered, types).tolist()
    assert starts == [i for i in range(len(keys)) if i == 0 or keys[expected[i]] != keys[expected[i - 1]]]


def test_every_nan_is_the_same_key() -> None:
    bits = np.array([0x7FC00000, 0xFFC12345, 0x7F800000], np.uint32)
    column = pa.Array.from_buffers(pa.float32(), 3, [None, pa.py_buffer(bits)])
    t = parse_type("FLOAT")
    assert argsort_keys([column], [t]).tolist() == [2, 0, 1]
    assert run_starts([column.take(pa.array([2, 0, 1]))], [t]).tolist() == [0, 1]


@pytest.mark.parametrize("function", [argsort_keys, run_starts])
def test_columns_without_an_order_are_refused(function: Any) -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        function([], [])
    with pytest.raises(InvalidInputError, match="no order"):
        function([pa.array([[1]])], [parse_type({"type": "ARRAY", "element": "BIGINT"})])
    with pytest.raises(InvalidInputError, match="unequal length"):
        function([pa.array([1]), pa.array([1, 2])], [BIGINT, BIGINT])
    with pytest.raises(InvalidInputError):
        function([pa.array(["a"])], [BIGINT])
