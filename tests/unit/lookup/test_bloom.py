from __future__ import annotations

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.lookup.bloom import BloomShape, LookupBloom


def test_what_has_no_shape() -> None:
    for entries, fpp in ((0, 0.05), (-1, 0.05), (1, 0.0), (1, 1.0)):
        with pytest.raises(InvalidInputError):
            BloomShape.for_rate(entries, fpp)
    with pytest.raises(InvalidInputError, match="3 bytes"):
        LookupBloom(BloomShape.for_rate(3, 0.05), LookupBloom(BloomShape.for_rate(10, 0.05)).bits)
