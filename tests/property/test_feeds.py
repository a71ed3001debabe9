"""One feed of ten tables, whose schemas change in the middle: the tables are those of a plain copy, wherever a run dies."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.api import feeds
from lakeidx.api import table as table_verbs
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.types import LandingOptions
from tests.kit.many_tables import FEEDS, ManyTables
from tests.kit.share import share_of

CASES = [(form, seed) for form in FEEDS for seed in range(20)]


class _DiedError(Exception):
    pass


@pytest.mark.parametrize(("form", "seed"), share_of(CASES, 0.07))
def test_tables_of_a_feed_are_those_of_the_source(form: str, seed: int, tmp_path: Path, monkeypatch: Any) -> None:
    source = ManyTables(seed).run(200)
    name, messages, tells, types = FEEDS[form]
    warehouse = lakeidx.Warehouse(tmp_path / "lake")
    landing = LandingOptions(name, missing="refuse" if tells else "null")
    dice = random.Random(seed)
    cuts = sorted(dice.sample(range(20, len(source.events)), 2))
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(source.events)], strict=True)):
        file = tmp_path / f"feed-{number}.json"
        file.write_text("".join(f"{m}\n" for m in messages(source.events[begin:end])), encoding="utf-8")
        run = partial(warehouse.sync_database, "ods", [str(file)], landing, FeedOptions(types=types))
        for module, step in ((feeds, "_write_split"), (table_verbs, "finish_batch"), (feeds, "mark_committed")):
            _die(monkeypatch, module, step, dice.randrange(4), run)
        run()
    source.check(warehouse)


def _die(monkeypatch: Any, module: Any, step: str, calls: int, run: Any) -> None:
    """Run a feed that dies after some calls of a step."""
    whole, left = getattr(module, step), [calls]

    def dies(*args: Any, **named: Any) -> Any:
        if not left[0]:
            raise _DiedError
        left[0] -= 1
        return whole(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(module, step, dies)
        try:
            run()
        except _DiedError:
            return
