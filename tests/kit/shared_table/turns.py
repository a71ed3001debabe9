"""Lets programs take turns at every call of the store; each may stop for long, or die, at a call of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError
from lakeidx.storage.local import LocalStore
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.shared_table.programs import Killed

#: How likely the program that made a call makes the next one, too.
_STEADY = (0.5, 0.9, 0.97, 0.99)
_FOR_EVER = 10**9


@dataclass(eq=False)
class Program:
    """One program: what it does, and what became of it.

    batch       id of the batch that it runs; empty for other programs
    dies_at     number of the call of the store at which it dies; `after`: when the call has been done
    stalls_at   number of the call before which it stops until the others can do no more; 0: before it puts a snapshot
    error       how it ended, None: well
    """

    name: str
    act: Callable[[Table], Any]
    batch: str = ""
    dies_at: int | None = None
    after: bool = False
    stalls_at: int | None = None
    thread: threading.Thread | None = None
    calls: int = 0
    dead: bool = False
    parked: bool = False
    stalled: bool = False
    granted: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: bool = False
    error: BaseException | None = None

    def __str__(self) -> str:
        dies = "" if self.dies_at is None else f" (dies {'after' if self.after else 'before'} call {self.dies_at})"
        return f"{self.name}{dies}: {'done' if self.error is None else repr(self.error)[:200]}"


class Turns:
    """Lets one program at a time run, up to its next call of the store.

    order   what was done, call by call
    """

    def __init__(self, rng: random.Random, open_table: Callable[[FaultStore], Table], store: LocalStore) -> None:
        self._rng = rng
        self._steady = rng.choice(_STEADY)
        self._open, self._store = open_table, store
        self._changed = threading.Condition()
        self.order: list[str] = []

    def run(self, programs: Sequence[Program]) -> None:
        """Run programs to their ends."""
        for program in programs:
            program.thread = threading.Thread(target=self._thread, args=(program,), daemon=True)
            program.thread.start()
        last: Program | None = None
        while waiting := self._waiting(programs):
            if able := [p for p in waiting if not p.stalled]:
                waiting = able
            else:
                for program in waiting:
                    program.stalled = False
            if last not in waiting or self._rng.random() > self._steady:
                last = self._rng.choice(waiting)
            last.parked = False
            last.granted.release()
        for program in programs:
            assert program.thread is not None
            program.thread.join()

    def _waiting(self, programs: Sequence[Program]) -> list[Program]:
        with self._changed:
            if not self._changed.wait_for(lambda: all(p.parked or p.ended for p in programs), timeout=HANGS_SECONDS):
                raise AssertionError("a program makes no calls and does not end: " + "; ".join(map(str, programs)))
            return [p for p in programs if p.parked]

    def _thread(self, program: Program) -> None:
        store = FaultStore(self._store)
        store.fail((), act=lambda verb, path: self._call(program, verb, path), times=_FOR_EVER)
        store.fail((), when="after", act=lambda verb, path: self._called(program), times=_FOR_EVER)
        self._park(program)
        try:
            program.act(self._open(store))
        except (LakeIdxError, AssertionError, Killed) as error:
            program.error = error
        finally:
            with self._changed:
                program.ended = True
                self._changed.notify_all()

    def _call(self, program: Program, verb: str, path: str) -> None:
        if program.dead:
            raise Killed
        if threading.current_thread() is not program.thread:
            return
        at_put = program.stalls_at == 0 and verb == "put_if_absent" and "/snapshot/" in path
        if at_put or program.calls + 1 == program.stalls_at:
            program.stalled, program.stalls_at = True, None
            self.order.append(f"{program.name} stalls")
        self._park(program)
        self.order.append(f"{program.name}: {verb} {'/'.join(path.rsplit('/', 2)[1:])}")
        program.calls += 1
        if program.calls == program.dies_at and not program.after:
            program.dead = True
            raise Killed

    def _called(self, program: Program) -> None:
        if program.dead or (program.calls == program.dies_at and threading.current_thread() is program.thread):
            program.dead = True
            raise Killed

    def _park(self, program: Program) -> None:
        with self._changed:
            program.parked = True
            self._changed.notify_all()
        program.granted.acquire()
