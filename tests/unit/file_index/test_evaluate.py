"""Evaluation of containers: joins, several indexes of a column, laziness, listeners, foreign and outdated indexes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.errors import CorruptFileError
from lakeidx.file_index.container import FileIndexContainer, IndexAt, encode_index_container
from lakeidx.file_index.evaluate import both_zeros, evaluate_container
from lakeidx.file_index.kinds.types import FileIndexResult, Verdict
from lakeidx.file_index.registry import file_index_of
from lakeidx.predicate import FALSE, TRUE, Leaf, Predicate, col
from lakeidx.types import Field, parse_type

A = pa.array([1, 2, 3, None, 2], pa.int32())
B = pa.array(["x", "y", "x", "z", None])
FIELDS = [Field(0, "a", parse_type("INT")), Field(1, "b", parse_type("STRING")), Field(2, "c", parse_type("INT"))]


def payload(index: str, type_text: str, column: pa.Array, **options: str) -> bytes:
    writer = file_index_of(index).create_writer(parse_type(type_text), options)
    writer.add(column)
    made = writer.finish()
    assert made is not None
    return made


CONTAINER = encode_index_container(
    {
        "a": {
            "bloom-filter": payload("bloom-filter", "INT", A, items="10"),
            "range-bitmap": payload("range-bitmap", "INT", A),
        },
        "b": {"bitmap": payload("bitmap", "STRING", B)},
    }
)
a, b, c = col("a"), col("b"), col("c")


@pytest.mark.parametrize(
    ("pred", "expected"),
    [
        (a == 2, [1, 4]),
        (a == 99, "SKIP"),
        ((a == 2) & (b == "y"), [1]),
        ((a == 2) & (b == "x"), "SKIP"),
        ((a == 1) | (b == "z"), [0, 3]),
        ((a == 1) | (c == 5), "REMAIN"),
        ((a == 1) & (c == 5), [0]),
        ((a == 99) | (b == "q"), "SKIP"),
        ((a == 99) | (b == "y"), [1]),
        ((a == 99) & (c == 5), "SKIP"),
        (a > 1, [1, 2, 4]),
        (a >= -5, [0, 1, 2, 4]),
        (a.is_null() | a.is_not_null(), "REMAIN"),
        (b.startswith("x"), "REMAIN"),
        (b != "x", [1, 3, 4]),
        (c == 5, "REMAIN"),
        (a == None, "SKIP"),  # noqa: E711  # SQL's NULL
        (b.not_in(["x", None]), "SKIP"),
        (TRUE, "REMAIN"),
        (FALSE, "SKIP"),
    ],
)
def test_a_predicate_is_evaluated_by_all_indexes(pred: Predicate, expected: str | list[int]) -> None:
    got = evaluate_container(CONTAINER, pred, FIELDS, rows=5)
    assert (got.name if isinstance(got, Verdict) else list(got)) == expected


def test_all_rows_need_the_row_count_to_be_seen() -> None:
    pred = (a > 0) | a.is_null()
    assert evaluate_container(CONTAINER, pred, FIELDS, rows=5) is Verdict.REMAIN
    assert list(evaluate_container(CONTAINER, pred, FIELDS)) == [0, 1, 2, 3, 4]  # type: ignore[arg-type]


def test_only_the_columns_named_are_read() -> None:
    big = encode_index_container({"a": {"range-bitmap": payload("range-bitmap", "INT", A)}, "pad": {"bitmap": bytes(1 << 17)},
                            "b": {"bitmap": payload("bitmap", "STRING", B)}})  # fmt: skip
    reads: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        reads.append((offset, length))
        return big[offset : offset + length]

    container = FileIndexContainer(read, len(big))
    assert list(evaluate_container(container, b == "y", FIELDS)) == [1]  # type: ignore[arg-type]
    assert len(reads) == 2
    assert sum(n for _, n in reads) < (1 << 16) + 1000


def test_a_flipped_byte_matters_only_where_it_is_read() -> None:
    broken = CONTAINER[:-1] + bytes([CONTAINER[-1] ^ 1])  # in the index of b
    assert list(evaluate_container(broken, a == 2, FIELDS)) == [1, 4]  # type: ignore[arg-type]
    with pytest.raises(CorruptFileError, match="bitmap index of 'b'"):
        evaluate_container(broken, b == "x", FIELDS, path="f.index")


def test_index_over_another_number_of_rows() -> None:
    with pytest.raises(CorruptFileError, match="for a file of 6"):
        evaluate_container(CONTAINER, a > 2, FIELDS, rows=6)


def test_listener_hears_every_index_asked() -> None:
    heard: list[tuple[str, str, bool]] = []

    def listen(entry: IndexAt, leaf: Leaf, said: FileIndexResult) -> None:
        heard.append((entry.type, leaf.column, said is Verdict.SKIP))

    evaluate_container(CONTAINER, (a == 2) & (b == "y"), FIELDS, listener=listen)
    assert heard == [("bloom-filter", "a", False), ("range-bitmap", "a", False), ("bitmap", "b", False)]
    heard.clear()
    evaluate_container(CONTAINER, (a == 99) & (b == "y"), FIELDS, listener=listen)
    assert heard == [("bloom-filter", "a", True)]  # nothing after the verdict


def test_unknown_types_and_other_column_types_are_passed_over() -> None:
    strange = encode_index_container(
        {"a": {"from-the-future": b"??", "range-bitmap": payload("range-bitmap", "INT", A)}}
    )
    assert list(evaluate_container(strange, a == 1, FIELDS)) == [0]  # type: ignore[arg-type]
    array = [Field(0, "a", parse_type({"type": "ARRAY", "element": "INT"}))]
    assert evaluate_container(CONTAINER, a.is_null(), array) is Verdict.REMAIN


def test_both_zeros_of_floats() -> None:
    t = parse_type("DOUBLE")
    x = pa.array([0.0, -0.0, 1.0, -1.0, None])
    fields = [Field(0, "x", t)]
    for index in ("bitmap", "range-bitmap", "bloom-filter"):
        container = encode_index_container({"x": {index: payload(index, "DOUBLE", x)}})
        for zero in (0.0, -0.0):
            for pred, rows in ((col("x") == zero, {0, 1}), (col("x").is_in([zero, 1.0]), {0, 1, 2}), (col("x") < zero, {3}),
                               (col("x") <= zero, {0, 1, 3}), (col("x") > zero, {2}), (col("x") >= zero, {0, 1, 2}),
                               (col("x") != zero, {2, 3}), (col("x").not_in([zero]), {2, 3})):  # fmt: skip
                got = evaluate_container(container, pred, fields, rows=5)
                allowed = set(range(5)) if got is Verdict.REMAIN else set() if got is Verdict.SKIP else set(got)
                assert allowed >= rows
                if index == "range-bitmap":
                    assert allowed == rows
    leaf = col("a") == 0
    assert isinstance(leaf, Leaf)
    assert both_zeros(leaf, parse_type("INT")) is leaf
