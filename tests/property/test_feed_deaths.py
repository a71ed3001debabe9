"""A feed of which every write of a store is, once, the last thing its process does: run again, each table has each row once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.types import LandingOptions
from lakeidx.storage.local import LocalStore
from tests.kit.many_tables import FEEDS, ManyTables
from tests.kit.share import share_of

_WRITES = ("put", "put_many", "put_if_absent", "delete", "delete_many", "open_output")
#: Deaths before and after each write; a file makes up to so many.
_CASES = [
    (form, number, when) for form in ("canal", "debezium") for number in range(150) for when in ("before", "after")
]


class _DiedError(BaseException):
    pass


@pytest.mark.parametrize(("form", "number", "when"), share_of(_CASES, 0.04))
def test_a_process_that_dies_at_a_write_loses_no_row(
    form: str, number: int, when: str, tmp_path: Path, monkeypatch: Any
) -> None:
    source = ManyTables(3, tables=4).run(60)
    name, messages, tells, types = FEEDS[form]
    landing = LandingOptions(name, missing="refuse" if tells else "null")
    half = len(source.events) // 2
    warehouse = lakeidx.Warehouse(tmp_path / "lake")
    for at, events in enumerate((source.events[:half], source.events[half:])):
        file = tmp_path / f"feed-{at}.json"
        file.write_text("".join(f"{m}\n" for m in messages(events)), encoding="utf-8")
        with monkeypatch.context() as patched:
            _die_at(patched, number, when)
            with suppress(_DiedError):
                warehouse.sync_database("ods", [file], landing, FeedOptions(types=types))
        warehouse.sync_database("ods", [file], landing, FeedOptions(types=types))
    source.check(warehouse)


def _die_at(patched: Any, number: int, when: str) -> None:
    """Let the process die at a write, and at every call after it: nothing may catch it and go on."""
    calls = [0]

    def wrap(whole: Any) -> Any:
        def call(self: LocalStore, *args: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] - 1 > number or (calls[0] - 1 == number and when == "before"):
                raise _DiedError
            result = whole(self, *args, **named)
            if calls[0] - 1 == number:
                raise _DiedError
            return result

        return call

    for verb in _WRITES:
        patched.setattr(LocalStore, verb, wrap(getattr(LocalStore, verb)))
