"""The share of a long search that ``make test`` makes; ``make test-all`` (LAKEIDX_WHOLE=1) makes it whole.

The points are chosen by a checksum of what they are called: the same in each run, and not by what the code is.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")
WHOLE = os.environ.get("LAKEIDX_WHOLE") == "1"


def share_of(points: Iterable[_T], part: float, key: Callable[[_T], object] = str) -> list[_T]:
    """Return a part of the points, at least one of them, in their order; 0: none."""
    found = list(points)
    if WHOLE or not found:
        return found
    by_sum = sorted(range(len(found)), key=lambda n: zlib.crc32(str(key(found[n])).encode()))
    return [found[n] for n in sorted(by_sum[: math.ceil(part * len(found))])]
