"""One feed of many tables, whose schemas change in the middle: the tables are those of a plain copy, wherever a run dies."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.types import LandingOptions
from lakeidx.storage.local import LocalStore
from tests.kit.many_tables import FEEDS, ManyTables
from tests.kit.share import share_of

CASES = [(form, seed) for form in FEEDS for seed in range(20)]
_WRITES = ("put", "put_many", "put_if_absent", "delete", "delete_many", "open_output")
#: So many writes the second file of four tables has, and the first and last of ten, at least: a death at one of them happens.
_OF_FOUR, _OF_TEN = 95, 180
#: Deaths before and after each write.
_DEATHS = [
    (form, number, when) for form in ("canal", "debezium") for number in range(_OF_FOUR) for when in ("before", "after")
]


class _DiedError(BaseException):
    pass


@pytest.mark.parametrize(("form", "seed"), share_of(CASES, 0.07))
def test_tables_of_a_feed_are_those_of_the_source(form: str, seed: int, tmp_path: Path, monkeypatch: Any) -> None:
    """Ten tables in three files, each of which dies at some writes."""
    source, dice = ManyTables(seed).run(200), random.Random(seed)
    cuts = sorted(dice.sample(range(20, len(source.events)), 2))
    deaths = [(dice.randrange(_OF_TEN), dice.choice(("before", "after"))) for _ in range(3)]
    # A repetition finds less to do, so does a file of few events: the first death of the two others happens at least.
    assert _run(source, form, cuts, deaths, tmp_path, monkeypatch) >= 2


@pytest.mark.parametrize(("form", "number", "when"), share_of(_DEATHS, 0.06))
def test_a_process_that_dies_at_a_write_loses_no_row(
    form: str, number: int, when: str, tmp_path: Path, monkeypatch: Any
) -> None:
    source = ManyTables(3, tables=4).run(60)
    assert _run(source, form, [len(source.events) // 2], [(number, when)], tmp_path, monkeypatch) >= 1


def _run(
    source: ManyTables, form: str, cuts: list[int], deaths: list[tuple[int, str]], folder: Path, monkeypatch: Any
) -> int:
    """Land the events as files that end at the cuts; each run of a file dies, and is repeated. Returns how many died."""
    died = 0
    name, messages, tells, types = FEEDS[form]
    landing = LandingOptions(name, missing="refuse" if tells else "null")
    warehouse = lakeidx.Warehouse(folder / "lake")
    for at, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(source.events)], strict=True)):
        file = folder / f"feed-{at}.json"
        file.write_text("".join(f"{m}\n" for m in messages(source.events[begin:end])), encoding="utf-8")
        run = partial(warehouse.sync_database, "ods", [file], landing, FeedOptions(types=types))
        for number, when in deaths:
            with monkeypatch.context() as patched:
                _die_at(patched, number, when)
                try:
                    run()
                except _DiedError:
                    died += 1
        run()
    source.check(warehouse)
    return died


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
