from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.bucket import buckets_of_hashes, fixed_buckets
from lakeidx.errors import InvalidInputError
from lakeidx.types import TIMESTAMP_ROOTS, DataType, parse_type
from tests.unit.codec.strategies import LAYOUTS, atomic_types, columns_of, laid_out, tables


@pytest.mark.slow
@given(tables(atomic_types, max_columns=4), st.sampled_from(LAYOUTS), st.integers(1, 2**31 - 1))
@settings(deadline=None, max_examples=200)
def test_a_row_has_the_bucket_that_it_has_alone(
    table: tuple[list[DataType], list[list[Any]]], layout: str, n: int
) -> None:
    """In plain columns of one row, which are compared with Java in `tests/golden_tests/test_keys.py`."""
    types, rows = table
    plain = columns_of(types, rows)
    columns = [laid_out(c, t, layout) for c, t in zip(plain, types, strict=True)]
    for function in ("default", "hive"):
        if function == "hive" and any(t.root in TIMESTAMP_ROOTS for t in types):
            continue
        alone = [fixed_buckets([c.slice(i, 1) for c in plain], types, n, function).tolist() for i in range(len(rows))]
        assert fixed_buckets(columns, types, n, function).tolist() == [bucket for (bucket,) in alone]


def test_the_most_negative_hash() -> None:
    hashes = np.array([-(2**31), -(2**31) + 1, -1, 0, 2**31 - 1], np.int32)
    for n in (1, 2, 5, 2**31 - 1):
        assert buckets_of_hashes(hashes, n).tolist() == [abs(int(h)) % n for h in hashes]


def test_mod_takes_the_remainder_of_the_number() -> None:
    values = [17, -3, 5, None, -(2**63), 2**63 - 1]
    wanted = [0 if v is None else v % 5 for v in values]
    assert fixed_buckets([pa.array(values)], [parse_type("BIGINT")], 5, "mod").tolist() == wanted
    assert fixed_buckets([pa.array([-1, 6], pa.int32())], [parse_type("INT")], 5, "mod").tolist() == [4, 1]
    for bad in ([parse_type("SMALLINT")], [parse_type("INT")] * 2, [parse_type("STRING")]):
        with pytest.raises(InvalidInputError, match="exactly one INT or BIGINT"):
            fixed_buckets([pa.nulls(1)] * len(bad), bad, 5, "mod")


def test_hive_takes_a_null_timestamp_but_no_other() -> None:
    t = parse_type("TIMESTAMP(3)")
    assert fixed_buckets([pa.nulls(2, pa.timestamp("ms"))], [t], 5, "hive").tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match="TIMESTAMP"):
        fixed_buckets([pa.array([None, 5], pa.timestamp("ms"))], [t], 5, "hive")


def test_impossible_arguments_are_refused() -> None:
    column, t = pa.array([1]), parse_type("BIGINT")
    for n in (0, -1):
        with pytest.raises(InvalidInputError, match="must be positive"):
            fixed_buckets([column], [t], n)
    with pytest.raises(InvalidInputError, match="unknown bucket function 'crc'"):
        fixed_buckets([column], [t], 2, "crc")
    with pytest.raises(InvalidInputError, match="unequal length"):
        fixed_buckets([column, pa.array([1, 2])], [t, t], 2, "hive")
