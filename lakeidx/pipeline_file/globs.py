"""Whether two file name patterns can match one name."""

from __future__ import annotations

import re
from functools import cache

_TOKEN = re.compile(r"\*+|\?|\[[^\]]+\]|.", re.DOTALL)


def globs_overlap(left: str, right: str) -> bool:
    """Return True when some file name matches both patterns (``*``, ``?``, ``[...]``); a set is taken to match any character."""
    a, b = _TOKEN.findall(left), _TOKEN.findall(right)

    @cache
    def meet(i: int, j: int) -> bool:
        if i == len(a) and j == len(b):
            return True
        if i < len(a) and a[i].startswith("*"):
            return meet(i + 1, j) or (j < len(b) and meet(i, j + 1))
        if j < len(b) and b[j].startswith("*"):
            return meet(i, j + 1) or (i < len(a) and meet(i + 1, j))
        if i == len(a) or j == len(b):
            return False
        return _one_character(a[i], b[j]) and meet(i + 1, j + 1)

    return meet(0, 0)


def _one_character(a: str, b: str) -> bool:
    return a == b or a == "?" or b == "?" or a.startswith("[") or b.startswith("[")
