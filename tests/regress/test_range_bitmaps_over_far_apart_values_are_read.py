"""A range bitmap over values of both signs, or more than 2^63 apart, was called damaged."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakeidx.file_index.registry import file_index_of
from lakeidx.predicate.tree import Compare, Op
from lakeidx.types import parse_type


@pytest.mark.parametrize(
    ("type_text", "values"),
    [
        ("DOUBLE", [-6.5, -3.5, 11.375, 11.5]),
        ("DOUBLE", [float("-inf"), -1.0, 1.0, float("inf")]),
        ("FLOAT", [-6.5, -3.5, 11.375, 11.5]),
        ("BIGINT", [-(2**63), -1, 0, 2**63 - 1]),
        ("DECIMAL(18, 0)", [Decimal(-(10**17)), Decimal(-1), Decimal(5), Decimal(10**17)]),
    ],
)
def test_every_value_is_found(type_text: str, values: list[float | Decimal]) -> None:
    """Equality and order, for each value of a chunk's body and head."""
    t = parse_type(type_text)
    indexer = file_index_of("range-bitmap")
    writer = indexer.create_writer(t, {})
    arrow = {"DOUBLE": pa.float64(), "FLOAT": pa.float32(), "BIGINT": pa.int64()}.get(type_text, pa.decimal128(18, 0))
    writer.add(pa.array([None, *values], arrow))
    payload = writer.finish()
    assert payload is not None
    reader = indexer.create_reader(t, payload)
    for row, value in enumerate(values, 1):
        assert list(reader.select(Compare("c", Op.EQ, value))) == [row]  # type: ignore[arg-type]
        assert list(reader.select(Compare("c", Op.GE, value))) == list(range(row, len(values) + 1))  # type: ignore[arg-type]
