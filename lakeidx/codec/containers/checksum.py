"""CRC-32 (IEEE, as ``java.util.zip.CRC32``) of whole byte strings and of many ranges.

zlib-ng computes it with carry-less multiplication, four to five times as fast as zlib: a 64 KB block costs 4 microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from zlib_ng import zlib_ng

Bytes = bytes | bytearray | memoryview


def crc32(*parts: Bytes, start: int = 0) -> int:
    """Return the checksum of the concatenated parts: 0 .. 2**32 - 1.

    start   that of what stands before them
    """
    value = start
    for part in parts:
        value = zlib_ng.crc32(part, value)
    return value


def crc32_ranges(data: memoryview, starts: Iterable[int], ends: Iterable[int]) -> npt.NDArray[np.uint32]:
    """Return the checksum of each range ``data[start:end]``.

    returns  uint32[number of ranges]
    """
    checksum = zlib_ng.crc32
    return np.array([checksum(data[a:b]) for a, b in zip(starts, ends, strict=True)], np.uint32)
