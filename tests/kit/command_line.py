"""The command line in this process, as a script runs it."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from lakeidx.cli.main import app


def call(*arguments: object, code: int = 0, stdin: str | bytes | None = None) -> Result:
    """Run a command; AssertionError with what it said when it ends with another code."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, f"{result.exit_code}: {result.output} {result.exception}"
    return result


def lines(*arguments: object) -> list[dict[str, Any]]:
    """Run a command that prints JSON lines."""
    return [json.loads(line) for line in call(*arguments).stdout.splitlines()]


def answer(*arguments: object, stdin: str | bytes | None = None) -> Any:
    """Run a command that prints one JSON value."""
    return json.loads(call(*arguments, stdin=stdin).stdout)
