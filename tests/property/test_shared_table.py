"""Histories of a table that several programs share: open handles, stopped batches, other programs in the middle of a step.

The seeds are the same in each run, so that a red lane has to do with the change. LAKEIDX_SEED begins with another,
LAKEIDX_HISTORIES runs more; with ``-n 2`` they run on two cores.
"""

from __future__ import annotations

import os

import pytest

from tests.kit.share import WHOLE
from tests.kit.shared_table import interleaved
from tests.kit.shared_table.interleaved import check_interleaved
from tests.kit.shared_table.runs import check_seed, history_of

_FIRST = int(os.environ.get("LAKEIDX_SEED", "0"))
_HISTORIES = int(os.environ.get("LAKEIDX_HISTORIES", "2000" if WHOLE else "80"))
_UPKEEP = int(os.environ.get("LAKEIDX_HISTORIES", "1000" if WHOLE else "40"))
_INTERLEAVED = int(os.environ.get("LAKEIDX_HISTORIES", "1000" if WHOLE else "40"))
#: Kinds of steps whose faults are known and not mended yet.
_KNOWN: tuple[str, ...] = ()


def _some(count: int) -> list[range]:
    """Seeds of so many histories, those of a test at a time."""
    return [range(first, min(first + 40, _FIRST + count)) for first in range(_FIRST, _FIRST + count, 40)]


@pytest.mark.parametrize("seeds", _some(_HISTORIES), ids=str)
def test_new_histories_show_what_the_model_says(seeds: range) -> None:
    for seed in seeds:
        check_seed(seed, without=_KNOWN)


@pytest.mark.parametrize("seeds", _some(_UPKEEP), ids=str)
def test_upkeep_loses_no_file_and_leaves_none_over(seeds: range) -> None:
    for seed in seeds:
        check_seed(seed, 30, alone=True)


@pytest.mark.parametrize("seeds", _some(_INTERLEAVED), ids=str)
def test_batches_of_programs_that_take_turns_are_there_once(seeds: range) -> None:
    for seed in seeds:
        check_interleaved(seed)


def test_taking_turns_finds_a_batch_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """These histories are no ornament either: a commit that says it is done and is not makes the first one fail."""
    monkeypatch.setattr(interleaved, "commit_batch", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="acknowledged batches are not there"):
        check_interleaved(0)


def test_taking_turns_finds_a_batch_that_is_published_although_it_failed_its_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lakeidx.batch import upsert

    monkeypatch.setattr(upsert, "hold_batch", lambda *_: None)
    with pytest.raises(AssertionError, match=r"was published|sees what failed its check"):
        list(map(check_interleaved, range(20)))


def test_the_model_finds_a_row_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is no ornament: a scan that leaves a row out makes a history fail."""
    from tests.kit.shared_table import programs

    whole = programs.rows_of
    monkeypatch.setattr(programs, "rows_of", lambda scan, threads: dict(list(whole(scan, threads).items())[1:]))
    with pytest.raises(AssertionError, match="what a new process sees"):
        check_seed(7, 4, shorten=False)


def test_a_seed_is_a_history() -> None:
    assert str(history_of(5, 30)) == str(history_of(5, 30))
    assert str(history_of(5, 30)) != str(history_of(6, 30))
