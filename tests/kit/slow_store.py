"""A store whose requests take some time, as those of another machine do, and which knows how many were under way at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from lakeidx.storage.base import ObjectStore
from tests.kit.metered_store import MeteredStore

VERBS = (
    "get",
    "get_ranges",
    "size",
    "info",
    "exists",
    "list",
    "walk",
    "put",
    "put_many",
    "put_if_absent",
    "delete",
    "delete_many",
)


class SlowStore(MeteredStore):
    """Counts requests, and makes each last `seconds`; a copy in another process counts on its own.

    at_once   the most requests that were under way at a time
    """

    waits = True

    def __init__(self, inner: ObjectStore, seconds: float = 0.02) -> None:
        super().__init__(inner)
        self.seconds = seconds
        self._under_way = self.at_once = 0


def _slow(verb: str) -> Callable[..., Any]:
    fast = getattr(MeteredStore, verb)

    @wraps(fast)
    def slow(self: SlowStore, *args: Any, **more: Any) -> Any:
        with self._lock:
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        try:
            time.sleep(self.seconds)
            return fast(self, *args, **more)
        finally:
            with self._lock:
                self._under_way -= 1

    return slow


for _verb in VERBS:
    setattr(SlowStore, _verb, _slow(_verb))
