"""Of a key's records above level 0 only that of the lowest level is merged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.data.merge.levels import LEVEL, newest_above_0, with_level
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from tests.kit.small_tables import table_spec


def schema_of(options: dict[str, str]) -> TableSchema:
    return new_schema(table_spec("k INT NOT NULL, v BIGINT", ["k"], options={"bucket": "1", **options}))


SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


@given(st.lists(st.lists(st.integers(-1, 5), min_size=1, max_size=6), min_size=1, max_size=8))
def test_rows_that_stay(groups: list[list[int]]) -> None:
    levels = np.array([x for g in groups for x in g], np.int8)
    starts = np.cumsum([0, *[len(g) for g in groups]])[:-1].astype(np.int64)
    rows, firsts = newest_above_0(np.arange(len(levels)), starts, levels)
    at, want, want_starts = 0, [], []  # type: ignore[var-annotated]
    for g in groups:
        lowest = min((x for x in g if x > 0), default=None)
        want_starts.append(len(want))
        want += [at + i for i, x in enumerate(g) if x <= 0 or x == lowest]
        at += len(g)
    assert rows.tolist() == want
    assert firsts.tolist() == want_starts


def run(level: int, rows: dict[int, int], sequence: int, schema: TableSchema) -> list[pa.Table]:
    n = len(rows)
    columns = {
        "_SEQUENCE_NUMBER": pa.array(range(sequence, sequence + n), pa.int64()),
        "_VALUE_KIND": pa.array([0] * n, pa.int8()),
        "k": pa.array(list(rows), pa.int32()),
        "v": pa.array(list(rows.values()), pa.int64()),
    }
    batches = [pa.table(columns)]
    return list(with_level(batches, level)) if schema.table_options.merges_by_level else batches


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({**SUM, "force-lookup": "true"}, {1: 100, 2: 20 + 1, 3: 3 + 1, 4: 4}),
        (SUM, {1: 100 + 1, 2: 20 + 2 + 1, 3: 3 + 1, 4: 4}),
    ],
)
def test_a_sum_takes_what_lies_above_as_done(options: dict[str, str], want: dict[int, int]) -> None:
    schema = schema_of(options)
    runs = [
        run(5, {1: 1, 2: 2, 3: 3, 4: 4}, 0, schema),
        run(4, {1: 100, 2: 20}, 10, schema),
        run(0, {2: 1, 3: 1}, 20, schema),
    ]
    merged = pa.concat_tables(merge_sorted_runs(runs, schema))
    assert LEVEL not in merged.column_names
    assert dict(zip(merged.column("k").to_pylist(), merged.column("v").to_pylist(), strict=True)) == want


@pytest.mark.parametrize("name", ["changelog-producer", "deletion-vectors.enabled", "force-lookup"])
def test_tables_it_matters_for(name: str) -> None:
    value = "lookup" if name == "changelog-producer" else "true"

    assert schema_of({name: value, **SUM}).table_options.merges_by_level
    assert schema_of({name: value, "merge-engine": "partial-update"}).table_options.merges_by_level
    assert schema_of({name: value, "sequence.field": "v"}).table_options.merges_by_level
    assert not schema_of({name: value}).table_options.merges_by_level
    assert not schema_of(SUM).table_options.merges_by_level
