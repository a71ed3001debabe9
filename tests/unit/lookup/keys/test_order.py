from __future__ import annotations

import pickle
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.types import DataType, Root, parse_type
from tests.kit.scalar_twins import compare_compacted
from tests.unit.codec.strategies import atomic_types, tables

ORDER = KeyOrder.row_compacted([parse_type("INT"), parse_type("STRING")])
GOOD = encode_compacted([7, "ab"], [parse_type("INT"), parse_type("STRING")])


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(tables(atomic_types, max_columns=11, max_rows=6))
def test_kernel_compares_as_the_scalar_twin(table: tuple[list[DataType], list[list[Any]]]) -> None:
    types, rows = table
    order = KeyOrder.row_compacted(types)
    keys = [encode_compacted(row, types) for row in rows]
    order.check(RowBytes.from_list(keys))
    for a in keys:
        for b in keys:
            expected = compare_compacted(a, b, types)
            assert order.compare(a, b) == (expected > 0) - (expected < 0)


def test_floats_have_javas_order() -> None:
    # Double.compare: -inf < -1 < -0.0 < 0.0 < 1 < inf < NaN, whatever the bits of the NaN.
    for name in ("FLOAT", "DOUBLE"):
        types = [parse_type(name)]
        order = KeyOrder.row_compacted(types)
        values = [None, float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf"), float("nan")]
        keys = [encode_compacted([v], types) for v in values]
        shuffled = keys[3:] + keys[:3]
        assert sorted(shuffled, key=cmp_to_key(order.compare)) == keys
        size = len(keys[1]) - 2
        other_nan = keys[-1][:2] + bytes.fromhex("0100c0ff" if size == 4 else "010000000000f8ff")
        assert order.compare(keys[-1], other_nan) == 0
        assert order.compare(other_nan, keys[-2]) == 1


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_changed_rows_are_refused_or_comparable(data: st.DataObject) -> None:
    types, rows = data.draw(tables(atomic_types, max_columns=9, max_rows=1))
    order = KeyOrder.row_compacted(types)
    key = bytearray(encode_compacted(rows[0], types) if rows else bytes((len(types) + 15) // 8))
    for _ in range(data.draw(st.integers(1, 3))):
        action = data.draw(st.sampled_from(["cut", "flip", "grow"]))
        if action == "cut" and key:
            del key[data.draw(st.integers(0, len(key) - 1)) :]
        elif action == "flip" and key:
            key[data.draw(st.integers(0, len(key) - 1))] = data.draw(st.integers(0, 255))
        else:
            key += data.draw(st.binary(min_size=1, max_size=3))
    try:
        order.check(RowBytes.from_list([bytes(key)]), first=5)
    except InvalidInputError as error:
        assert str(error).startswith("key 5 ")  # noqa: PT017
    else:
        assert order.compare(bytes(key), bytes(key)) == 0


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"", "ends before"),
        (GOOD[:1], "ends before"),
        (GOOD[:-1], "ends before"),
        (GOOD[:4], "ends before"),
        (GOOD + b"x", "bytes follow the last field"),
        (GOOD[:1] + b"\x04" + GOOD[2:], "null bits"),
        (encode_compacted([7], [parse_type("INT")]), "ends before"),
        (encode_compacted([7, "ab", 1], [parse_type(t) for t in ("INT", "STRING", "INT")]), "bytes follow"),
        (encode_compacted([7, "ab"], [parse_type(t) for t in ("BIGINT", "STRING")]), "bytes follow"),
    ],
)
def test_keys_of_another_type_or_arity(key: bytes, why: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"key 2 .*rows of \(INT, STRING\).*{why}"):
        ORDER.check(RowBytes.from_list([GOOD, GOOD, key]))


def test_types_without_order() -> None:
    with pytest.raises(UnsupportedError, match="ARRAY"):
        KeyOrder.row_compacted([DataType(Root.ARRAY, element=parse_type("INT"))])
    with pytest.raises(InvalidInputError, match="at least one field"):
        KeyOrder.row_compacted([])


def test_orders_travel_between_processes() -> None:
    again = pickle.loads(pickle.dumps(ORDER))
    assert again == ORDER
    assert again.compare(GOOD, GOOD) == 0
    assert str(again) == "rows of (INT, STRING)"
    assert str(KeyOrder.unsigned_bytes()) == "unsigned bytes"
