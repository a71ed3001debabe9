"""Merging by age gives what merging by sequence numbers gives, and what a dictionary has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.jit import frozen
from lakeidx.data.merge.by_age import goes_by_age, merge_by_age
from lakeidx.data.merge.kernels import merge_newer
from lakeidx.data.merge.key_streams import concat_keys, key_buffers, merge_to_last
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.schema_file import TableSchema
from tests.unit.data.merge.test_key_streams import KINDS, PART, keys_of
from tests.unit.data.tables import kv_table, table_schema

KEYS = {
    "one word": {"k": "BIGINT NOT NULL"},
    "two words": {"k": "BIGINT NOT NULL", "l": "INT NOT NULL"},
    "three words": {"k": "BIGINT NOT NULL", "l": "BIGINT NOT NULL", "m": "INT NOT NULL"},
    "text": {"k": "STRING NOT NULL"},
}


def schema_of(kind: str) -> TableSchema:
    return table_schema({**KEYS[kind], "v": "INT"}, keys=list(KEYS[kind]))


def key_of(number: int, kind: str) -> tuple[object, ...]:
    """Keys in the order of the numbers; many share their first word."""
    if kind == "text":
        return (f"{number // 100:09d} {number:06d}",)
    return {1: (number,), 2: (number // 5, number % 5), 3: (number // 9, number // 3 % 3, number % 3)}[len(KEYS[kind])]


@pytest.mark.parametrize("kind", KEYS)
@settings(deadline=None, max_examples=60)
@given(numbers=st.lists(PART.map(sorted), min_size=1, max_size=4), size=st.sampled_from([1, 7, 100, 1000]))
def test_by_age_as_by_sequence(kind: str, numbers: list[list[int]], size: int) -> None:
    schema, at, runs = schema_of(kind), 0, []
    model: dict[int, int] = {}
    for run in numbers:
        kv = kv_table(schema, [(*key_of(n, kind), at + i) for i, n in enumerate(run)], first_sequence=at)
        model |= dict(zip(run, range(at, at + len(run)), strict=True))
        at += len(run)
        runs.append([kv.slice(i, size) for i in range(0, len(run), size)])
    names = [*KEYS[kind], "v"]
    tables = list(merge_by_age([[t.select(names) for t in run] for run in runs], schema, names))
    assert all(t.num_rows for t in tables)
    if not model:
        assert not tables
        return
    found = pa.concat_tables(tables)
    assert found.column("v").to_pylist() == [model[n] for n in sorted(model)]
    assert found.equals(pa.concat_tables(merge_sorted_runs(runs, schema, columns=names)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(parts=st.lists(PART.map(sorted).filter(bool), min_size=2, max_size=4), data=st.data())
def test_the_newer_row_wherever_the_longer_stream_is(kind: str, parts: list[list[int]], data: st.DataObject) -> None:
    """The kernel beside its twin, which merges by sequence numbers; any part may be the one that is walked."""
    keys, lengths = [keys_of(part, kind) for part in parts], [len(part) for part in parts]
    numbers = np.arange(sum(lengths))
    kinds = np.zeros(len(numbers), np.int8)
    wanted = merge_to_last(lengths, key_buffers(concat_keys(keys)), numbers, kinds).tolist()
    walked = data.draw(st.integers(0, len(parts) - 1))
    others = [k for i, k in enumerate(keys) if i != walked]
    few, counts = key_buffers(concat_keys(others)), [len(k) for k in others]
    rows = merge_to_last(counts, few, numbers[: sum(counts)], kinds[: sum(counts)])
    words, texts, offsets, exact = key_buffers(keys[walked])
    args = (words, texts, offsets, *few[:3], exact, frozen(rows), sum(lengths[:walked]))
    out = np.empty(len(numbers), np.int64)
    for kernel in (merge_newer, getattr(merge_newer, "py_func", merge_newer)):
        assert out[: kernel(*args, out)].tolist() == wanted


def test_only_some_columns_are_given_back_and_a_run_alone_is_not_copied() -> None:
    schema = schema_of("one word")
    old, new = (kv_table(schema, [(k, k) for k in keys]) for keys in ([1, 2, 5], [2, 3]))
    found = pa.concat_tables(merge_by_age([[old], [new]], schema, ["v"]))
    assert found.column_names == ["v"]
    assert found.column("v").to_pylist() == [1, 2, 3, 5]
    (alone,) = merge_by_age([[old]], schema, ["v"])
    assert alone.column("v").chunk(0).buffers()[1].address == old.column("v").chunk(0).buffers()[1].address


def test_a_run_out_of_order_is_refused() -> None:
    schema = schema_of("one word")
    rows = kv_table(schema, [(2, 0), (1, 0)])
    with pytest.raises(CorruptFileError, match="sorted run 0 is not in key order"):
        list(merge_by_age([[rows]], schema, ["v"]))


@pytest.mark.parametrize(
    ("options", "by_age"),
    [
        ({}, True),
        ({"ignore-delete": "true"}, True),
        ({"sequence.field": "v"}, False),
        ({"merge-engine": "partial-update"}, False),
        ({"merge-engine": "first-row"}, False),
    ],
)
def test_which_merges_go_by_age(options: dict[str, str], by_age: bool) -> None:
    assert goes_by_age(table_schema({"k": "INT NOT NULL", "v": "INT"}, options=options)) is by_age
