"""Every file index over every type it takes, against plain filtering of the rows; and damage that must never hide a
row.

The model knows nothing of indexes: which rows are selected is asked of `evaluate`, whose own model is three-valued
logic in Python (`test_predicate_model`).
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakeidx.codec.values import internal_to_arrow
from lakeidx.errors import CorruptFileError
from lakeidx.file_index.container import encode_index_container
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.types import FileIndexer, FileIndexResult, Verdict
from lakeidx.file_index.registry import file_index_of
from lakeidx.predicate import Compare, In, IsNull, Leaf, Match, MatchKind, Op, Predicate, and_, between, evaluate, or_
from lakeidx.types import DataType, Field, parse_type

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-128, -1, 0, 5, 127],
    "SMALLINT": [-32768, 0, 7, 32767],
    "INT": [-(2**31), -1, 0, 1, 2, 3, 4, 1000, 2**31 - 1],
    "BIGINT": [-(2**63) + 1, -1, 0, 9, 2**63 - 1],
    "FLOAT": [-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, math.nan],
    "DOUBLE": [-math.inf, -1.5, -0.0, 0.0, 2.5, math.nan],
    "DECIMAL(13, 2)": [Decimal("-99999999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.25")],
    "STRING": ["", "a", "ab", "b", "é", "𐍈", "a long string that is longer than a stripe of the hash"],
    "BYTES": [b"", b"\x00", b"\xff", b"abc"],
    "DATE": [-1, 0, 19723],
    "TIME(3)": [0, 1, 86399999],
    "TIMESTAMP(3)": [(-1, 0), (0, 0), (5, 0)],
    "TIMESTAMP(6)": [(-1, 999000), (0, 0), (0, 1000)],
    "TIMESTAMP(9)": [(-1, 999999), (-1, 999998), (0, 0), (0, 1), (0, 1000)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [(-1, 999000), (0, 0), (7, 1000)],
}
OPTIONS: dict[str, list[dict[str, str]]] = {
    "bloom-filter": [{"items": "20"}, {"items": "3", "fpp": "0.5"}],
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "80 b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "0"}, {"chunk-size": "20 b"}],
}
REFUSED = {
    "bloom-filter": {"BOOLEAN", "DECIMAL(13, 2)"},
    "bitmap": {"DECIMAL(13, 2)", "BYTES"},
    "bsi": {"BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES"},
    "range-bitmap": {"BYTES", "TIMESTAMP(9)"},
}
CASES = [(index, t) for index in OPTIONS for t in VALUES if t not in REFUSED[index]]


def leaf_predicates(values: list[Any], text: bool) -> list[Predicate]:
    made: list[Predicate] = [IsNull("c"), IsNull("c", negated=True), In("c", ()), In("c", (), negated=True)]
    for value in values:
        made += [Compare("c", op, value) for op in Op]
        made += [In("c", (value, None)), In("c", (value, None), negated=True)]
    made += [In("c", tuple(values[:2])), In("c", tuple(values[1:]), negated=True), between("c", values[0], values[-1])]
    made += [Compare("c", op, None) for op in Op]
    if text:
        made += [Match("c", kind, "a", negated) for kind in MatchKind for negated in (False, True)]
    return made


def allowed(result: FileIndexResult, rows: int) -> set[int]:
    if isinstance(result, BitMap):
        assert len(result) > 0
        return set(result)
    return set(range(rows)) if result is Verdict.REMAIN else set()


def selected(pred: Predicate, table: pa.Table) -> set[int]:
    return set(np.flatnonzero(evaluate(pred, table).to_numpy()).tolist())


@pytest.mark.parametrize(("index", "type_text"), CASES)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_never_too_narrow_and_exact_where_promised(index: str, type_text: str, data: st.DataObject) -> None:
    t = parse_type(type_text)
    pool = VALUES[type_text]
    present = data.draw(
        st.lists(st.one_of(st.none(), st.sampled_from(pool[: data.draw(st.integers(1, len(pool)))])), max_size=30)
    )
    column = internal_to_arrow(present, t)
    writer = file_index_of(index).create_writer(t, data.draw(st.sampled_from(OPTIONS[index])))
    cut = data.draw(st.integers(0, len(present)))
    writer.add(column.slice(0, cut))
    writer.add(column.slice(cut))
    payload = writer.finish()
    assert payload is not None
    container = encode_index_container({"c": {index: payload}})
    table = pa.table({"c": column})
    exact = index in ("bsi", "range-bitmap", "bitmap") and type_text != "TIMESTAMP(9)"
    for pred in leaf_predicates(pool, type_text == "STRING"):
        got = evaluate_container(container, pred, [Field(0, "c", t)], rows=len(present))
        rows, wanted = allowed(got, len(present)), selected(pred, table)
        assert rows >= wanted, pred
        answers = not isinstance(pred, Match) and (index != "bitmap" or is_equality(pred))
        if exact and answers:
            nulls = {i for i, v in enumerate(present) if v is None}
            assert rows - wanted <= (nulls if index == "bitmap" else set()), pred


def is_equality(pred: Predicate) -> bool:
    return isinstance(pred, (In, IsNull)) or (isinstance(pred, Compare) and pred.op in (Op.EQ, Op.NE))


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_compound_predicates_over_several_columns(data: st.DataObject) -> None:
    names = {
        "a": ("bitmap", "INT"),
        "b": ("range-bitmap", "STRING"),
        "c": ("bsi", "BIGINT"),
        "d": ("bloom-filter", "DATE"),
    }
    count = data.draw(st.integers(0, 20))
    fields, columns, indexes = [], {}, {}
    for number, (name, (index, type_text)) in enumerate(names.items()):
        t = parse_type(type_text)
        values = data.draw(
            st.lists(st.one_of(st.none(), st.sampled_from(VALUES[type_text])), min_size=count, max_size=count)
        )
        columns[name] = internal_to_arrow(values, t)
        writer = file_index_of(index).create_writer(t, OPTIONS[index][0])
        writer.add(columns[name])
        indexes[name] = {index: writer.finish()}
        fields.append(Field(number, name, t))
    leaf = st.sampled_from(sorted(names)).flatmap(
        lambda n: st.builds(Compare, st.just(n), st.sampled_from(list(Op)), st.sampled_from(VALUES[names[n][1]]))
    )
    pred = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.lists(inner, min_size=2, max_size=3).map(and_), st.lists(inner, min_size=2, max_size=3).map(or_)
            ),
            max_leaves=6,
        )
    )
    table = pa.table(columns)
    got = evaluate_container(encode_index_container(indexes), pred, fields, rows=count)
    assert allowed(got, count) >= selected(pred, table)


DAMAGED = [
    ("bloom-filter", "INT"),
    ("bitmap", "INT"),
    ("bitmap", "STRING"),
    ("bsi", "INT"),
    ("range-bitmap", "INT"),
    ("range-bitmap", "STRING"),
]


SMALL: dict[str, list[Any]] = {"INT": [0, 3, -2], "STRING": ["", "ab", "é"]}


def sample(index: str, type_text: str, options: dict[str, str]) -> tuple[pa.Table, bytes]:
    t = parse_type(type_text)
    x, y, z = SMALL[type_text]
    column = internal_to_arrow([x, y, None, x, x, z, None, y], t)
    writer = file_index_of(index).create_writer(t, options)
    writer.add(column)
    payload = writer.finish()
    assert payload is not None
    return pa.table({"c": column}), payload


@pytest.mark.parametrize("options", [0, 1, 2])
@pytest.mark.parametrize(("index", "type_text"), DAMAGED)
def test_damage_of_java_payloads_gives_an_answer_or_an_error(index: str, type_text: str, options: int) -> None:
    """Without checksums nothing but CorruptFileError may come out; a shorter payload is always found, but for bloom
    filters.
    """
    if options >= len(OPTIONS[index]):
        return
    table, payload = sample(index, type_text, OPTIONS[index][options])
    t = parse_type(type_text)
    indexer = file_index_of(index)
    leaves = [p for p in leaf_predicates(SMALL[type_text], False) if isinstance(p, (Compare, In, IsNull))]
    for at in range(len(payload)):
        for broken in (payload[:at] + bytes([payload[at] ^ 0x41]) + payload[at + 1 :], payload[:at]):
            found = not is_readable(indexer, t, broken, table.num_rows, leaves)  # type: ignore[arg-type]
            if len(broken) < len(payload) and index != "bloom-filter":
                assert found


def is_readable(indexer: FileIndexer, t: DataType, payload: bytes, rows: int, leaves: list[Leaf]) -> bool:
    """False when CorruptFileError was raised by the reader or some question to it; other errors pass through."""
    try:
        reader = indexer.create_reader(t, payload, rows=rows, path="f.index")
        for leaf in leaves:
            reader.select(leaf)
    except CorruptFileError as error:
        if error.path != "f.index":
            raise
        return False
    return True
