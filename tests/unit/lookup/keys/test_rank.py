from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.lookup.keys.order import KeyOrder, common_prefix
from lakeidx.lookup.packed import addresses_of
from lakeidx.lookup.sort_store.read_kernels import ranks_of
from lakeidx.types import DataType
from tests.unit.codec.strategies import atomic_types, tables


def ranks(order: KeyOrder, keys: list[bytes]) -> tuple[int, list[int]]:
    """The prefix that the sorted keys share, and their ranks after it."""
    rows = RowBytes.from_list(keys)
    data, offsets = addresses_of(rows)
    bounds = rows.offsets
    skip = int(common_prefix(data, bounds[1], data + bounds[-2], bounds[-1] - bounds[-2], *order.for_kernels))
    out = np.empty(len(keys), np.uint64)
    ranks_of(data, offsets, len(keys), *order.for_kernels, skip, out)
    return skip, out.tolist()


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(tables(atomic_types, max_columns=3, max_rows=8))
def test_ranks_of_rows_never_go_against_the_order(table: tuple[list[DataType], list[list[Any]]]) -> None:
    types, rows = table
    order = KeyOrder.row_compacted(types)
    keys = sorted((encode_compacted(row, types) for row in rows), key=cmp_to_key(order.compare))
    if keys:
        found = ranks(order, keys)[1]
        assert found == sorted(found)


@settings(deadline=None)
@given(st.binary(max_size=10), st.lists(st.binary(max_size=12), min_size=1, max_size=10))
def test_ranks_of_bytes(prefix: bytes, tails: list[bytes]) -> None:
    keys = sorted(prefix + tail for tail in tails)
    skip, found = ranks(KeyOrder.unsigned_bytes(), keys)
    assert keys[0][:skip] == keys[-1][:skip]
    assert skip >= len(prefix)
    # The rank is the eight bytes after the shared prefix, filled up with zeros.
    assert found == [int.from_bytes(key[skip : skip + 8].ljust(8, b"\0"), "big") for key in keys]
