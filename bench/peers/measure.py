"""Run one peer through all phases: a check after each, and only a right result becomes a figure."""

from __future__ import annotations

import json
import math
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.peers.base import Answer
from bench.peers.data import READ_ROUNDS, Data
from bench.peers.environments import ROOT, MissingError, PeerKind, python_of

#: Name of a phase, what the peer is told to do, and the file it gets.
PHASES = (
    ("load", "load", "load"),
    ("upsert", "upsert", "upsert"),
    ("small upsert", "upsert", "small"),
    ("scan, merged", "scan", ""),
    ("compaction", "compact", ""),
    ("scan", "scan", ""),
    ("lookup", "lookup", "keys"),
    ("delete by keys", "delete", "gone"),
    ("update", "update", "changed"),
    ("merge", "merge", "merged"),
)
#: What changes the table, by the name that stands for it in `Data`, and the command.
WRITTEN = {
    "load": "load", "upsert": "upsert", "small": "upsert", "gone": "delete", "changed": "update", "merged": "merge"
}  # fmt: skip
#: What is done several times, unless somebody says otherwise: reads.
READS = ("scan", "lookup")
#: What took longer is not done again.
REPEATED_UP_TO_S = 10.0
#: What a process may take to start and to do all phases on the small table: Delta's takes two minutes on a machine that does more.
WARM_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One phase of one peer; seconds only when its result was right. Memory is the largest sum over its processes, in MiB.

    status   ok, missing, not begun, not supported, failed, wrong, over the limit, not reached
    """

    peer: str
    phase: str
    status: str
    why: str = ""
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_mib: int | None = None


class SlowError(Exception):
    """A command took longer than it may."""


class Tree:
    """Processor time and memory of a process and all below it; it is ended when it takes more than `most` MiB."""

    def __init__(self, pid: int, most: float) -> None:
        self._top = psutil.Process(pid)
        self.peak, self.most = 0, most

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._top, *self._top.children(recursive=True)]
        except psutil.Error:
            return []

    def cpu(self) -> float:
        """Return the seconds so far; those of ended processes are in their parent's account."""
        total = 0.0
        for process in self._processes():
            try:
                used = process.cpu_times()
            except psutil.Error:
                continue
            total += used.user + used.system + used.children_user + used.children_system
        return total

    def _sample(self) -> None:
        now = 0
        for process in self._processes():
            try:
                now += process.memory_info().rss
            except psutil.Error:
                continue
        self.peak = max(self.peak, now >> 20)
        if self.peak > self.most:
            with suppress(psutil.Error):
                self._top.kill()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Sample memory meanwhile."""
        self.peak, done = 0, threading.Event()

        def sample() -> None:
            while not done.wait(0.05):
                self._sample()

        self._sample()
        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self._sample()


class Worker:
    """The process of a peer."""

    def __init__(self, kind: PeerKind, python: Path, folder: Path, rows: int, most: float) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        given = {"LAKEIDX_PEER_JAR": str(kind.jar())} if kind.jar else {}
        self._errors = (folder.parent / f"{folder.name}.log").open("w")
        self._process = subprocess.Popen(
            [str(python), "-m", "bench.peers.worker", kind.module, str(folder), str(rows)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python), **given},
        )  # fmt: skip
        self.tree = Tree(self._process.pid, most)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, do: str, file: Path | None, limit: float) -> dict[str, Any]:
        """Wait for the answer to a command."""
        command = {"do": do, **({"file": str(file)} if file else {})}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            raise SlowError(f"not done after {limit:.0f} s") from None
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": f"the process ended ({self._last_words()})"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        text = Path(self._errors.name).read_text(encoding="utf-8", errors="replace").strip()
        try:
            code = self._process.wait(10)
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            how = "no exit code"
        return f"{how}: {(text.splitlines() or ['no word'])[-1][:200]}"

    def end(self) -> None:
        """End it and all that it started: they are a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)
        self._errors.close()


