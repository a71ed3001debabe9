"""Kernels over manifest entries: identities as 128-bit hashes, matching by them, and checks of names.

Two files have one hash with a probability below 1e-26 in a table of a million; names hold a random UUID, so nobody can aim at
one. Matching by hash is the fast twin of matching `lakeidx.format.manifest.ManifestEntry.identifier`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel, load_u64
from lakeidx.format.manifest import MANIFEST_VERSION, FileKind

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

_HIGH, _LOW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_ABSENT = -(1 << 63)
_ADD = int(FileKind.ADD)
_VERSION = int(MANIFEST_VERSION)


def hash_identities(data: bytes, slots: Int64s, numbers: Int64s, pieces: Int64s) -> tuple[UInt64s, UInt64s]:
    """Hash what an ADD and its DELETE agree in.

    data      the records, and eight bytes behind the last one
    slots     int64[slots, n] of the records, as `lakeidx.codec.containers.avro_walk` gives them
    numbers   slots of numbers
    pieces    int64[p, 2]: first slots of byte strings, and 1 where the second one is the end, not the length; position ABSENT: none
    returns   uint64[n] twice: 128 bits
    """
    high, low = np.empty(slots.shape[1], np.uint64), np.empty(slots.shape[1], np.uint64)
    _hash(frozen(np.frombuffer(data, np.uint8)), frozen(slots), frozen(numbers), frozen(pieces), high, low)
    return high, low


def live_entries(kind: npt.NDArray[np.int8], high: UInt64s, low: UInt64s) -> tuple[Int64s, int]:
    """Fold ADD and DELETE entries.

    returns   positions of the live ADD entries, ascending; position of one that is added twice, -1 when none is
    """
    keep = np.zeros(len(kind), np.bool_)
    twice = _fold(frozen(kind), frozen(high), frozen(low), frozen(np.lexsort((low, high))), keep)
    return keep.nonzero()[0], int(twice)


def uncancelled_entries(kind: npt.NDArray[np.int8], high: UInt64s, low: UInt64s) -> Int64s:
    """Drop each ADD that a later DELETE removes, and that DELETE.

    returns   positions of the entries that are left, ascending
    """
    keep = np.zeros(len(kind), np.bool_)
    _cancel(frozen(kind), frozen(high), frozen(low), frozen(np.lexsort((low, high))), keep)
    return keep.nonzero()[0]


def found_in(high: UInt64s, low: UInt64s, other_high: UInt64s, other_low: UInt64s) -> npt.NDArray[np.bool_]:
    """Return which identities are among others.

    returns   bool[n]
    """
    pair: Any = [("high", np.uint64), ("low", np.uint64)]
    mine, others = np.empty(len(high), pair), np.empty(len(other_high), pair)
    mine["high"], mine["low"], others["high"], others["low"] = high, low, other_high, other_low
    likely = np.isin(high, other_high)
    likely[likely] = np.isin(mine[likely], others)
    return likely


def sound_entries(data: bytes | memoryview, slots: Int64s, must: Int64s, name: int) -> bool:
    """Return False when an entry has not all its fields, is of another version or kind, or its file's name is none, as
    `lakeidx.storage.files.plain_name` has it.

    slots   int64[slots, n] of the records
    must    slots that no record is without, those of version and kind first
    name    first slot of the file's name
    """
    return bool(_sound(frozen(np.frombuffer(data, np.uint8)), frozen(slots), frozen(must), name))


@kernel
def _sound(data, slots, must, name):  # type: ignore[no-untyped-def]
    for row in range(slots.shape[1]):
        for slot in must:
            if slots[slot, row] == _ABSENT:
                return False
        if slots[must[0], row] != _VERSION or not (0 <= slots[must[1], row] <= 1):
            return False
        start, length, dots = slots[name, row], slots[name + 1, row], 0
        for at in range(start, start + length):
            if data[at] == 47 or data[at] == 0:
                return False
            if data[at] == 46:
                dots += 1
        if length == 0 or (length <= 2 and dots == length):
            return False
    return True


@kernel
def _mixed(h, word, by):  # type: ignore[no-untyped-def]
    h = (h ^ word) * by
    return h ^ (h >> np.uint64(29))


@kernel
def _hash(data, slots, numbers, pieces, high, low):  # type: ignore[no-untyped-def]
    for row in range(slots.shape[1]):
        a, b = _HIGH, _LOW
        for slot in numbers:
            a, b = _mixed(a, np.uint64(slots[slot, row]), _LOW), _mixed(b, np.uint64(slots[slot, row]), _HIGH)
        for p in range(len(pieces)):
            at, length = slots[pieces[p, 0], row], slots[pieces[p, 0] + 1, row]
            if at == _ABSENT:
                a, b = _mixed(a, np.uint64(1) << np.uint64(63), _LOW), _mixed(b, np.uint64(1) << np.uint64(63), _HIGH)
                continue
            if pieces[p, 1]:
                length -= at
            a, b = _mixed(a, np.uint64(length), _LOW), _mixed(b, np.uint64(length), _HIGH)
            while length > 0:
                word = load_u64(data, at)
                if length < 8:
                    word &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
                a, b = _mixed(a, word, _LOW), _mixed(b, word, _HIGH)
                at += 8
                length -= 8
        high[row], low[row] = a, b


@kernel
def _fold(kind, high, low, order, keep):  # type: ignore[no-untyped-def]
    i = 0
    while i < len(order):
        first = order[i]
        live, waiting = -1, False
        while i < len(order) and high[order[i]] == high[first] and low[order[i]] == low[first]:
            at = order[i]
            i += 1
            if kind[at] != _ADD:
                # A DELETE may stand before its ADD when manifests were merged out of order.
                waiting = waiting or live < 0
                live = -1
            elif waiting:
                waiting = False
            elif live >= 0:
                return at
            else:
                live = at
        if live >= 0:
            keep[live] = True
    return -1


@kernel
def _cancel(kind, high, low, order, keep):  # type: ignore[no-untyped-def]
    i = 0
    while i < len(order):
        first = order[i]
        left = -1
        while i < len(order) and high[order[i]] == high[first] and low[order[i]] == low[first]:
            at = order[i]
            i += 1
            left = -1 if kind[at] != _ADD and left >= 0 and kind[left] == _ADD else at
        if left >= 0:
            keep[left] = True
