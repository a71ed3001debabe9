"""One figure, and how a case is run in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lakeidx.storage.base import ObjectStore
from lakeidx.testing.metered_store import MeteredStore
from lakeidx.testing.peak_memory import peak_mib

#: Seconds that a request to the slow store takes, and how many ranges of one call run at a time.
REQUEST_SECONDS, RANGES_AT_A_TIME = 0.03, 16


@dataclass(frozen=True, slots=True)
class Figure:
    """What a case takes; None: not of this case.

    mib           MiB that are moved, sent or taken beyond what the process had; `peak_mib`: of the whole process
    read_share    bytes that are read, of all there are
    times_upsert  processor seconds, of those of the upsert that is checked
    """

    case: str
    seconds: float | None = None
    cpu_seconds: float | None = None
    requests: int | None = None
    mib: float | None = None
    peak_mib: int | None = None
    read_share: float | None = None
    times_upsert: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert, without what it does not have."""
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items() if v is not None}


class SlowStore(MeteredStore):
    """Counts requests, each of which takes as long as one to an object store."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)

    @property
    def waits(self) -> bool:
        """True: as those to an object store do."""
        return True

    def _add(self, verb: str, size: int = 0, *, requests: int = 1) -> None:
        super()._add(verb, size, requests=requests)
        time.sleep(REQUEST_SECONDS * -(-requests // RANGES_AT_A_TIME))


class Clock:
    """Seconds, processor seconds and memory since it was made, of this process and its threads."""

    def __init__(self) -> None:
        self._peak = peak_mib()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        """Return seconds by the clock, and of the processors."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu

    def mib(self) -> int:
        """Return what the process has taken at most beyond what it had."""
        return peak_mib() - self._peak


def in_new_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run something in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def in_bare_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a process that imports nothing but the module it is in: for times since the start of a process."""
    code = (
        f"import pickle, sys; from {work.__module__} import {work.__name__} as work;"
        "sys.stdout.buffer.write(pickle.dumps(work(*pickle.load(sys.stdin.buffer))))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(arguments), stdout=subprocess.PIPE, check=True, env=environment
    )
    return pickle.loads(done.stdout)
