"""Memory that is free goes back to the machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import numpy as np
import psutil

from lakeidx.tasks.free_memory import release_free_memory

ARRAYS, MIB = 200, 1 << 20
#: What stays in use above what is freed, so that the C library does not give it back by itself.
PINS: list[np.ndarray] = []


def resident_before_and_after(release: Callable[[], None] = release_free_memory) -> tuple[int, int]:
    # One large array that is freed makes the C library keep smaller ones from then on.
    large = np.ones(16 * MIB, np.uint8)
    del large
    arrays = [np.ones(MIB, np.uint8) for _ in range(ARRAYS)]
    PINS.extend(np.ones(MIB // 4, np.uint8) for _ in range(4))
    arrays.clear()
    before = psutil.Process().memory_info().rss
    release()
    after = psutil.Process().memory_info().rss
    return before // MIB, after // MIB


def test_what_is_free_goes_back() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before, after = pool.apply(resident_before_and_after)
    assert before - after > ARRAYS // 2
