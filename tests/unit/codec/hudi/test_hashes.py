"""The kernels against their scalar twins; `tests/golden_tests/test_hudi.py` has known values of all hashes."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.codec.hudi.hashes import java_order, xxh32_many
from lakeidx.codec.rows.rowbytes import RowBytes
from tests.kit.scalar_twins import java_order_key, xxh32

TEXT = st.text(max_size=40)
TEXTS = st.lists(TEXT, max_size=20)
# Characters at which Java's order and the order of UTF-8 bytes part.
TRICKY = st.text(alphabet="a\u07ff\u0800\ud7ff\ue000\uefff\uf000\uffff\U00010000\U0003ffff\U0010ffff", max_size=6)


def _rows(texts: list[str]) -> RowBytes:
    return RowBytes.from_list([t.encode() for t in texts])


@settings(deadline=None)
@given(TEXTS)
@example(["x" * n for n in range(70)])
def test_a_column_has_the_xxh32_of_each_key(texts: list[str]) -> None:
    assert xxh32_many(_rows(texts)).tolist() == [xxh32(t) for t in texts]


@settings(deadline=None)
@given(st.lists(TRICKY, max_size=12))
def test_texts_sort_by_utf16_units_as_in_java(texts: list[str]) -> None:
    mapped = java_order(_rows(texts)).to_list()
    by_bytes = sorted(range(len(texts)), key=lambda i: mapped[i])
    by_units = sorted(range(len(texts)), key=lambda i: java_order_key(texts[i]))
    assert [texts[i] for i in by_bytes] == [texts[i] for i in by_units]


def test_java_order_leaves_plain_text_alone() -> None:
    rows = _rows(["b", "a", "日本"])
    assert java_order(rows) is rows
    assert java_order(RowBytes.empty()).to_list() == []
