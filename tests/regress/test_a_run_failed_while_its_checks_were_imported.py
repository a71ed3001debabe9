"""Imports in the background let Dagster's storage meet half of SQLAlchemy's object mapper: runs failed now and then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakeidx.testing.limits import HANGS_SECONDS

pytestmark = pytest.mark.dagster

_RUN = """
import sys
import dagster
from sqlalchemy import inspect
from lakeidx.dagster.preload import start_import

sys.setswitchinterval(1e-6)
thread = start_import("lakeidx.dagster.expectations.of_rows")
asked = 0
while thread.is_alive() and "sqlalchemy.orm.session" not in sys.modules or asked < 1000:
    inspect(7, False)  # as Dagster's storage does for each value of a query
    asked += 1
print("asked", asked)
"""


def test_storage_can_be_asked_while_checks_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, timeout=HANGS_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("asked")
