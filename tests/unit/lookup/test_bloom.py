from __future__ import annotations

import pytest

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.lookup.bloom import BloomShape, LookupBloom


# Sizes and probes as Java gave them: format sheets and golden files.
@pytest.mark.parametrize(
    ("entries", "fpp", "size", "probes"),
    [(1, 0.05, 1, 6), (3, 0.05, 3, 6), (4, 0.05, 3, 4), (10, 0.05, 8, 4), (5000, 0.05, 3897, 4)],
)
def test_a_filter_has_the_size_of_paimon(entries: int, fpp: float, size: int, probes: int) -> None:
    shape = BloomShape.for_rate(entries, fpp)
    assert (shape.byte_size, shape.probes) == (size, probes)


def test_bits_of_java() -> None:
    # INT keys 1 and 2 as compacted rows in a filter for 3 (the worked SST), and the worked hash store file.
    filter_ = LookupBloom(BloomShape.for_rate(3, 0.05))
    filter_.add(RowBytes.from_list([bytes.fromhex("000001000000"), bytes.fromhex("000002000000")]))
    assert filter_.bits.tobytes().hex() == "08ab4e"
    filter_ = LookupBloom(BloomShape.for_rate(4, 0.05))
    filter_.add(RowBytes.from_list([bytes.fromhex(k) for k in ("000001000000", "000002000000", "000003000000", "61")]))
    assert filter_.bits.tobytes().hex() == "58a7cb"


def test_what_has_no_shape() -> None:
    for entries, fpp in ((0, 0.05), (-1, 0.05), (1, 0.0), (1, 1.0)):
        with pytest.raises(InvalidInputError):
            BloomShape.for_rate(entries, fpp)
    with pytest.raises(InvalidInputError, match="3 bytes"):
        LookupBloom(BloomShape.for_rate(3, 0.05), LookupBloom(BloomShape.for_rate(10, 0.05)).bits)
