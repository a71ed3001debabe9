"""Numba, and a word before it compiles.

A process that compiles says so once, to this module's logger at INFO; the command line shows it. `lakeidx.codec.jit` imports this
module when the first kernel needs it.
"""

from __future__ import annotations

import logging
from typing import Any

import numba
from numba.core import event as events

from lakeidx.codec import shipped

log = logging.getLogger(__name__)


class _Word(events.Listener):
    """Logs before the first kernel is compiled that this takes time; nothing when kernels are found on disk."""

    said = False

    def on_start(self, event: Any) -> None:
        """Note a compilation that starts, unless it is another package's."""
        if not self.said and str(event.data["dispatcher"].py_func.__module__).startswith("lakeidx."):
            self.said = True
            why = shipped.why_none()
            log.info(
                "compiling kernels that this command needs, seconds and once%s; `lakeidx warm-up` compiles all (a minute)",
                f" ({why})" if why else "",
            )

    def on_end(self, event: Any) -> None:
        """Do nothing."""


events.register("numba:compile", _Word())  # type: ignore[no-untyped-call]


njit = numba.njit
