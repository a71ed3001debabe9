"""Memory that is free goes back to the machine."""

from __future__ import annotations

import multiprocessing

import numpy as np
import psutil

from lakeidx.tasks.free_memory import release_free_memory

ARRAYS, MIB = 200, 1 << 20


def resident_before_and_after() -> tuple[int, int]:
    # One large array that is freed makes the C library keep smaller ones from then on.
    large = np.ones(16 * MIB, np.uint8)
    del large
    arrays = [np.ones(MIB, np.uint8) for _ in range(ARRAYS)]
    pins = [np.ones(MIB // 4, np.uint8) for _ in range(4)]
    arrays.clear()
    before = psutil.Process().memory_info().rss
    release_free_memory()
    after = psutil.Process().memory_info().rss
    assert len(pins) == 4
    return before // MIB, after // MIB


def test_what_is_free_goes_back() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before, after = pool.apply(resident_before_and_after)
    assert before - after > ARRAYS // 2
