from __future__ import annotations

import bisect
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.order.normalized_key import (
    NormalizedKeys,
    find_sorted,
    normalized_keys,
    search_sorted,
)
from lakeidx.errors import InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, parse_type
from tests.kit.scalar_twins import compare_rows
from tests.unit.codec.strategies import atomic_types, columns_of, tables

STRING, BIGINT = parse_type("STRING"), parse_type("BIGINT")


def plain(keys: NormalizedKeys, i: int) -> Any:
    """Key i as something Python compares as the docstring says: words, then bytes."""
    return keys.words[i].tolist(), keys.rows[i] if keys.rows is not None else b""


@pytest.mark.slow
@given(tables(atomic_types, max_columns=4, max_rows=16), st.integers(0, 16))
@settings(deadline=None, max_examples=300)
def test_order_and_search_equal_the_scalar_ones(table: tuple[list[DataType], list[list[Any]]], cut: int) -> None:
    """Two batches of one type, encoded apart, as key sets to be joined are."""
    types, rows = table
    key = cmp_to_key(lambda a, b: compare_rows(a, b, types))  # type: ignore[arg-type]
    held, probes = sorted(rows[:cut], key=key), rows[cut:] + rows[: cut // 2]
    keys, probe = (normalized_keys(columns_of(types, x), types) for x in (held, probes))
    assert keys.exact == (not any(t.root in STRING_ROOTS or t.root in BYTES_ROOTS for t in types))
    assert keys.words.dtype == np.uint64
    for i, a in enumerate(held):
        for j, b in enumerate(probes):
            x, y = plain(keys, i), plain(probe, j)
            assert (x > y) - (x < y) == compare_rows(a, b, types)
    wrapped = [key(r) for r in held]
    left = [bisect.bisect_left(wrapped, key(p)) for p in probes]
    right = [bisect.bisect_right(wrapped, key(p)) for p in probes]
    assert search_sorted(keys, probe).tolist() == left
    assert search_sorted(keys, probe, side="right").tolist() == right
    assert find_sorted(keys, probe).tolist() == [a if b > a else -1 for a, b in zip(left, right, strict=True)]


@pytest.mark.parametrize("order", ["sorted", "reversed", "random"])
@pytest.mark.parametrize("kind", ["integers", "two words", "text"])
def test_search_in_many(kind: str, order: str) -> None:
    """Long gallops, runs of equal keys, probes before the first and after the last: against numpy and bisect."""
    rng = np.random.default_rng(3)
    held = np.sort(rng.integers(-500, 500, 2000) * 3)
    probes = rng.integers(-2000, 2000, 1500)
    if order != "random":
        probes = np.sort(probes)[:: 1 if order == "sorted" else -1].copy()
    if kind == "text":
        texts = [f"shared prefix {v + 5000:06d}" for v in held.tolist()]
        asked = [f"shared prefix {v + 5000:06d}" for v in probes.tolist()]
        keys, probe = (normalized_keys([pa.array(x)], [STRING]) for x in (texts, asked))
    elif kind == "integers":
        keys, probe = (normalized_keys([pa.array(x)], [BIGINT.with_nullable(False)]) for x in (held, probes))
        assert keys.words.shape == (2000, 1)
    else:
        zeros = (np.zeros(2000, np.int64), np.zeros(1500, np.int64))
        keys, probe = (
            normalized_keys([pa.array(z), pa.array(x)], [BIGINT, BIGINT])
            for z, x in zip(zeros, (held, probes), strict=True)
        )
        assert keys.words.shape == (2000, 3)
    assert search_sorted(keys, probe).tolist() == np.searchsorted(held, probes).tolist()
    assert search_sorted(keys, probe, side="right").tolist() == np.searchsorted(held, probes, "right").tolist()


def test_fields_share_words() -> None:
    types = [parse_type(f"{w} NOT NULL") for w in ("INT", "SMALLINT", "TINYINT", "BOOLEAN")]
    columns = [pa.array([-(2**31), 2**31 - 1]), pa.array([-1, 0]), pa.array([-128, 127]), pa.array([False, True])]
    keys = normalized_keys([c.cast(t) for c, t in zip(columns, (pa.int32(), pa.int16(), pa.int8(), pa.bool_()),
                                                      strict=True)], types)  # fmt: skip
    assert keys.words.tolist() == [[0x00000000_7FFF_00_00], [0xFFFFFFFF_8000_FF_80]]


def test_whole_numbers_and_what_is_refused() -> None:
    numbers, required = np.arange(-3000, 3000), BIGINT.with_nullable(False)
    few, many = (normalized_keys([pa.array(x)], [required]) for x in (numbers[:10], numbers))
    assert few.words.tolist() == many.words[:10].tolist() == [[n + 2**63] for n in numbers[:10].tolist()]
    for types in ([BIGINT, required], [required, BIGINT]):
        keys = normalized_keys([pa.array(numbers)] * 2, types)
        assert keys.words.shape == (6000, 3)
    with pytest.raises(InvalidInputError, match="1 nulls"):
        normalized_keys([pa.array([*numbers.tolist(), None])], [required])
    with pytest.raises(InvalidInputError, match="unequal length"):
        normalized_keys([pa.array(numbers), pa.array(numbers[1:])], [required, required])
    with pytest.raises(InvalidInputError, match="2 columns for 1 types"):
        normalized_keys([pa.array(numbers)] * 2, [required])


def test_zero_bytes_in_texts_are_escaped() -> None:
    keys = normalized_keys([pa.array(["a\0\1b", None, "twelve bytes"])], [STRING])
    assert keys.rows is not None
    assert keys.rows.to_list() == [b"\1a\1\1\1\2b\0", b"\0\0", b"\1twelve bytes\0"]
    assert keys.words[:, 0].tolist() == [int.from_bytes(r[:8].ljust(8, b"\0"), "big") for r in keys.rows.to_list()]


def test_slices_are_searched_as_whole_columns() -> None:
    keys = normalized_keys([pa.array(["a", "b", "c", "d"])], [STRING])
    part = keys.slice(1, 3)
    assert len(part) == 2
    assert search_sorted(part, keys).tolist() == [0, 0, 1, 2]
    assert find_sorted(part, keys).tolist() == [-1, 0, 1, -1]


def test_keys_of_different_types_are_not_compared() -> None:
    text, number = normalized_keys([pa.array(["a"])], [STRING]), normalized_keys([pa.array([1])], [BIGINT])
    with pytest.raises(InvalidInputError, match="different types"):
        search_sorted(text, number)
    with pytest.raises(InvalidInputError, match="left or right"):
        search_sorted(text, text, side="middle")
