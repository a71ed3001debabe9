"""Fixtures every lane uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOLDEN = Path(os.environ.get("LAKEIDX_GOLDEN", Path(__file__).parent / "golden"))


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """The folder of data made with the released jars (LAKEIDX_GOLDEN, or tests/golden)."""
    return GOLDEN
