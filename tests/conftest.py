"""Fixtures every lane uses, and the lanes: ``pytest --lane spark``; `Makefile` runs them all."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# An example may compile a kernel, or share its processor: no test judges wall time, nor that of drawing.
settings.register_profile("lakeidx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lakeidx")

# Before any test imports them: their asserts show what differed.
pytest.register_assert_rewrite("lakeidx.testing", "tests.kit")

from tests.kit.share import share_of  # noqa: E402

# No test cuts the power. What is flushed, and when, `tests/unit/storage/test_local.py` sees.
os.fsync = lambda fd: None

GOLDEN = Path(os.environ.get("LAKEIDX_GOLDEN", Path(__file__).parent / "golden"))


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """The folder of data made with the released jars (LAKEIDX_GOLDEN, or tests/golden)."""
    return GOLDEN


#: Share of the examples that property tests run: the fast lane takes a part, the properties lane all of them.
EXAMPLES_SCALE = float(os.environ.get("LAKEIDX_EXAMPLES_SCALE", "1"))

TESTS = Path(__file__).parent
#: A test with several marks belongs to the first of its lanes; what is slow without needing anything comes last.
_MARKED = ("matrix", "spark", "interop", "s3", "azure", "dagster", "hbase", "browser", "postgres", "slow")
#: Folders whose unmarked tests are a lane; all other unmarked tests are the fast one.
_FOLDERS = {"golden_tests": "golden", "property": "properties"}
#: Where files of tests cost no disk, and what must be free there: lanes leave up to 1 GB each.
_MEMORY, _MEMORY_BYTES = Path("/dev/shm"), 6 << 30


def pytest_addoption(parser: pytest.Parser) -> None:
    lanes = ("fast", *_FOLDERS.values(), *_MARKED)
    parser.addoption(
        "--lane", choices=lanes, help="run the tests of one lane, whose files lie in memory where there is room"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give a lane a folder for its files; what ends it by TERM lets tests stop their servers, as Ctrl-C does."""
    if config.option.lane is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    has_room = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES
    folder = tempfile.TemporaryDirectory(
        prefix="lakeidx-lane-", dir=_MEMORY if has_room else None, ignore_cleanup_errors=True
    )
    # PostgreSQL runs as a user of its own.
    os.chmod(folder.name, 0o711)
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name
    config.add_cleanup(folder.cleanup)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_STARTED] = time.monotonic()


_STARTED = pytest.StashKey[float]()


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Add what a lane did to LAKEIDX_SUMMARY: one whose tests cannot run on this machine is SKIPPED, never passed."""
    if config.option.lane is None or "LAKEIDX_SUMMARY" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    stats = terminalreporter.stats
    passed, failed, skipped, again = (len(stats.get(k, ())) for k in ("passed", "failed", "skipped", "rerun"))
    failed += len(stats.get("error", ()))
    # 5: no test; another one: it was ended, or pytest itself broke.
    verdict = "FAILED" if failed or exitstatus not in (0, 5) else "passed" if passed else "SKIPPED"
    counts = f"{passed:>5} tests passed {failed:>3} failed {skipped:>3} skipped {again:>3} again"
    seconds = time.monotonic() - config.stash[_STARTED]
    summary = Path(os.environ["LAKEIDX_SUMMARY"])
    summary.parent.mkdir(parents=True, exist_ok=True)
    with summary.open("a", encoding="utf-8") as out:
        out.write(f"{config.option.lane:<11}{verdict:<8}{counts} {seconds:>7.1f} s\n")


@cache
def _places(lane: str) -> frozenset[Path]:
    """Files and folders with tests of a lane: to collect all ten thousand, or to import Dagster, takes longer than some lanes."""
    named = {mark: re.compile(rf"\bmark\.{mark}\b") for mark in _MARKED}
    whole = re.compile(rf"^pytestmark = .*\bmark\.(?:{'|'.join(_MARKED)})\b", re.MULTILINE)
    found = set[Path]()
    for file in TESTS.rglob("test_*.py"):
        marks = "\n".join(line for line in file.read_text(encoding="utf-8").splitlines() if "mark." in line)
        folder = _FOLDERS.get(file.relative_to(TESTS).parts[0], "fast")
        if named[lane].search(marks) if lane in named else folder == lane and not whole.search(marks):
            found |= {file, *file.parents}
    return frozenset(found)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what belongs to other lanes."""
    lane = config.option.lane
    is_test = collection_path.is_dir() or collection_path.name.startswith("test_")
    return True if lane is not None and is_test and collection_path not in _places(lane) else None


def _share(items: list[pytest.Item]) -> list[pytest.Item]:
    """Keep of tests marked ``share(part)`` that part of the cases of each."""
    kept: list[pytest.Item] = []
    for _, cases in groupby(items, key=lambda i: (i.path, getattr(i, "originalname", i.name))):
        found = list(cases)
        mark = found[0].get_closest_marker("share")
        kept += found if mark is None else share_of(found, mark.args[0], key=lambda i: i.name)
    return kept


def _lane_of(item: pytest.Item) -> str:
    marks = {mark.name for mark in item.iter_markers()}
    return next((m for m in _MARKED if m in marks), _FOLDERS.get(item.path.relative_to(TESTS).parts[0], "fast"))


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Keep the tests of the lane, and scale the number of examples of property tests."""
    if (lane := config.option.lane) is not None:
        items[:] = [item for item in items if _lane_of(item) == lane]
    items[:] = _share(items)
    if EXAMPLES_SCALE == 1:
        return
    for item in items:
        function = getattr(item, "obj", None)
        function = getattr(function, "__func__", function)
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None:
            fewer = max(5, int(own.max_examples * EXAMPLES_SCALE))
            function._hypothesis_internal_use_settings = settings(own, max_examples=fewer)  # type: ignore[union-attr]


def _import_from_the_end(lane: str) -> None:
    """Import the tests in every second process from the last to the first.

    Each process of a lane imports all of them. In a fresh clone pytest rewrites the asserts of each file, which is dear, and keeps
    the code: from both ends each process does it for one half and finds the other.
    """
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] not in "13579":
        return
    for file in sorted((f for f in _places(lane) if f.suffix == ".py"), reverse=True):
        # Pytest says what is wrong with a file, or skips it.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Leave modules and tests, which live to the end of the run, out of all garbage collections."""
    gc.disable()
    try:
        if session.config.option.lane is not None:
            _import_from_the_end(session.config.option.lane)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
