"""Every test of the lane runs with both witnesses: the released Paimon 1.4.2 and a build after release 2.0.0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.java_tools import PAIMON_VERSIONS, RELEASED, use_paimon


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add the versions, but to tests marked ``one_witness``."""
    if "paimon" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("one_witness")
        metafunc.parametrize("paimon", (RELEASED,) if only else PAIMON_VERSIONS, indirect=True)


@pytest.fixture(autouse=True)
def paimon(request: pytest.FixtureRequest) -> Iterator[str]:
    """The version of the witness that this test runs with."""
    with use_paimon(request.param):
        yield request.param
