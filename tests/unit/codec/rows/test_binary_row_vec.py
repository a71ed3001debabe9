from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import InvalidInputError
from lakeidx.types import DataType, parse_type
from tests.unit.codec.strategies import LAYOUTS, columns_of, laid_out, tables


@pytest.mark.slow
@given(tables(max_columns=6), st.lists(st.sampled_from(LAYOUTS), min_size=6, max_size=6))
@settings(deadline=None, max_examples=300)
def test_equals_the_scalar_codec(table: tuple[list[DataType], list[list[Any]]], layouts: list[str]) -> None:
    types, rows = table
    columns = [laid_out(c, t, x) for c, t, x in zip(columns_of(types, rows), types, layouts, strict=False)]
    expected = [encode_row(row, types) for row in rows]
    assert encode_rows(columns, types).to_list() == expected
    assert hash_columns(columns, types).tolist() == [hash_words(row) for row in expected]


def test_rows_of_many_columns_have_several_words_of_null_bits() -> None:
    """Null bits in the second and third header word."""
    types = [parse_type("INT"), parse_type("STRING"), parse_type("TIMESTAMP(9)")] * 41
    rows: list[list[Any]] = [[None if i % k == 0 else v for i, v in enumerate([1, "long enough text", (5, 7)] * 41)]
                             for k in (1, 2, 3, 7, 60, 1000)]  # fmt: skip
    columns = columns_of(types, rows)
    expected = [encode_row(row, types) for row in rows]
    assert encode_rows(columns, types).to_list() == expected
    assert hash_columns(columns, types).tolist() == [hash_words(row) for row in expected]


def test_more_rows_than_one_block() -> None:
    """Rows are hashed in blocks: the seams, and columns whose chunks lie across them."""
    n = 100_001
    rng = np.random.default_rng(7)
    texts = np.array(["", "a", "7 bytes", "8 bytes.", "sixteen bytes...", "twenty-three bytes long"])
    text = pa.array(texts[rng.integers(0, len(texts), n)], mask=rng.random(n) < 0.1)
    number = pa.array(rng.integers(-(2**63), 2**63 - 1, n), mask=rng.random(n) < 0.1)
    columns = [pa.chunked_array([text.slice(0, 32_700), text.slice(32_700)]), number]
    types = [parse_type("STRING"), parse_type("BIGINT")]
    rows = encode_rows(columns, types)
    hashes = hash_columns(columns, types)
    for i in [*range(0, n, 97), 32_767, 32_768, 65_535, 65_536, n - 1]:
        assert rows[i] == encode_row([text[i].as_py(), number[i].as_py()], types)
        assert hashes[i] == hash_words(rows[i])


def test_nan_keeps_its_bits_in_a_row() -> None:
    bits = np.array([0x7FC12345, 0xFFC00001], np.uint32)
    column = pa.Array.from_buffers(pa.float32(), 2, [None, pa.py_buffer(bits)])
    # Released Java: the second slot of the row "NaN in a row keeps its bits" in test_binary_row.
    assert encode_rows([column], [parse_type("FLOAT")])[0].hex() == "0000000000000000" + "4523c17f00000000"
    assert encode_rows([column], [parse_type("FLOAT")])[1].hex() == "0000000000000000" + "0100c0ff00000000"


def test_rows_without_columns_are_their_header() -> None:
    assert encode_rows([], [], 2).to_list() == [bytes(8)] * 2
    assert hash_columns([], [], 2).tolist() == [-1670924195] * 2
    assert len(encode_rows([], [])) == len(hash_columns([], [])) == 0


@pytest.mark.parametrize("type_text", ["INT", "STRING", "DECIMAL(38, 0)", "TIMESTAMP(6)", "BOOLEAN"])
def test_columns_without_rows_give_no_rows(type_text: str) -> None:
    t = parse_type(type_text)
    column = columns_of([t], [])[0]
    for empty in (column, pa.chunked_array([], column.type), pa.chunked_array([column, column])):
        assert encode_rows([empty], [t]).to_list() == []
        assert hash_columns([empty], [t]).tolist() == []


@pytest.mark.parametrize(
    ("column", "type_text"),
    [
        (pa.array([2**31]), "INT"),
        (pa.array(["x"]), "INT"),
        (pa.array([1]), "STRING"),
        (pa.array(["1"]), "INT"),
        (pa.array(["1"]).dictionary_encode(), "INT"),
        (pa.array([1_001], pa.timestamp("us")), "TIMESTAMP(3)"),
        (pa.array([[1]]), "INT"),
        (pa.array([1]), "VARIANT"),
    ],
)
def test_columns_of_another_type(column: pa.Array, type_text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not"):
        hash_columns([column], [parse_type(type_text)])


def test_columns_that_do_not_belong_together() -> None:
    with pytest.raises(InvalidInputError, match="unequal length"):
        encode_rows([pa.array([1]), pa.array([1, 2])], [parse_type("BIGINT")] * 2)
    with pytest.raises(InvalidInputError, match="1 columns for 2 types"):
        encode_rows([pa.array([1])], [parse_type("BIGINT")] * 2)
    with pytest.raises(InvalidInputError, match="unequal length"):
        encode_rows([pa.array([1])], [parse_type("BIGINT")], 2)


def test_what_casts_without_loss_is_taken() -> None:
    narrow = hash_columns([pa.array([1, 2], pa.int8())], [parse_type("BIGINT")])
    assert narrow.tolist() == hash_columns([pa.array([1, 2])], [parse_type("BIGINT")]).tolist()
    nothing = hash_columns([pa.nulls(2)], [parse_type("STRING")])
    assert nothing.tolist() == hash_columns([pa.array([None, None], pa.string())], [parse_type("STRING")]).tolist()
    fixed = hash_columns([pa.array([b"abc"], pa.binary(3))], [parse_type("BINARY(3)")])
    assert fixed.tolist() == hash_columns([pa.array([b"abc"])], [parse_type("BINARY(3)")]).tolist()
