"""Merging sorted runs: windows, shortcuts, slices, engines, errors. Random histories are in the property lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.data.merge.merge_runs import merge_rows, merge_sorted_runs
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from tests.unit.data.tables import kv_rows_of, kv_table, table_schema

SCHEMA = table_schema({"k": "INT NOT NULL", "v": "STRING"})


def run(
    rows: Sequence[tuple[int, str | None]], first: int, kinds: Sequence[int] | None = None, batch: int = 2
) -> list[pa.Table]:
    kv = kv_table(SCHEMA, rows, first_sequence=first, kinds=kinds)
    return [kv.slice(i, batch) for i in range(0, len(rows), batch)]


def merged(runs: Sequence[list[pa.Table]], schema: TableSchema = SCHEMA, **more: Any) -> list[tuple[Any, ...]]:
    tables = list(merge_sorted_runs([iter(r) for r in runs], schema, **more))
    assert all(t.num_rows for t in tables)
    return [row for t in tables for row in kv_rows_of(t, schema)]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_only_some_columns_are_given_back(engine: str) -> None:
    schema = table_schema({"k": "INT NOT NULL", "v": "STRING"}, options={"merge-engine": engine})
    old, new = run([(1, "a"), (2, "b"), (3, "c"), (7, "d")], 0), run([(2, "B"), (3, "C")], 10)
    whole = pa.concat_tables(merge_sorted_runs([iter(old), iter(new)], schema))
    assert whole.column("v").to_pylist() == ["a", "B", "C", "d"]
    for names in (["v"], ["_SEQUENCE_NUMBER", "v"], ["_VALUE_KIND"]):
        some = pa.concat_tables(merge_sorted_runs([iter(old), iter(new)], schema, columns=names))
        assert some.equals(whole.select(names))
        (alone,) = merge_sorted_runs([iter([old[0]])], schema, columns=names)
        assert alone.equals(old[0].select(names))


def test_a_run_alone_in_its_key_range_passes_as_slices() -> None:
    low, high = (
        run([(i, "x") for i in range(1000)], 0, batch=1000),
        run([(i, "y") for i in range(2000, 2500)], 5000, batch=500),
    )
    tables = list(merge_sorted_runs([iter(low), iter(high)], SCHEMA))
    assert [t.num_rows for t in tables] == [1000, 500]
    assert tables[0].column("k").chunk(0).buffers()[1].address == low[0].column("k").chunk(0).buffers()[1].address


def test_what_comes_out_is_bounded_by_the_batches_that_go_in() -> None:
    runs = [run([(i, "x") for i in range(r, 900, 3)], r * 1000, batch=10) for r in range(3)]
    pulled = [0, 0, 0]

    def counted(r: int) -> Iterator[pa.Table]:
        for table in runs[r]:
            pulled[r] += 1
            yield table

    given = 0
    for table in merge_sorted_runs([counted(r) for r in range(3)], SCHEMA):
        assert table.num_rows <= 30
        given += table.num_rows
        # Never more than the batch at hand beyond what was given.
        assert max(pulled) * 30 <= given + 90
    assert given == 900


@pytest.mark.parametrize(
    "rows", [[(1, "a"), (3, "b"), (2, "c"), (4, "d")], [(1, "a"), (2, "b"), (2, "c"), (3, "d")], [(1, "a"), (1, "b")]]
)
def test_a_run_out_of_order_is_refused(rows: list[tuple[int, str]]) -> None:
    for batch in (1, 2, 4):
        with pytest.raises(CorruptFileError, match="sorted run 1 is not in key order"):
            merged([run([(0, "z")], 0), run(rows, 5, batch=batch)])


def test_engines_see_only_keys_with_several_records_unless_asked() -> None:
    schema = table_schema(
        {"k": "INT NOT NULL", "v": "INT"}, options={"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    )
    old = [kv_table(schema, [(1, 10), (2, 20), (3, 30)], kinds=[2, 0, 0])]
    new = [kv_table(schema, [(2, 5), (4, 7)], first_sequence=10)]
    # A lone +U stays +U; a merged row is +I with the last sequence number.
    assert merged([old, new], schema) == [(0, 2, 1, 10), (10, 0, 2, 25), (2, 0, 3, 30), (11, 0, 4, 7)]
    assert merged([old, new], schema, shortcut=False) == [(0, 0, 1, 10), (10, 0, 2, 25), (2, 0, 3, 30), (11, 0, 4, 7)]


def test_keys_that_an_engine_leaves_out_do_not_shift_the_others() -> None:
    schema = table_schema(
        {"k": "STRING NOT NULL", "v": "INT"}, options={"merge-engine": "first-row", "ignore-delete": "true"}
    )
    old = [kv_table(schema, [("a", 1), ("b", 2), ("c", 3), ("d", 4)], kinds=[0, 3, 0, 3])]
    new = [kv_table(schema, [("b", 5), ("c", 6), ("d", 7), ("e", 8)], first_sequence=10, kinds=[3, 0, 0, 0])]
    assert merged([old, new], schema) == [(0, 0, "a", 1), (2, 0, "c", 3), (12, 0, "d", 7), (13, 0, "e", 8)]


def test_a_batch_is_sorted_and_merged() -> None:
    kv = kv_table(SCHEMA, [(3, "a"), (1, "b"), (3, "c"), (2, "d"), (1, None)], kinds=[0, 0, 0, 0, 3])
    assert kv_rows_of(merge_rows(kv, SCHEMA), SCHEMA) == [(4, 3, 1, None), (3, 0, 2, "d"), (2, 0, 3, "c")]
    assert kv_rows_of(merge_rows(kv, SCHEMA, drop_deletes=True), SCHEMA) == [(3, 0, 2, "d"), (2, 0, 3, "c")]
    empty = kv_table(SCHEMA, [])
    assert merge_rows(empty, SCHEMA) is empty


def test_a_null_key_is_refused() -> None:
    kv = kv_table(SCHEMA, [(1, "a"), (2, "b")]).set_column(2, "k", pa.array([None, 1], pa.int32()))
    with pytest.raises(InvalidInputError, match="null"):
        merge_rows(kv, SCHEMA)