@dataclass(slots=True)
class Run:
    """One peer on its way through the phases, and the names of the files that its table holds."""

    kind: PeerKind
    python: Path
    data: Data
    warm: Data
    folder: Path
    limit: float
    phases: Sequence[tuple[str, str, str]] = PHASES
    most_mib: float = math.inf
    repeated: Collection[str] = READS
    written: tuple[str, ...] = ()
    starts: int = 0
    worker: Worker | None = None

    def begin(self) -> Worker:
        """Start a process, make it warm with all phases on a small table, and bring its table where it was."""
        self.end()
        self.starts += 1
        folder = self.folder / f"{self.kind.module}-{self.starts}"
        worker = self.worker = Worker(self.kind, self.python, folder, self.data.rows, self.most_mib)
        steps = [
            ("begin", ""),
            *((do, "keys-1" if file == "keys" else file) for _, do, file in self.phases),
            ("begin", ""),
        ]
        end = time.monotonic() + WARM_LIMIT_S
        for do, file in steps:
            try:
                worker.ask(do, self.warm.files.get(file), max(0.0, end - time.monotonic()))
            except SlowError:
                raise SlowError(f"a small table was at its {do} after {WARM_LIMIT_S:.0f} s") from None
        for name in self.written:
            worker.ask(WRITTEN[name], self.data.files.get(name), self.limit)
        return worker

    def end(self) -> None:
        """End the process, if there is one, and remove its tables."""
        if self.worker is not None:
            self.worker.end()
            shutil.rmtree(self.worker.folder, ignore_errors=True)
            self.worker = None

    def phase(self, name: str, do: str, file: str) -> Figure:
        """Return the best of a phase's rounds, all of which must be right. After a failure the next one begins in a new process."""
        if not self.written and do != "load":
            return Figure(self.kind.name, name, "not reached", "nothing was loaded")
        try:
            figure = self._rounds(name, do, file)
        except SlowError as error:
            figure = Figure(self.kind.name, name, "over the limit", str(error))
        if figure.status not in ("ok", "not supported"):
            self.end()
        elif file in WRITTEN and figure.status == "ok":
            self.written = (*self.written, file)
        return figure

    def _rounds(self, name: str, do: str, file: str) -> Figure:
        worker = self.worker or self.begin()
        after = (*self.written, file) if file in WRITTEN else self.written
        best: Figure | None = None
        for n in range(READ_ROUNDS if do in self.repeated else 1):
            chosen = f"keys-{n + 1}" if file == "keys" else file
            want = self.data.found(after, chosen) if file == "keys" else self.data.held(after)
            figure = _step(self.kind.name, name, do, self.data.files.get(chosen), worker, want, self.limit)
            if figure.seconds is None:
                return figure
            best = figure if best is None or best.seconds is None or figure.seconds < best.seconds else best
            if figure.seconds > REPEATED_UP_TO_S:
                break
        assert best is not None
        return best


def run_peer(
    kind: PeerKind, data: Data, warm: Data, folder: Path, cache: Path, limit: float,
    phases: Sequence[tuple[str, str, str]] = PHASES, most_mib: float = math.inf, repeated: Collection[str] = READS,
) -> list[Figure]:  # fmt: skip
    """Measure the phases of a peer, each within so many seconds and so much memory.

    repeated   what a peer is told several times, and the best counts; an upsert must leave the same when it is done again
    """
    try:
        if kind.jar is not None:
            kind.jar()
        run = Run(kind, python_of(kind, cache), data, warm, folder, limit, phases, most_mib, repeated)
    except MissingError as error:
        return [Figure(kind.name, name, "missing", str(error)) for name, _, _ in phases]
    try:
        return [run.phase(*phase) for phase in phases]
    finally:
        run.end()


def _step(peer: str, name: str, do: str, file: Path | None, worker: Worker, want: Answer, limit: float) -> Figure:
    """Time one command, and check what it did."""
    cpu = worker.tree.cpu()
    with worker.tree.watch():
        done = worker.ask(do, file, limit)
    used, peak = worker.tree.cpu() - cpu, worker.tree.peak
    if peak > worker.tree.most:
        return Figure(peer, name, "over the limit", f"took more than {worker.tree.most:.0f} MiB")
    if "not_supported" in done:
        return Figure(peer, name, "not supported", done["not_supported"])
    proof = done if done.get("answer") or "error" in done else worker.ask("state", None, limit)
    if "error" in proof:
        return Figure(peer, name, "failed", proof["error"])
    wrong = difference(Answer(**proof["answer"]), want)
    if wrong:
        return Figure(peer, name, "wrong", wrong)
    return Figure(peer, name, "ok", "", round(done["seconds"], 3), round(used, 2), peak)


def difference(found: Answer, want: Answer) -> str:
    """Say in words what is wrong with an answer; nothing when it is right. Reads do not mix keys and values."""
    told = {k: (v, w) for (k, v), w in zip(asdict(found).items(), asdict(want).values(), strict=True) if v is not None}
    return ", ".join(f"{k} {v}, wanted {w}" for k, (v, w) in told.items() if v != w)
