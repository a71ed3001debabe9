from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.containers.checksum import crc32, crc32_ranges


def test_check_value_of_the_ieee_polynomial() -> None:
    # The published check value of CRC-32/ISO-HDLC.
    assert crc32(b"123456789") == 0xCBF43926
    assert crc32(b"1234", b"", memoryview(b"56789")) == 0xCBF43926
    assert crc32() == crc32(b"") == 0


def test_ranges_have_the_checksum_of_their_bytes() -> None:
    data = memoryview(b"123456789123456789")
    assert crc32_ranges(data, [0, 9, 9], [9, 9, 18]).tolist() == [0xCBF43926, 0, 0xCBF43926]
    assert crc32_ranges(data, [], []).tolist() == []


@given(st.binary(max_size=300), st.integers(0, 64))
def test_every_length_and_alignment_is_zlib(data: bytes, start: int) -> None:
    assert crc32(memoryview(data)[start:]) == zlib.crc32(data[start:])
