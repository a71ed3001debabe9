"""Shares of large text files (CSV, JSON lines), so that several tasks read one file: whole records, with their line numbers.

Tasks first look through ranges of the file: how many lines begin there and, for CSV, what is inside quotes, for each state in which
the range may begin. From these the driver knows where every range's first record begins. A file is thus read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel

#: Bytes of a text file that one task reads, at most; larger files have several shares.
SHARE_BYTES = 256 << 20
_BLOCK_BYTES = 8 << 20
_PEEK_BYTES = 4096
_BOM = b"\xef\xbb\xbf"

#: States between two bytes of a CSV file: inside quotes, at the first byte of a line, after a delimiter, inside a value.
QUOTED, LINE_START, FIELD_START, IN_VALUE = range(4)
_STATES = 4


@dataclass(frozen=True, slots=True)
class TextShare:
    """Whole records of a text file.

    number       of the share in its file, from 0
    start, end   bytes
    line         number of its first line, from 1
    columns      csv: as the header names them; () for the share that begins with the header
    delimiter    csv: as the header says
    """

    number: int
    start: int
    end: int
    line: int
    columns: tuple[str, ...] = ()
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Crossing:
    """Findings on the way through a range of a text file, by the state it is entered in.

    start     bytes before the range
    ends      state after it
    breaks    bytes of the file before the first record that begins in the range; -1: none does
    before    lines that end in the range before that record begins
    lines     lines that end in the range
    """

    start: int
    ends: tuple[int, ...]
    breaks: tuple[int, ...]
    before: tuple[int, ...]
    lines: int


class ShareSource:
    """The bytes of a share, as a file that can be read."""

    def __init__(self, source: Any, share: TextShare) -> None:
        self._source, self._left = source, share.end - share.start
        source.seek(share.start)

    def read(self, size: int) -> bytes:
        """Read up to so many bytes; none at the end of the share."""
        data = bytes(self._source.read(min(size, self._left))) if self._left else b""
        self._left -= len(data)
        return data


def plan_ranges(size: int, *, share_bytes: int = SHARE_BYTES) -> list[tuple[int, int]]:
    """Plan ranges (start, end) of a text file, about even and of so many bytes at most; one when it is small."""
    count = max(-(-size // share_bytes), 1)
    return list(pairwise(size * i // count for i in range(count + 1)))


def cross_range(source: Any, start: int, end: int, delimiter: str | None) -> Crossing:
    """Scan a range of a text file.

    source      binary file that can seek
    delimiter   csv; None: JSON lines, where every line feed ends a record
    """
    first = 0 if start == 0 else _settled(source, start)
    last = _settled(source, end)
    source.seek(first)
    if start == 0 and source.read(len(_BOM)) != _BOM:
        source.seek(first)
    ends = np.arange(_STATES)
    breaks, before = np.full(_STATES, -1), np.zeros(_STATES, np.int64)
    lines, at, rest = 0, source.tell(), b""
    while at < last:
        block = bytes(source.read(min(_BLOCK_BYTES, last - at - len(rest))))
        if not block:
            break
        block = rest + block
        # What follows a quote or a carriage return decides what it means: they wait for the next block.
        used = len(block) if at + len(block) >= last else len(block.rstrip(b'"\r'))
        block, rest = block[:used], block[used:]
        if delimiter is None:
            found = _lines_of(block)
        else:
            found = _cross(frozen(np.frombuffer(block, np.uint8)), ord(delimiter), frozen(ends))
        to, first_break, lines_before, more = found
        fresh = (breaks < 0) & (first_break >= 0)
        breaks[fresh], before[fresh] = at + first_break[fresh], lines + lines_before[fresh]
        ends, lines, at = to, lines + more, at + len(block)
    return Crossing(first, tuple(ends.tolist()), tuple(breaks.tolist()), tuple(before.tolist()), int(lines))


def plan_text_shares(
    size: int,
    crossings: Sequence[Crossing],
    columns: Sequence[str] = (),
    *,
    header_bytes: int = 0,
    delimiter: str = ",",
) -> list[TextShare]:
    """Plan the shares of a file of whose ranges all is known.

    crossings      of its ranges, in order
    columns        csv: see `TextShare`
    header_bytes   bytes that the first share has at least
    delimiter      csv
    """
    begins: list[tuple[int, int]] = []
    state, line = LINE_START, 1
    for crossing in crossings:
        if state == LINE_START or not begins:
            begins.append((crossing.start, line))
        elif crossing.breaks[state] >= 0:
            begins.append((crossing.breaks[state], line + crossing.before[state]))
        state, line = crossing.ends[state], line + crossing.lines
    borders = [begins[0], *(b for b in begins[1:] if b[0] >= header_bytes), (size, line)]
    shares = [TextShare(0, s, e, n, tuple(columns), delimiter) for (s, n), (e, _) in pairwise(borders) if s < e]
    return [replace(s, number=i, columns=s.columns if i else ()) for i, s in enumerate(shares)]


def _settled(source: Any, at: int) -> int:
    """Return the first place from a byte on that does not follow a quote or carriage return, which depend on the next byte."""
    source.seek(at - 1)
    while data := bytes(source.read(_PEEK_BYTES)):
        other = len(data) - len(data.lstrip(b'"\r'))
        if other < len(data):
            return at + other
        at += len(data)
    return at - 1


def _lines_of(block: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    first = block.find(b"\n") + 1
    state = LINE_START if block.endswith(b"\n") else IN_VALUE
    return (
        np.full(_STATES, state),
        np.full(_STATES, first or -1),
        np.full(_STATES, 1 if first else 0),
        block.count(b"\n"),
    )


@kernel
def _cross(
    data: NDArray[np.uint8], delimiter: int, states: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """Cross a block from each state: int64[4] states after it, bytes before the first line that begins in it (-1: none), lines
    that end before that, and the number of lines that end at all, which is the same whatever the state.
    """
    quoted_state, line_start, field_start, in_value = 0, 1, 2, 3
    quote, newline, carriage = 34, 10, 13
    ends = states.copy()
    breaks = np.full(len(states), -1, np.int64)
    before = np.zeros(len(states), np.int64)
    lines, n = 0, len(data)
    for s in range(len(states)):
        state, count, same = states[s], 0, -1
        for other in range(s):
            if states[other] == state:
                same = other
        if same >= 0:
            ends[s], breaks[s], before[s] = ends[same], breaks[same], before[same]
            continue
        i = 0
        while i < n:
            c = data[i]
            if c == carriage and i + 1 < n and data[i + 1] == newline:
                i += 1
                c = data[i]
            if c in (newline, carriage):
                count += 1
                if state != quoted_state:
                    state = line_start
                    if breaks[s] < 0:
                        breaks[s], before[s] = i + 1, count
            elif state == quoted_state:
                if c == quote:
                    if i + 1 < n and data[i + 1] == quote:
                        i += 1
                    else:
                        state = in_value
            elif c == quote and state != in_value:
                state = quoted_state
            elif c == delimiter:
                state = field_start
            else:
                state = in_value
            i += 1
        ends[s] = state
        lines = count
    return ends, breaks, before, lines
