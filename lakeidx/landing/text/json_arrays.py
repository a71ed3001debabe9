"""JSON files that are one array of rows, or an object with the array in a member: as JSON lines, a row a line, with their lines.

A kernel finds where rows end, minding strings and nesting; line ends between the values of a row become blanks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.errors import InvalidInputError

_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:]|[^\s{}\[\],:"]+', re.DOTALL)
#: Places of the kernel's state.
_DEPTH, _QUOTED, _ESCAPED, _FILLED, _LINE, _DONE, _ROWS = range(7)


def is_array(first: bytes, member: str | None) -> bool:
    """Return True for a text that is no JSON lines, by its first bytes."""
    return member is not None or first.removeprefix(_BOM).lstrip()[:1] == b"["


def arrays_in(first: bytes) -> list[str]:
    """Return the members of an object over several lines that are arrays, by its first bytes; none for objects a line."""
    line, _, more = first.removeprefix(_BOM).lstrip().partition(b"\n")
    try:
        value = json.loads(line)
    except ValueError:
        return _find_array(first.removeprefix(_BOM), [""])[1] if more.strip() and line.startswith(b"{") else []
    return [] if more.strip() else [n for n, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)]


class ArrayRows:
    """The rows of an array as JSON lines that can be read; `lines` are those of the file on which they begin.

    source   binary file
    member   path of the array in an object, ``result.items``; None: the file is an array
    errors   InvalidInputError without such an array, or when it does not end
    """

    def __init__(self, source: Any, path: str, member: str | None) -> None:
        self._source, self._path = source, path
        self._rest = bytes(source.read(1 << 16)).removeprefix(_BOM)
        self._lines: list[NDArray[np.int64]] = []
        at = self._begin_of(member)
        self._state = np.zeros(7, np.int64)
        self._state[_LINE] = 1 + self._rest[:at].count(b"\n")
        self._rest = self._rest[at:]
        self._whole = member is None

    def lines_of(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the lines of the file on which rows begin, by their numbers from 1."""
        if len(self._lines) > 1:
            self._lines = [np.concatenate(self._lines)]
        return self._lines[0][np.asarray(rows, np.int64) - 1]

    def read(self, size: int) -> bytes:
        """Read some rows; none at the end of the array."""
        while not self._state[_DONE]:
            data, self._rest = self._rest or bytes(self._source.read(size)), b""
            if not data:
                raise InvalidInputError("the JSON array is not closed: the file is not whole", path=self._path)
            out = np.empty(2 * len(data) + 2, np.uint8)
            begins = np.empty(len(data) + 1, np.int64)
            used, written = _rows(frozen(np.frombuffer(data, np.uint8)), out, begins, self._state)
            self._lines.append(begins[: self._state[_ROWS]].copy())
            self._state[_ROWS] = 0
            if self._state[_DONE] and self._whole and (data[used:] + bytes(self._source.read(1 << 16))).strip():
                line = int(self._state[_LINE])
                raise InvalidInputError(f"there is more after the JSON array that ends in line {line}", path=self._path)
            if written:
                return out[:written].tobytes()
        return b""

    def _begin_of(self, member: str | None) -> int:
        """Return the number of bytes before the first row; reads as much as that takes."""
        if member is None:
            return self._rest.index(b"[") + 1
        while True:
            found, names = _find_array(self._rest, member.split("."))
            if found:
                return found
            more = bytes(self._source.read(max(len(self._rest), 1 << 16)))
            if not more:
                known = ", ".join(names) or "none"
                raise InvalidInputError(
                    f"there is no array in the member {member!r} of a JSON object; arrays are in: {known}",
                    path=self._path,
                )
            self._rest += more


def _find_array(data: bytes, member: Sequence[str]) -> tuple[int, list[str]]:
    """Return the bytes before the first value of the array, 0 when it is not found, and the members that are arrays."""
    inside: list[bytes] = []
    keys: list[str] = []
    arrays: list[str] = []
    last = b""
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text == b":":
            keys = [*keys[: len(inside) - 1], str(json.loads(last))]
        elif text in (b"{", b"["):
            if text == b"[" and inside and b"[" not in inside:
                if keys[: len(inside)] == list(member):
                    return token.end(), arrays
                arrays.append(".".join(keys[: len(inside)]))
            inside.append(text)
        elif text in (b"}", b"]"):
            if not inside:
                break
            inside.pop()
        elif text.startswith(b'"'):
            last = text
    return 0, arrays


@kernel
def _rows(
    data: NDArray[np.uint8], out: NDArray[np.uint8], begins: NDArray[np.int64], state: NDArray[np.int64]
) -> tuple[int, int]:
    """Write the rows of a block as lines; return the bytes that were used, and written. State goes on with the next block."""
    depth, quoted, escaped, filled, line = state[0], state[1], state[2], state[3], state[4]
    rows, at, i, n = 0, 0, 0, len(data)
    done = False
    while i < n and not done:
        c = data[i]
        i += 1
        if c == 10:
            line += 1
        if quoted:
            if escaped:
                escaped = 0
            elif c == 92:
                escaped = 1
            elif c == 34:
                quoted = 0
            # A line end in a string is no JSON, and stays none.
            out[at] = 1 if c == 10 else c
            at += 1
            continue
        blank = c in (32, 9, 10, 13)
        if depth == 0 and (c == 44 or c == 93):
            if c == 93 and filled == 0:
                done = True
                continue
            if filled < 2:
                # Between two commas is no value: a line that is none says so.
                begins[rows] = line
                rows += 1
                out[at] = 44
                at += 1
            out[at] = 10
            at += 1
            filled = 1
            done = c == 93
            continue
        if not blank and filled < 2:
            begins[rows] = line
            rows += 1
            filled = 2
        if c == 34:
            quoted = 1
        elif c in (123, 91):
            depth += 1
        elif c in (125, 93):
            depth -= 1
        if not blank or filled == 2:
            out[at] = 32 if blank else c
            at += 1
    state[0], state[1], state[2], state[3], state[4] = depth, quoted, escaped, filled, line
    state[5], state[6] = int(done), rows
    return i, at
