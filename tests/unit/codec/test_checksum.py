from __future__ import annotations

import numpy as np

from lakeidx.codec.checksum import crc32, crc32_pages


def test_check_value_of_the_ieee_polynomial() -> None:
    # The published check value of CRC-32/ISO-HDLC.
    assert crc32(b"123456789") == 0xCBF43926
    assert crc32(b"1234", b"", memoryview(b"56789")) == 0xCBF43926
    assert crc32() == crc32(b"") == 0


def test_pages() -> None:
    data = np.frombuffer(b"123456789123456789", np.uint8)
    assert crc32_pages(data, [0, 9, 9, 18]).tolist() == [0xCBF43926, 0, 0xCBF43926]
    assert crc32_pages(data, [0]).tolist() == []
