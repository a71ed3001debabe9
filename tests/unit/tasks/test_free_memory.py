"""Memory that is free goes back to the machine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import psutil
import pytest

from lakeidx.tasks.blocks import release_free_memory
from lakeidx.testing.limits import HANGS_SECONDS

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


@pytest.mark.slow
def test_what_is_free_goes_back() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        before, after = pool.submit(resident_before_and_after).result(HANGS_SECONDS)
    assert before - after > ARRAYS // 2
