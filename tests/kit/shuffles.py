"""Two functions as what the tasks of a shuffle do."""

from __future__ import annotations

from typing import Any, NamedTuple


class Tasks(NamedTuple):
    """A `lakeidx.tasks.runner.Shuffle` of functions; pickles as they do."""

    split: Any
    combine: Any
