from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.format.data_file import epoch_ms_of_local, local_ms_of_epoch, now_local_ms


@pytest.mark.usefixtures("shanghai")
def test_as_paimon_stores_creation_times() -> None:
    # A file made at 09:30Z in Shanghai says 17:30.
    assert local_ms_of_epoch(1_700_040_600_123) == 1_700_069_400_123
    assert epoch_ms_of_local(1_700_069_400_123) == 1_700_040_600_123
    before = time.time_ns() // 10**6
    there = now_local_ms() - 8 * 3_600_000
    assert before <= there <= time.time_ns() // 10**6


@given(st.integers(-60_000_000_000_000, 250_000_000_000_000))
def test_local_time_is_inverted_but_for_clock_changes(ms: int) -> None:
    assert abs(epoch_ms_of_local(local_ms_of_epoch(ms)) - ms) <= 3_600_000 * 3


@pytest.mark.parametrize("ms", [10**18, -(10**18), (1 << 63) - 1])
def test_beyond_the_calendar_it_is_utc(ms: int) -> None:
    assert local_ms_of_epoch(ms) == ms
    assert epoch_ms_of_local(ms) == ms
