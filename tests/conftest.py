"""Fixtures every lane uses."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# An example may compile a kernel, or share its processor: no test judges wall time, nor that of drawing.
settings.register_profile("lakeidx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lakeidx")

# Before any test imports them: their asserts show what differed.
pytest.register_assert_rewrite("lakeidx.testing", "tests.kit")

# No test cuts the power. What is flushed, and when, `tests/unit/storage/test_local.py` sees.
os.fsync = lambda fd: None

GOLDEN = Path(os.environ.get("LAKEIDX_GOLDEN", Path(__file__).parent / "golden"))


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """The folder of data made with the released jars (LAKEIDX_GOLDEN, or tests/golden)."""
    return GOLDEN


#: Share of the examples that property tests run: the fast lane takes a part, the properties lane all of them.
EXAMPLES_SCALE = float(os.environ.get("LAKEIDX_EXAMPLES_SCALE", "1"))

#: Folders and files of tests that are not collected. pytest's own --ignore compares each of them with every file, in seconds.
_APART = os.environ.get("LAKEIDX_TESTS_APART", "").split(os.pathsep)
APART = {Path(__file__).parents[1] / name for name in _APART if name}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what belongs to other lanes."""
    return True if collection_path in APART else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Scale the number of examples of property tests."""
    if EXAMPLES_SCALE == 1:
        return
    for item in items:
        function = getattr(item, "obj", None)
        function = getattr(function, "__func__", function)
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None:
            fewer = max(5, int(own.max_examples * EXAMPLES_SCALE))
            function._hypothesis_internal_use_settings = settings(own, max_examples=fewer)  # type: ignore[union-attr]


def _import_from_the_end() -> None:
    """Import the tests in every second process from the last to the first.

    Each process of a lane imports all of them. In a fresh clone pytest rewrites the asserts of each file, which is dear, and keeps
    the code: from both ends each process does it for one half and finds the other.
    """
    if not APART or os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] not in "13579":
        return
    root = Path(__file__).parents[1]
    for file in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
        if APART.isdisjoint((file, *file.parents)):
            # Pytest says what is wrong with a file, or skips it.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave modules and tests, which live to the end of the run, out of all garbage collections."""
    gc.disable()
    try:
        _import_from_the_end()
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
