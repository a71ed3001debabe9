from __future__ import annotations

import time

from lakeidx.lookup.warm_up import warm_up


def test_a_second_call_is_fast_because_everything_is_compiled() -> None:
    warm_up()
    started = time.perf_counter()
    warm_up()
    # Compiling takes about ten seconds; the stores themselves some milliseconds.
    assert time.perf_counter() - started < 2
