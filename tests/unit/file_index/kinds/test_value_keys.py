"""Column values as numbers and key bytes, against struct and plain sorting."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import internal_to_arrow
from lakeidx.errors import CorruptFileError
from lakeidx.file_index.kinds.value_keys import (
    KeyCollector,
    encode_keys,
    float_bits,
    key_of,
    key_width,
    numbers_of,
    read_key,
)
from lakeidx.types import parse_type

CASES: dict[str, list[tuple[Any, str]]] = {
    "BOOLEAN": [(False, "00"), (True, "01")],
    "TINYINT": [(-128, "80"), (5, "05")],
    "SMALLINT": [(-2, "fffe"), (5, "0005")],
    "INT": [(-2, "fffffffe"), (7, "00000007")],
    "BIGINT": [(-(2**63), "8000000000000000"), (2**63 - 1, "7fffffffffffffff")],
    "DATE": [(-1, "ffffffff"), (19723, "00004d0b")],
    "TIME(3)": [(0, "00000000"), (86399999, "05265bff")],
    "FLOAT": [
        (-math.inf, "ff800000"),
        (-1.5, struct.pack(">f", -1.5).hex()),
        (-0.0, "80000000"),
        (0.0, "00000000"),
        (1.5, struct.pack(">f", 1.5).hex()),
        (math.nan, "7fc00000"),
    ],
    "DOUBLE": [
        (-1.5, struct.pack(">d", -1.5).hex()),
        (-0.0, "8000000000000000"),
        (0.0, "0" * 16),
        (math.nan, "7ff8000000000000"),
    ],
    "DECIMAL(18, 2)": [
        (Decimal("-99.99"), struct.pack(">q", -9999).hex()),
        (Decimal("0.01"), struct.pack(">q", 1).hex()),
    ],
    "TIMESTAMP(3)": [((-1, 0), "f" * 16), ((5, 0), struct.pack(">q", 5).hex())],
    "TIMESTAMP(6)": [((-1, 999000), "f" * 16), ((5, 1000), struct.pack(">q", 5001).hex())],
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": [((-1, 999999), "f" * 16), ((5, 1999), struct.pack(">q", 5001).hex())],
    "STRING": [("", "00000000"), ("a", "0000000161"), ("é", "00000002c3a9")],
    "CHAR(4)": [("ab", "000000026162")],
}


@pytest.mark.parametrize("type_text", CASES)
def test_keys_are_sorted_and_have_their_bytes(type_text: str) -> None:
    t = parse_type(type_text)
    values = [v for v, _ in CASES[type_text]]
    shuffled = [*reversed(values), None, *values]
    collector = KeyCollector(t)
    collector.add(internal_to_arrow(shuffled, t))
    found = collector.distinct()
    assert found.codes.tolist() == [*reversed(range(len(values))), -1, *range(len(values))]
    encoded = encode_keys(found.keys, t)
    assert [b.hex() for b in encoded] == [h for _, h in CASES[type_text]]
    keys = found.keys.to_list() if isinstance(found.keys, RowBytes) else found.keys.tolist()
    assert keys == [key_of(v, t) for v in values] == [read_key(Cursor(b), t) for b in encoded]
    width = key_width(t)
    assert width is None or all(len(b) == width for b in encoded)


@given(st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=20))
def test_floats_order_as_java_compares_them(values: list[float | None]) -> None:
    t = parse_type("FLOAT")
    numbers = numbers_of(pa.array(values, pa.float32()), t)
    present = [v for v in values if v is not None]
    keys = [int(k) for k, v in zip(numbers.values, values, strict=True) if v is not None]
    assert keys == [key_of(v, t) for v in present]
    order = sorted(present, key=lambda v: (math.isnan(v), v if not math.isnan(v) else 0.0, math.copysign(1.0, v)))
    assert [repr(v) for v, _ in sorted(zip(present, keys, strict=True), key=lambda p: p[1])] == [repr(v) for v in order]
    bits = float_bits(np.array(keys, np.int64), t)
    assert bits.astype(np.int32).view(np.float32).tolist() == pytest.approx(present, nan_ok=True)


@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=8), max_size=4), st.data())
def test_strings_from_any_form_of_column(batches: list[list[str | None]], data: st.DataObject) -> None:
    t = parse_type("STRING")
    collector = KeyCollector(t)
    for batch in batches:
        column: Any = pa.array(batch, pa.string())
        form = data.draw(st.sampled_from(["plain", "dictionary", "odd dictionary", "sliced", "chunked", "large"]))
        if form == "dictionary":
            column = column.dictionary_encode()
        elif form == "odd dictionary":  # a value twice, and one that no row has
            words = ["unused", *[w for w in batch if w is not None], *[w for w in batch if w is not None]]
            indices = [None if w is None else len(words) - 1 - words[::-1].index(w) for w in batch]
            column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(words, pa.string()))
        elif form == "sliced":
            column = pa.concat_arrays([pa.array(["before"]), column]).slice(1)
        elif form == "chunked":
            column = pa.chunked_array([column.slice(0, 2), column.slice(2)], pa.string())
        elif form == "large":
            column = column.cast(pa.large_string())
        collector.add(column)
    rows = [w for batch in batches for w in batch]
    words = sorted({w.encode() for w in rows if w is not None})  # type: ignore[misc]
    found = collector.distinct()
    assert isinstance(found.keys, RowBytes) or not rows
    assert list(found.keys) == words
    assert found.codes.tolist() == [-1 if w is None else words.index(w.encode()) for w in rows]  # type: ignore[arg-type]


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.sampled_from([0, 1, 5, -7, 10**12, -(2**63), 2**63 - 1])), max_size=6),
        max_size=4,
    )
)
def test_numbers_narrow_and_wide(batches: list[list[int | None]]) -> None:
    collector = KeyCollector(parse_type("BIGINT"))
    for batch in batches:
        collector.add(pa.array(batch, pa.int64()))
    rows = [v for batch in batches for v in batch]
    keys = sorted({v for v in rows if v is not None})
    found = collector.distinct()
    assert list(found.keys) == keys
    assert found.codes.tolist() == [-1 if v is None else keys.index(v) for v in rows]


def test_damaged_keys_are_errors() -> None:
    with pytest.raises(CorruptFileError, match="neither 0 nor 1"):
        read_key(Cursor(b"\x02"), parse_type("BOOLEAN"))
    with pytest.raises(CorruptFileError, match="a key of -1 bytes"):
        read_key(Cursor(b"\xff\xff\xff\xff"), parse_type("STRING"))
    with pytest.raises(CorruptFileError):
        read_key(Cursor(b"\x00\x00\x00"), parse_type("INT"))
