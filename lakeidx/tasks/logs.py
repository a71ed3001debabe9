"""Logs as lines of JSON, each with the table, batch, stage and snapshot that it is about.

Environment variable ``LAKEIDX_LOG_FORMAT=json``, or ``lakeidx --log-format json``, prints them on stderr; other programs take
`JsonLines` as the formatter of a handler of their own.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lakeidx.errors import InvalidInputError

P = ParamSpec("P")
R = TypeVar("R")
FORMATS = ("text", "json")
_about: ContextVar[dict[str, Any]] = ContextVar("lakeidx_log", default={})  # noqa: B039 - it is never changed in place


@contextmanager
def logged(**about: Any) -> Iterator[None]:
    """Say what is logged inside is about: ``table``, ``batch``, ``stage``, ``snapshot``."""
    token = _about.set({**_about.get(), **about})
    try:
        yield
    finally:
        _about.reset(token)


def stage_logs(stage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a stage of a batch, whose first argument is the batch or its files: what is logged inside is about it."""

    def around(run: Callable[P, R]) -> Callable[P, R]:
        @wraps(run)
        def logging_run(*args: P.args, **named: P.kwargs) -> R:
            batch: Any = args[0]
            files = getattr(batch, "files", batch)
            with logged(table=files.table, batch=files.batch_id, stage=stage):
                return run(*args, **named)

        return logging_run

    return around


class JsonLines(logging.Formatter):
    """A JSON object a record: time (UTC), level, logger, what it is about, message, and the error with its stack."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        out = {"time": time, "level": record.levelname, "logger": record.name, **_about.get()}
        out["message"] = record.getMessage()
        if record.exc_info:
            out["error"] = self.formatException(record.exc_info)
        return json.dumps(out, default=str)


def print_logs(kind: str | None) -> bool:
    """Print what lakeidx logs on stderr, from INFO up, where `kind` is ``json``; returns whether it is. Other handlers stay.

    errors   InvalidInputError for another kind than `FORMATS`
    """
    if kind is not None and kind not in FORMATS:
        raise InvalidInputError(f"the format of logs is {' or '.join(FORMATS)}, not {kind!r}")
    if kind != "json":
        return False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("lakeidx")
    logger.handlers = [*(h for h in logger.handlers if not isinstance(h.formatter, JsonLines)), handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return True
