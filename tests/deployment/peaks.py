"""Walks through a deployment and prints what each service had in memory at most: ``python -m tests.deployment.peaks``.

With the processes below it, runs included, each at its own peak; so the sum is an upper bound. Limits in deploy/ are at least
twice that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.deployment.services import PEAKS


def main() -> int:
    """Walk, and print a line per service."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[PEAKS] = f"{folder}/peaks.json"
        code = pytest.main(["-q", "-n", "0", str(Path(__file__).parents[1] / "dagster/test_deployment.py")])
        for name, mib in sorted(json.loads(Path(f"{folder}/peaks.json").read_text()).items()):
            print(f"{name:<12} {mib:>6} MiB")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
