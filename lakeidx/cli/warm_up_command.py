"""``lakeidx warm-up``: compile all kernels now, so that no batch waits for them."""

from __future__ import annotations

import time

from lakeidx.cli.context import NoProgress, one_clear_line, stages
from lakeidx.cli.output import print_json
from lakeidx.pipeline.compile_kernels import compile_kernels


@one_clear_line
def warm_up(no_progress: NoProgress = False) -> None:
    """Compile the kernels of every kind of table; after that they are loaded from disk."""
    started = time.monotonic()
    with stages(no_progress) as tell:
        kinds = compile_kernels(tell)
    print_json({"kinds": kinds, "seconds": round(time.monotonic() - started, 1)})
