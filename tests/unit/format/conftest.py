"""What tests of file formats share."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process's wall clock be eight hours ahead of UTC, the whole year."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
