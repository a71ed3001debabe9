from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from lakeidx.codec.columns import BytesColumn
from lakeidx.codec.order.normalized_key import WordField, order_fields
from lakeidx.codec.values import internal_to_arrow
from lakeidx.types import STRING_ROOTS, parse_type
from tests.unit.codec.order.test_compare import IN_ORDER


@pytest.mark.parametrize("type_text", [t for t in IN_ORDER if t not in ("STRING", "BYTES")])
def test_words_have_the_order_of_the_values(type_text: str) -> None:
    t = parse_type(type_text)
    assert t.root not in STRING_ROOTS
    fields, n = order_fields([internal_to_arrow(IN_ORDER[type_text], t)], [t])  # type: ignore[arg-type]
    assert n == len(IN_ORDER[type_text])  # type: ignore[arg-type]
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
