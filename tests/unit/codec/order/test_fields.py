from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.codec.columns import BytesColumn
from lakeidx.codec.order.normalized_key import WordField, order_fields
from lakeidx.codec.values import internal_to_arrow
from lakeidx.types import STRING_ROOTS, parse_type

# Values of each type in Paimon's order, as the format's rules state it.
IN_ORDER: dict[str, list[Any]] = {
    "BOOLEAN": [None, False, True],
    "TINYINT": [None, -128, -1, 0, 127],
    "BIGINT": [None, -(2**63), -1, 0, 1, 2**63 - 1],
    "DATE": [None, -1, 0, 1],
    "DOUBLE": [None, -math.inf, -1.5, -0.0, 0.0, 5e-324, math.inf, math.nan],
    "FLOAT": [None, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan],
    "STRING": [None, "", "\0", "\0\0", "A", "a", "a\0", "aa", "é", "\uffff", "\U0001f601"],
    "BYTES": [None, b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0"],
    "DECIMAL(38, 2)": [None, Decimal("-1e35"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.01"), Decimal("1e35")],
    "TIMESTAMP(9)": [None, (-5, 999_999), (-4, 0), (0, 0), (0, 1), (1, 0)],
}


@pytest.mark.parametrize("type_text", [t for t in IN_ORDER if t not in ("STRING", "BYTES")])
def test_words_have_the_order_of_the_values(type_text: str) -> None:
    t = parse_type(type_text)
    assert t.root not in STRING_ROOTS
    fields, n = order_fields([internal_to_arrow(IN_ORDER[type_text], t)], [t])
    assert n == len(IN_ORDER[type_text])
    words = []
    for f in fields:
        assert isinstance(f, WordField)
        assert int(f.values.max()).bit_length() <= f.bits
        words.append(f.values.tolist())
    keys = list(zip(*words, strict=True))
    assert all(a < b for a, b in pairwise(keys))


def test_only_nullable_fields_have_a_bit_for_null() -> None:
    with_null, without = pa.array([1, None]), pa.array([1, 2])
    nullable, required = parse_type("BIGINT"), parse_type("BIGINT NOT NULL")
    assert [len(order_fields([c], [nullable])[0]) for c in (with_null, without)] == [2, 1]
    assert [len(order_fields([without], [t], null_bits_by_type=True)[0]) for t in (nullable, required)] == [2, 1]


def test_null_text_is_empty_after_its_null_bit() -> None:
    (mark, text), _ = order_fields([pa.array(["a", None])], [parse_type("STRING")])
    assert isinstance(mark, WordField)
    assert isinstance(text, BytesColumn)
    assert mark.values.tolist() == [1, 0]
    assert text.lengths.tolist() == [1, 0]
