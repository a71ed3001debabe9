"""Evaluation over Arrow tables: forms of columns and bad input. Its logic is tested against a model in
tests/property.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.predicate import FALSE, TRUE, Predicate, col, evaluate, filter_table

a = col("a")
WORDS = pa.array(["x", None, "yx", "x", "z"])


@pytest.mark.parametrize(
    "pred", [a == "x", a != "x", a.is_in(["z", "x"]), a.not_in(["x"]), a.is_null(), a.is_not_null(), a.endswith("x")]
)
def test_dictionary_columns_give_the_same_mask(pred: Predicate) -> None:
    plain = pa.table({"a": WORDS})
    other = pa.array(["q", "x", None])
    encoded = pa.table({"a": pa.chunked_array([WORDS.dictionary_encode(), other.dictionary_encode()])})
    expected = evaluate(pred, pa.concat_tables([plain, pa.table({"a": other})]))
    assert evaluate(pred, encoded).to_pylist() == expected.to_pylist()


def test_record_batches_empty_tables_and_constants() -> None:
    batch = pa.record_batch({"a": WORDS})
    assert evaluate(a == "x", batch).to_pylist() == [True, False, False, True, False]
    table = pa.table({"a": WORDS})
    assert evaluate(TRUE, table).to_pylist() == [True] * 5
    assert evaluate(FALSE, table).to_pylist() == [False] * 5
    assert evaluate((a == "x") & TRUE, table.slice(0, 0)).to_pylist() == []
    assert filter_table(FALSE, table).num_rows == 0
    assert filter_table(TRUE, table) is table
    assert filter_table(a != "x", table)["a"].to_pylist() == ["yx", "z"]


def test_missing_column_and_literal_of_another_type() -> None:
    table = pa.table({"a": WORDS, "ab": WORDS})
    with pytest.raises(InvalidInputError, match="did you mean 'ab'"):
        evaluate(col("abc") == "x", table)
    with pytest.raises(InvalidInputError, match="bind the predicate"):
        evaluate(a == 5, table)
    stamps = pa.table({"t": pa.array([1], pa.timestamp("ms"))})
    with pytest.raises(InvalidInputError, match="more digits"):
        evaluate(col("t") == (1, 500), stamps)


@pytest.mark.slow
def test_a_thousand_alternatives_do_not_nest() -> None:
    pred = FALSE
    for n in range(1000):
        pred = pred | (col("n") == n)  # type: ignore[assignment]
    assert evaluate(pred, pa.table({"n": pa.array([999, 1000])})).to_pylist() == [True, False]
