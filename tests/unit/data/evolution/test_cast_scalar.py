"""Casts of one value; the whole matrix is compared with Java in the interop lane."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakeidx.data.cast import fit_decimal, parse_whole, scalar_cast, truncate_timestamp, wrap
from lakeidx.errors import UnsupportedError
from lakeidx.types import parse_type


@pytest.mark.parametrize(
    ("old", "new"),
    [("BYTES", "INT"), ("DATE", "INT"), ("BOOLEAN", "DATE"), ("DOUBLE", "BOOLEAN"), ("DATE", "VARCHAR(5)")],
)
def test_casts_that_paimon_does_not_have(old: str, new: str) -> None:
    with pytest.raises(UnsupportedError, match="no cast"):
        scalar_cast(parse_type(old), parse_type(new))


def test_numbers_wrap_parse_and_fit_as_in_java() -> None:
    assert wrap(300, 8) == 44
    assert wrap(-129, 8) == 127
    assert parse_whole("+12.9", 8) == 12
    with pytest.raises(ValueError, match="does not fit"):
        parse_whole("128", 8)
    assert fit_decimal(Decimal("0.25"), parse_type("DECIMAL(3, 1)")) == Decimal("0.3")
    assert fit_decimal(Decimal("-0.25"), parse_type("DECIMAL(3, 1)")) == Decimal("-0.3")
    assert fit_decimal(Decimal("99.96"), parse_type("DECIMAL(3, 1)")) is None
    assert truncate_timestamp((1999, 5), 0) == (1000, 0)
    assert truncate_timestamp((1999, 123_456), 6) == (1999, 123_000)
