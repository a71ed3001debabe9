"""Decoder of LZO1X, the one codec of Paimon's lookup files that no maintained Python library reads.

A stream is a row of instructions; `state` is the number of literals the last one copied (4 = four or more, or a literal run).

=============  =====================================================================================================
first byte     (only as byte 0 of the stream) 18..20: copy byte-17 literals, state = that; 21..255: copy byte-17 literals, state 4
0..15          state 0: literal run of 3 + low 4 bits (0: 18 + run), state 4
               state 1..3: ``0000DDSS H``: copy 2 bytes from distance 1 + D + 4 H
               state 4: ``0000DDSS H``: copy 3 bytes from distance 2049 + D + 4 H
16..31         ``0001HLLL [run] D D``: copy 2 + L (0: 9 + run) from 16384 + 16384 H + (u16 LE >> 2); exactly 16384 = end
32..63         ``001LLLLL [run] D D``: copy 2 + L (0: 33 + run) from 1 + (u16 LE >> 2)
64..127        ``01LDDDSS H``: copy 3 + L from 1 + D + 8 H
128..255       ``1LLDDDSS H``: copy 5 + L from 1 + D + 8 H
=============  =====================================================================================================

A run is any number of zero bytes (255 each) and one byte that is not zero. S (bits 0..1 of the byte before the literals, for
the u16 forms of its low byte) literals follow each copy.

source   the published description of the LZO1X stream; checked with blocks written by Paimon 1.4.2 and 0.9.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.jit import kernel
from lakeidx.errors import CorruptFileError

#: Why an instruction does not decode, in place of the position behind it.
_DAMAGED = -1


@kernel
def _length_field(op: Any, state: Any) -> Any:
    """Return (length, base) of an instruction: base is the smallest length of a form whose length field was 0, else 0."""
    if op < 16:
        if state == 0:
            return 3 + op, 18 if op == 0 else 0
        return 2 if state < 4 else 3, 0
    if op < 32:
        return 2 + (op & 7), 9 if op & 7 == 0 else 0
    if op < 64:
        return 2 + (op & 31), 33 if op & 31 == 0 else 0
    if op < 128:
        return 3 + (op >> 5 & 1), 0
    return 5 + (op >> 5 & 3), 0


@kernel
def _length_run(source: Any, at: Any, base: Any, most: Any) -> Any:
    """Return (length, next position) of a length that continues in a run of bytes."""
    length: Any = base
    while at < len(source) and source[at] == 0 and length <= most:
        length += 255
        at += 1
    if at >= len(source):
        return length, _DAMAGED
    return length + np.int64(source[at]), at + 1


@kernel
def _distance(source: Any, at: Any, op: Any, state: Any) -> Any:
    """Return (distance, literals after the copy, next position) of a copy's last bytes."""
    n = len(source)
    if 16 <= op < 64:
        if at + 2 > n:
            return np.int64(0), np.int64(0), _DAMAGED
        word = np.int64(source[at]) | np.int64(source[at + 1]) << 8
        return (word >> 2) + (1 if op >= 32 else 16384 + ((op & 8) << 11)), word & 3, at + 2
    if at + 1 > n:
        return np.int64(0), np.int64(0), _DAMAGED
    high = np.int64(source[at])
    if op < 16:
        return (1 if state < 4 else 2049) + (op >> 2) + (high << 2), op & 3, at + 1
    return 1 + (op >> 2 & 7) + (high << 3), op & 3, at + 1


@kernel
def _decode(source: Any, target: Any) -> Any:
    """Fill `target`; return -1 when the stream fits it exactly, else the position of the instruction that does not."""
    n, size = len(source), len(target)
    at: Any = 0
    out: Any = 0
    state: Any = 0
    literals: Any = 0
    if n and source[0] > 17:
        literals = np.int64(source[0]) - 17
        state = literals if literals < 4 else 4
        at = 1
        if at + literals > n or literals > size:
            return 0
        target[:literals] = source[at : at + literals]
        at += literals
        out += literals
    while at < n:
        start = at
        op: Any = np.int64(source[at])
        at += 1
        length, base = _length_field(op, state)
        if base:
            length, at = _length_run(source, at, base, size)
            if at == _DAMAGED:
                return start
        if op < 16 and state == 0:
            if at + length > n or out + length > size:
                return start
            target[out : out + length] = source[at : at + length]
            at += length
            out += length
            state = 4
            continue
        distance, literals, at = _distance(source, at, op, state)
        if at == _DAMAGED:
            return start
        if 16 <= op < 32 and distance == 16384:
            return -1 if at == n and out == size else start
        if distance > out or out + length + literals > size or at + literals > n:
            return start
        # Byte by byte: a copy may overlap what it writes.
        for i in range(out, out + length):
            target[i] = target[i - distance]
        out += length
        for i in range(literals):
            target[out + i] = source[at + i]
        out += literals
        at += literals
        state = literals
    return at


def decompress_lzo(
    payload: npt.NDArray[np.uint8], size: int, *, path: str | None = None, base: int = 0
) -> npt.NDArray[np.uint8]:
    """Decode one LZO1X stream that holds exactly `size` bytes.

    base     added to positions in errors
    returns  uint8[size]
    errors   CorruptFileError when the stream is damaged or holds another number of bytes
    """
    out = np.zeros(size, np.uint8)
    bad = _decode(np.ascontiguousarray(payload), out)
    if bad >= 0:
        raise CorruptFileError(
            f"LZO stream does not decompress to the {size} bytes it should", path=path, offset=base + int(bad)
        )
    return out
