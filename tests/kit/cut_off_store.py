"""A store for runs that are cut off in the middle of deleting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakeidx.errors import UnavailableError


class StopsAfter:
    """A store that fails after some deletions."""

    def __init__(self, inner: Any, deletions: int) -> None:
        self._inner = inner
        self._left = deletions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._left == 0:
                raise UnavailableError("the machine went away", path=path)
            self._left -= 1
            self._inner.delete(path)
