"""Parts of sorted runs: complete up to a cut, and every row once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.data.merge.run_parts import complete_parts
from lakeidx.errors import CorruptFileError
from tests.unit.data.tables import kv_table, table_schema

SCHEMA = table_schema({"k": "INT NOT NULL"})


def batches(keys: list[int], size: int) -> list[pa.Table]:
    kv = kv_table(SCHEMA, [(k,) for k in keys])
    return [kv.slice(i, size) for i in range(0, len(keys), size)]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sets(st.integers(0, 30)).map(sorted), max_size=4), st.integers(1, 5))
def test_every_row_is_in_one_part_and_keys_do_not_return(runs: list[list[int]], size: int) -> None:
    found: list[int] = []
    for parts in complete_parts([iter(batches(keys, size)) for keys in runs], SCHEMA):
        keys = [p.table.column("k").to_pylist() for p in parts]
        assert parts
        assert all(part == sorted(part) and part for part in keys)
        assert [len(p.keys) for p in parts] == [len(part) for part in keys]
        here = sorted(k for part in keys for k in part)
        assert not found or found[-1] < here[0]
        # No run has more than a batch at hand.
        assert all(len(part) <= size for part in keys)
        found += here
    assert found == sorted(k for keys in runs for k in keys)


@pytest.mark.parametrize("keys", [[1, 3, 2], [1, 2, 2], [1, 1]])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_run_out_of_order_is_refused(keys: list[int], size: int) -> None:
    with pytest.raises(CorruptFileError, match="sorted run 1 is not in key order"):
        list(complete_parts([batches([0], 1), batches(keys, size)], SCHEMA))
