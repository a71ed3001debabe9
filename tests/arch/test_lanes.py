"""The lanes of `tests/lanes.py` are started with arguments that go together."""

from __future__ import annotations

import pytest

from tests.lanes import Lane, lanes


@pytest.mark.parametrize("lane", lanes(), ids=lambda lane: lane.name)
def test_a_lane_that_runs_tests_again_has_the_plugin_for_it(lane: Lane) -> None:
    """Lane slow could not begin: its arguments were of a plugin that it left out."""
    assert not {"--reruns", "no:rerunfailures"} <= {*lane.arguments}
