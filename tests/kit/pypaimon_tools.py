"""The other witnesses: pypaimon and pypaimon-rust, in an environment of their own (they want an older Arrow than lakeidx)."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.java_tools import CACHE, alone
from tests.kit.share import WHOLE

VERSION, RUST_VERSION = "2.1.0", "0.4.0"
PROGRAM = Path(__file__).resolve().parent / "pypaimon_program.py"


@cache
def pypaimon_python() -> Path:
    """The interpreter of an environment with pypaimon, made once; skips, visibly, where it cannot be installed.

    Of `make test-all` it is brought to the newest releases of both.
    """
    versions = "newest" if WHOLE else f"{VERSION}-{RUST_VERSION}"
    place = CACHE / f"pypaimon-{versions}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = place / "bin" / "python"
    with alone():
        if not (place / "ready").exists() or WHOLE:
            venv.create(place, with_pip=True, clear=not WHOLE)
            newest = ["pypaimon", "pypaimon-rust", "--upgrade"]
            packages = newest if WHOLE else [f"pypaimon=={VERSION}", f"pypaimon-rust=={RUST_VERSION}"]
            command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)  # type: ignore[arg-type]
            if done.returncode != 0:
                pytest.skip(f"pypaimon {VERSION} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
            (place / "ready").touch()
    return python


class PyPaimon:
    """Commands on tables of a warehouse, in one process that stays."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = str(warehouse)
        command = [str(pypaimon_python()), str(PROGRAM)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def create(self, table: str, spec: Mapping[str, Any]) -> None:
        """Make a table."""
        self._call(table, "create", spec=spec)

    def read(self, table: str, engine: str = "python") -> list[dict[str, Any]]:
        """All rows, as pypaimon or (``rust``) pypaimon-rust reads them."""
        return list(self._call(table, "read", engine=engine))

    def read_into(self, file: Path, table: str, engine: str = "python") -> None:
        """Write all rows, as an engine reads them, to an Arrow file."""
        self._call(table, "read", engine=engine, into=str(file))

    def write(self, table: str, rows: Sequence[Mapping[str, Any]], engine: str = "python") -> None:
        """Upsert rows, or delete those whose `_kind` is ``-D``."""
        self._call(table, "write", engine=engine, rows=rows)

    def copy(self, table: str, below: int, added: int, engine: str = "python") -> None:
        """Write the rows whose first column, an INT, is below a number once more, with another number added to it."""
        self._call(table, "copy", engine=engine, below=below, added=added)

    def _call(self, table: str, what: str, **more: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"warehouse": self.warehouse, "table": table, "do": what, **more}) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "pypaimon died"
        answer = json.loads(line)
        assert "error" not in answer, f"pypaimon {what}: {answer['error']}"
        return answer["out"]
