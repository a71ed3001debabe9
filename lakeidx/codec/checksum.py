"""CRC-32 (IEEE, as ``java.util.zip.CRC32``) of whole byte ranges and of fixed-size pages."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Bytes = bytes | bytearray | memoryview


def crc32(*parts: Bytes) -> int:
    """Checksum of the parts as if they lay one after another: 0 .. 2**32 - 1."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value


def crc32_pages(data: npt.NDArray[np.uint8], bounds: Iterable[int]) -> npt.NDArray[np.uint32]:
    """Checksum of each page ``data[bounds[i]:bounds[i + 1]]``.

    returns  uint32[number of bounds - 1]
    """
    edges = list(bounds)
    return np.array([zlib.crc32(data[a:b].data) for a, b in itertools.pairwise(edges)], np.uint32)
