"""The key table of a batch against a dictionary, for every kind of key."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import InternalError, InvalidInputError
from lakeidx.key_index.keys.codes import KeyCodes, key_codes
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.types import parse_type, to_arrow

# Few values, so that equal keys come up; strings of all lengths around the 8-byte steps of the kernels.
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-2, 2),
    "INT": st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
    "BIGINT": st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    "DATE": st.sampled_from([dt.date(1969, 1, 1), dt.date(2024, 2, 29)]),
    "TIMESTAMP(3)": st.sampled_from([dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 1, 1, 1, 5000)]),
    "TIMESTAMP(6)": st.sampled_from([dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 1, 1, 1, 5)]),
    "STRING": st.text(alphabet="ab", max_size=10) | st.sampled_from(["x" * 17, "x" * 16, "x" * 16 + "y", "é"]),
    "BYTES": st.binary(max_size=2),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.sampled_from([0.0, 1.5, float("inf")]),
    "DECIMAL(20, 2)": st.sampled_from([Decimal("1.00"), Decimal("-1.00"), Decimal("123456789012345678.99")]),
}


@st.composite
def key_tables(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]], list[int]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    rows = st.lists(st.tuples(*(KINDS[n] for n in names)), max_size=25)
    held, asked = draw(rows), draw(rows)
    return names, held, asked, draw(st.lists(st.integers(0, 2), min_size=len(held), max_size=len(held)))


def _codes(names: list[str], rows: list[tuple[Any, ...]]) -> KeyCodes:
    types = [parse_type(f"{n} NOT NULL") for n in names]
    columns = [pa.array([r[i] for r in rows], to_arrow(t)) for i, t in enumerate(types)]
    return key_codes(columns, types)


@settings(deadline=None, max_examples=200)
@given(key_tables(), st.booleans())
def test_set_equals_a_dictionary(case: Any, partitioned: bool) -> None:
    names, held, asked, held_in = case
    if not partitioned:
        held_in = [0] * len(held)
    model: dict[Any, int] = {}
    for i, key in enumerate(zip(held, held_in, strict=True)):
        model.setdefault(key, i)
    keys = KeySet(_codes(names, held), np.array(held_in, np.int32) if partitioned else None)
    assert keys.distinct == len(model)
    assert keys.first.tolist() == [model[k] for k in zip(held, held_in, strict=True)]
    for p in range(3):
        assert keys.find(_codes(names, asked), p).tolist() == [model.get((k, p), -1) for k in asked]


def test_nulls_and_mixed_kinds_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="null"):
        key_codes([pa.array([1, None])], [parse_type("BIGINT")])
    with pytest.raises(InternalError):
        KeySet(_codes(["INT"], [(1,)])).find(_codes(["STRING"], [("1",)]))


def test_chunks_and_slices_are_seen_as_one_column() -> None:
    whole = pa.array(range(10), pa.int32())
    chunked = pa.chunked_array([whole.slice(0, 3), whole.slice(3, 7)])
    kind = [parse_type("INT NOT NULL")]
    for column in (chunked, whole, chunked.slice(0, 10)):
        found = key_codes([column], kind).ints
        assert found is not None
        assert found.tolist() == list(range(10))
    part = key_codes([whole.slice(4, 3)], kind).ints
    assert part is not None
    assert part.tolist() == [4, 5, 6]
    assert len(key_codes([pa.chunked_array([], pa.int32())], kind)) == 0
