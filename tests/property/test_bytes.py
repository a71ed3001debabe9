"""Every kind of file that lakeidx reads, each byte flipped and each length cut: one clear error, or the right answer.

An error is a `LakeIdxError` of one line that says where. Anything else (a traceback of a library, running out of memory or
time) fails. So does another answer, but for the kinds of `tests.kit.file_kinds` that say why nobody could notice; docs/security.md
lists them.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lakeidx.errors import LakeIdxError
from tests.kit.file_kinds import KINDS, Case
from tests.kit.share import share_of

_SAMPLE = 12
#: Up to so many bytes a file is tried with both masks; in a larger one each byte gets one of them.
_SMALL = 400
_MASKS = (0xFF, 0x01)
#: What reading a small file may take besides the file: buffers of decompressors, pages of the allocator, first imports.
_SPARE_BYTES = 48 << 20
#: A byte of an ORC file can make Arrow multiply a decimal two thousand million times: five seconds on a slow machine.
_CPU_SECONDS = 20.0


@contextmanager
def _bounded_time(what: str) -> Iterator[None]:
    """AssertionError after some seconds of the processor: of work, however busy the machine is."""

    def late(*_: Any) -> None:
        raise AssertionError(f"{what} takes more than {_CPU_SECONDS} s of the processor")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class PeakMemory:
    """Most memory the process had at a time since the last start, by the kernel's count: of all allocators, compiled code's too."""

    def start(self) -> None:
        os.pwrite(_opened("/proc/self/clear_refs", os.O_WRONLY), b"5", 0)
        self._before = self._peak()

    def more(self) -> int:
        """Bytes above what there was at the start."""
        return self._peak() - self._before

    @staticmethod
    def _peak() -> int:
        status = os.pread(_opened("/proc/self/status", os.O_RDONLY), 1 << 16, 0)
        return int(status.partition(b"VmHWM:")[2].split(None, 1)[0]) << 10


@cache
def _opened(path: str, flags: int) -> int:
    """A descriptor that stays open: what is asked for thousands of files is not opened each time."""
    return os.open(path, flags)


class _Trial:
    """One file whose content is replaced again and again."""

    def __init__(self, case: Case, *, sealed: bool) -> None:
        self.case, self.sealed = case, sealed
        self.good = case.file.read_bytes()
        self.answer = case.read(case.file)
        self.memory = PeakMemory()
        assert case.read(case.file) == self.answer, "the answer is not the same each time"

    def run(self, flips: Sequence[tuple[int, int]], cuts: Sequence[int]) -> None:
        try:
            for at, mask in flips:
                data = bytearray(self.good)
                data[at] ^= mask
                self._one(bytes(data), f"byte {at} ^ {mask:#x} of {self.case.file.name}")
            for length in cuts:
                self._one(self.good[:length], f"{self.case.file.name} cut to {length} bytes")
        finally:
            self.case.file.write_bytes(self.good)

    def _one(self, data: bytes, what: str) -> None:
        self.case.file.write_bytes(data)
        self.memory.start()
        answer, error = self._read(what)
        if error is not None:
            # The schema's options and columns are named themselves.
            named = error.path is not None or error.message.startswith(("option '", "column '"))
            assert named, f"{what}: {error} does not say where"
            assert "\n" not in str(error), f"{what}: more than a line: {error}"
        else:
            assert answer == self.answer or not self.sealed, f"{what}: another answer, {answer}"
        more = self.memory.more()
        assert more <= 4 * len(self.good) + _SPARE_BYTES, f"{what}: {more} bytes of memory"

    def _read(self, what: str) -> tuple[Any, LakeIdxError | None]:
        with _bounded_time(what):
            try:
                return self.case.read(self.case.file), None
            except LakeIdxError as error:
                return None, error


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_some_bytes(kind: str, tmp_path: Path) -> None:
    """A sample, drawn anew for each kind."""
    trial = _Trial(KINDS[kind].make(tmp_path), sealed=KINDS[kind].unsealed is None)
    draw, size = random.Random(kind), len(trial.good)
    flips = sorted(draw.sample(range(size), min(_SAMPLE, size)))
    cuts = sorted(draw.sample(range(size), min(_SAMPLE // 2, size)))
    trial.run([(at, mask) for mask in _MASKS for at in flips], [0, *cuts])


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_byte(kind: str, tmp_path: Path) -> None:
    """All bytes and all lengths, or the share of them that `tests.kit.share` chooses."""
    trial = _Trial(KINDS[kind].make(tmp_path), sealed=KINDS[kind].unsealed is None)
    draw, size = random.Random(kind), len(trial.good)
    both = [(at, mask) for at in range(size) for mask in _MASKS]
    flips = both if size <= _SMALL else [(at, draw.choice(_MASKS)) for at in range(size)]
    trial.run(share_of(flips, 0.12), share_of(range(size), 0.12))
