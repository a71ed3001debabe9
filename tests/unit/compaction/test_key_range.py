"""Rows of a key range: each row by its own key, whatever the types of the key and the order of the rows."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.compaction.key_range import KeyRange
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.predicate import evaluate
from lakeidx.table.intervals import key_order
from lakeidx.types import parse_type, to_arrow

TEXT = st.text(st.characters(codec="utf-8", max_codepoint=0x2FF), max_size=3)
KINDS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "numbers": ("BIGINT NOT NULL", st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)),
    "texts": ("STRING NOT NULL", TEXT),
    "floats": ("DOUBLE NOT NULL", st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, math.nan])),
}


def schema_of(kind: str) -> TableSchema:
    fields = [{"name": "k", "type": KINDS[kind][0]}, {"name": "n", "type": "INT NOT NULL"}]
    return new_schema({"fields": fields, "primaryKeys": ["k", "n"], "options": {"bucket": "1"}})


def encoded(key: tuple[Any, int], kind: str) -> bytes:
    return with_arity(encode_row(list(key), [parse_type(KINDS[kind][0]), parse_type("INT NOT NULL")]), 2)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_ranges_share_out_the_rows(kind: str, data: st.DataObject) -> None:
    schema = schema_of(kind)
    keys = st.tuples(KINDS[kind][1], st.integers(0, 2))
    rows = data.draw(st.lists(keys, max_size=12))
    types = [schema.field(n).type for n in ("k", "n")]

    def order(key: tuple[Any, int]) -> tuple[Any, ...]:
        return tuple(key_order(v, t) for v, t in zip(key, types, strict=True))

    cuts = sorted(data.draw(st.lists(keys, max_size=3)), key=order)
    table = pa.table(
        {"k": pa.array([k for k, _ in rows], to_arrow(types[0])), "n": pa.array([n for _, n in rows], pa.int32())}
    )
    for low, high in pairwise([None, *cuts, None]):
        keep = KeyRange(low and encoded(low, kind), high and encoded(high, kind))
        expected = [
            r for r in rows if (low is None or order(r) >= order(low)) and (high is None or order(r) < order(high))
        ]
        halves = [table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)]
        found = [tuple(r.values()) for part in keep.inside(halves, schema) for r in part.to_pylist()]
        assert list(map(repr, found)) == list(map(repr, expected))
        condition = keep.condition(schema)
        assert (condition is None) == (kind == "floats" or (low is None and high is None))
        if condition is not None:
            assert all(evaluate(condition.predicate, part).to_numpy().all() for part in keep.inside([table], schema))
