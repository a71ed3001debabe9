"""Base64 and decimals in bytes: equal to Python's, for every length and sign."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.landing.cdc.encodings import decimals_of, decode_base64


@given(st.lists(st.none() | st.binary(max_size=20), max_size=8))
def test_base64_is_decoded(values: list[bytes | None]) -> None:
    text = pa.array([None if v is None else base64.b64encode(v).decode() for v in values], pa.string())
    assert decode_base64(text).to_pylist() == values


@pytest.mark.parametrize("text", ["abc", "ab=c", "====", "a===", "ab c", "ä===", "AA==AA=="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"padding|base64|ASCII"):
        decode_base64(pa.array(["AAAA", text]))


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=8), st.integers(0, 3))
def test_bytes_of_decimals_are_decoded(numbers: list[int | None], pad: int) -> None:
    """Also with more bytes than a number needs."""
    raw = [
        None if n is None else n.to_bytes(min(16, n.bit_length() // 8 + 1 + pad), "big", signed=True) for n in numbers
    ]
    found = decimals_of(pa.array(raw, pa.binary()), 0).to_pylist()
    assert [None if d is None else int(d) for d in found] == numbers


@pytest.mark.parametrize("raw", [b"", b"x" * 17])
def test_what_is_no_decimal_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"a byte or more|precision"):
        decimals_of(pa.array([raw]), 2)
