"""Merging sorted runs equals a plain dictionary, whatever the batches, runs and key types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.data.merge.merge_runs import merge_rows, merge_sorted_runs
from lakeidx.format.schema.schema_file import TableSchema
from tests.kit.scalar_twins import compare_rows
from tests.unit.codec.strategies import not_null
from tests.unit.data.tables import kv_rows_of, kv_table, table_schema

KEYS = {
    "int": {"k": "INT NOT NULL"},
    "string": {"k": "STRING NOT NULL"},
    "double": {"k": "DOUBLE NOT NULL"},
    "wide": {"k": "DECIMAL(30, 3) NOT NULL"},
    "mixed": {"k": "BIGINT NOT NULL", "k2": "BYTES NOT NULL", "k3": "BOOLEAN NOT NULL", "k4": "TIMESTAMP(6) NOT NULL"},
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "ignore-delete": {"ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_value",
    },
    "sequence": {"sequence.field": "v"},
    "sequence-desc": {"sequence.field": "v,w", "sequence.field.sort-order": "descending"},
}
Row = tuple[Any, ...]


def schema_of(keys: str, engine: str) -> TableSchema:
    columns = {**KEYS[keys], "v": "INT", "w": "STRING"}
    return table_schema(columns, keys=list(KEYS[keys]), options=ENGINES[engine])


def draw_runs(data: st.DataObject, schema: TableSchema) -> list[pa.Table]:
    """Some runs: each key at most once in a run, sequence numbers rising from run to run."""
    width = len(schema.primary_keys)
    pool = data.draw(
        st.lists(st.tuples(*(not_null(t) for t in schema.key_types)), min_size=1, max_size=8, unique_by=repr),
        label="keys",
    )
    order = cmp_to_key(lambda a, b: compare_rows(a, b, schema.key_types))  # type: ignore[arg-type]
    # Keys that compare equal (NaNs of other bits) must not meet in one run.
    distinct: list[Row] = []
    for key in sorted(pool, key=order):
        if not distinct or compare_rows(distinct[-1], key, schema.key_types):
            distinct.append(key)
    runs, sequence = [], 0
    for _ in range(data.draw(st.integers(1, 5), label="runs")):
        chosen = sorted(data.draw(st.sets(st.integers(0, len(distinct) - 1))))
        rows = [
            (*distinct[i], data.draw(st.none() | st.integers(-3, 3)), data.draw(st.sampled_from([None, "x", "y"])))
            for i in chosen
        ]
        kinds = [
            data.draw(st.sampled_from([0, 2, 3] if schema.table_options.merge_engine != "aggregation" else [0, 2]))
            for _ in rows
        ]
        assert all(len(r) == width + 2 for r in rows)
        runs.append(kv_table(schema, rows, first_sequence=sequence, kinds=kinds))
        sequence += len(rows)
    return runs


def streamed(runs: Sequence[pa.Table], schema: TableSchema, batch: int, *, drop_deletes: bool) -> list[Row]:
    batches = [[r.slice(i, batch) for i in range(0, r.num_rows, batch)] for r in runs]
    tables = list(merge_sorted_runs([iter(b) for b in batches], schema, drop_deletes=drop_deletes))
    return [row for t in tables for row in kv_rows_of(t, schema)]


def newest_by_key(runs: Sequence[pa.Table], schema: TableSchema) -> list[Row]:
    """The dictionary model: the last row of each key, in key order."""
    width = len(schema.primary_keys)
    model: dict[str, Row] = {}
    for run in runs:
        for row in kv_rows_of(run, schema):
            model[repr(row[2 : 2 + width])] = row
    order = cmp_to_key(lambda a, b: compare_rows(a[2 : 2 + width], b[2 : 2 + width], schema.key_types))  # type: ignore[index]
    return sorted(model.values(), key=order)


@pytest.mark.parametrize("keys", KEYS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_deduplicate_is_a_dictionary(keys: str, data: st.DataObject) -> None:
    schema = schema_of(keys, "deduplicate")
    runs = draw_runs(data, schema)
    wanted = newest_by_key(runs, schema)
    batch = data.draw(st.integers(1, 4), label="batch")
    # The order in which runs are given means nothing: sequence numbers decide.
    shuffled = data.draw(st.permutations(runs), label="order")
    assert repr(streamed(shuffled, schema, batch, drop_deletes=False)) == repr(wanted)
    adds = [row for row in wanted if row[1] != 3]
    assert repr(streamed(shuffled, schema, batch, drop_deletes=True)) == repr(adds)


@pytest.mark.parametrize("engine", ENGINES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_tiny_batches_give_what_one_engine_call_gives(engine: str, data: st.DataObject) -> None:
    schema = schema_of("int", engine)
    runs = draw_runs(data, schema)
    wanted = kv_rows_of(merge_rows(pa.concat_tables(runs), schema), schema)
    for batch in (1, 2, 1000):
        assert streamed(runs, schema, batch, drop_deletes=False) == wanted
