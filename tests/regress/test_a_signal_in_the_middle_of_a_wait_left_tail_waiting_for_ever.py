"""A stream that was told to end while it looked whether it should waited for its own lock, for ever."""

from __future__ import annotations

import signal

import pytest

from lakeidx.cli.context import ended_by_signals
from lakeidx.testing.limits import HANGS_SECONDS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_lock_is_held(number: signal.Signals) -> None:
    with ended_by_signals() as stop:
        with stop._cond:  # type: ignore[attr-defined]
            signal.raise_signal(number)
        assert stop.wait(HANGS_SECONDS)
