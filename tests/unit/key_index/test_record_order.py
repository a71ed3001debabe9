"""Record keys as text, and the order of a key's records."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.keys.reader import record_ages
from lakeidx.key_index.keys.record_key import record_keys

KEY_TEXT = st.text(alphabet="a:,\\b", max_size=5) | st.sampled_from(["__null__", "__empty__", "\\__empty__"])


def _texts(columns: dict[str, pa.Array]) -> list[str]:
    return [k.decode() for k in record_keys(list(columns.values()), list(columns)).to_list()]


def test_one_column_is_its_bare_value() -> None:
    assert _texts({"id": pa.array(["a", "b:c,d", ""])}) == ["a", "b:c,d", ""]
    assert _texts({"id": pa.array([1, -5], pa.int64())}) == ["1", "-5"]
    assert _texts({"id": pa.chunked_array([["a"], ["b"]])}) == ["a", "b"]
    assert _texts({"id": pa.array(["a", "b", "a"]).dictionary_encode()}) == ["a", "b", "a"]


def test_values_as_text() -> None:
    columns = {
        "i": pa.array([7], pa.int8()),
        "b": pa.array([True]),
        "d": pa.array([dt.date(2024, 2, 29)]),
        "t": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4000)], pa.timestamp("ms")),
        "z": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3)], pa.timestamp("us", tz="UTC")),
        "m": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "x": pa.array([b"\x00\xff"]),
    }
    assert _texts(columns) == [
        "i:7,b:true,d:2024-02-29,t:2024-02-29 01:02:03.004,z:2024-02-29 01:02:03.000000,m:1.50,x:00ff"
    ]


def test_several_columns_are_named_in_the_key() -> None:
    columns = {"id": pa.array(["1", None, ""]), "name": pa.array(["a", "b", "c"]).dictionary_encode()}
    assert _texts(columns) == ["id:1,name:a", "id:__null__,name:b", "id:__empty__,name:c"]


@settings(deadline=None)
@given(st.lists(st.tuples(KEY_TEXT, KEY_TEXT), max_size=20))
def test_different_keys_read_differently(keys: list[tuple[str, str]]) -> None:
    texts = _texts({"b": pa.array([k[0] for k in keys], pa.string()), "a": pa.array([k[1] for k in keys], pa.string())})
    assert len(set(texts)) == len(set(keys))


def test_what_has_no_text() -> None:
    for columns in ([], [pa.array([None], pa.string())], [pa.array([[1]])]):
        with pytest.raises(InvalidInputError):
            record_keys(columns, ["c"] * len(columns))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.integers(-2, 2), st.none() | st.sampled_from(["a", "b"]), st.integers(0, 3)),
        max_size=15,
    ),
    st.booleans(),
)
def test_newer_rows_come_by_sequence_fields_then_number(records: list[tuple[Any, Any, int]], descending: bool) -> None:
    """Null before every value in both directions; then sequence.field columns; then the sequence number, always ascending."""
    sign = -1 if descending else 1

    def rank(value: Any) -> tuple[int, Any]:
        if value is None:
            return (0, 0)
        return (1, sign * (value if isinstance(value, int) else ord(value)))

    order = (
        pa.chunked_array([pa.array([r[0] for r in records], pa.int32())]),
        pa.chunked_array([pa.array([r[1] for r in records], pa.string())]),
    )
    sequence = np.array([r[2] for r in records], np.int64)
    ages = record_ages(order, sequence, descending=descending)
    for i, a in enumerate(records):
        for j, b in enumerate(records):
            key_a, key_b = ((rank(r[0]), rank(r[1]), r[2]) for r in (a, b))
            if key_a < key_b:
                assert ages[i] < ages[j]
    assert record_ages((), sequence, descending=descending) is sequence
