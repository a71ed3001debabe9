"""Pairs of keys and files that may hold them, by the files' key ranges.

The bounds of all files cut the key space into **slots**: slot 2i + 1 is the i-th distinct bound itself, slot 2i the
open stretch before it. Keys of one slot have the same candidates, and a file's candidates are the keys of
neighbouring slots. So keys are brought into slot order once, and every file's candidate keys are one slice of that
order: the (file, key) pairs are never spelled out, however many there are.

Hudi has an interval tree and a list filter for it, which give the same set.

source   org.apache.hudi.index.bloom.{KeyRangeLookupTree,IntervalTreeBasedIndexFileFilter,ListBasedIndexFileFilter},
         1.0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.hudi.hashes import FIRST_MOVED_BYTE, java_order
from lakeidx.codec.jit import kernel
from lakeidx.codec.rows.rowbytes import RowBytes

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SlotRanges:
    """Ranges and keys in slots.

    keys       int64[n] slot of each key
    low, high  int64[F] slots of each file's bounds, inclusive; low > high = as if without a range
    always     bool[F] files without a range: candidates for every key
    """

    keys: Ints
    low: Ints
    high: Ints
    always: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidate keys of each file.

    order   int64[n] key positions in slot order
    starts  int64[F], stops int64[F]: file f's candidates are order[starts[f]:stops[f]]
    """

    order: Ints
    starts: Ints
    stops: Ints

    def keys_of(self, file: int) -> Ints:
        """Return the positions of the keys that may be in a file."""
        return self.order[self.starts[file] : self.stops[file]]

    @property
    def counts(self) -> Ints:
        """int64[F] comparisons per file."""
        return self.stops - self.starts


def int_slots(keys: Ints, low: Ints, high: Ints, always: npt.NDArray[np.bool_]) -> SlotRanges:
    """Return the slots of integer keys and bounds (files in `always` have any bounds)."""
    ranged = ~always
    bounds = np.unique(np.concatenate([low[ranged], high[ranged]]))
    return SlotRanges(
        _slots_among(keys, bounds),
        np.where(always, 0, _slots_among(low, bounds)),
        np.where(always, 0, _slots_among(high, bounds)),
        always,
    )


def _slots_among(values: Ints, bounds: Ints) -> Ints:
    at = np.searchsorted(bounds, values)
    exact = np.zeros(len(values), np.bool_)
    if len(bounds):
        exact = bounds[np.minimum(at, len(bounds) - 1)] == values
    return (2 * at + exact).astype(np.int64)


def bytes_slots(keys: RowBytes, low: Sequence[bytes | None], high: Sequence[bytes | None]) -> SlotRanges:
    """Return the slots of byte-string keys and bounds in byte order; a file without a bound has no range."""
    always = np.array([a is None or b is None for a, b in zip(low, high, strict=True)], np.bool_)
    bounds = sorted({v for pair in zip(low, high, strict=True) for v in pair if v is not None})
    rank = {bound: 2 * i + 1 for i, bound in enumerate(bounds)}
    packed = RowBytes.from_list(bounds)
    slots = np.empty(len(keys), np.int64)
    _bytes_slots(frozen(packed.data), frozen(packed.offsets), frozen(keys.data), frozen(keys.offsets), slots)
    slot_of = [
        [0 if off or v is None else rank[v] for v, off in zip(ends, always, strict=True)] for ends in (low, high)
    ]
    return SlotRanges(slots, np.array(slot_of[0], np.int64), np.array(slot_of[1], np.int64), always)


def text_slots(keys: RowBytes, low: Sequence[bytes | None], high: Sequence[bytes | None]) -> SlotRanges:
    """Return the slots of record keys against ranges out of footers (UTF-8), in Java's string order.

    Whether a footer's range was taken in Java's order or in UTF-8 order no one wrote down. They can disagree only
    where key and bound both have bytes from 0xEE on; a file whose bounds have such bytes therefore counts as one
    without a range when any key has them, too.
    """
    plain_keys = not len(keys.data) or int(keys.flat.max(initial=0)) < FIRST_MOVED_BYTE
    if not plain_keys:
        unclear = [
            a is not None and b is not None and max(a + b, default=0) >= FIRST_MOVED_BYTE
            for a, b in zip(low, high, strict=True)
        ]
        low = [None if u else v for v, u in zip(low, unclear, strict=True)]
        high = [None if u else v for v, u in zip(high, unclear, strict=True)]
    mapped = [[None if v is None else java_order(RowBytes.from_list([v]))[0] for v in ends] for ends in (low, high)]
    return bytes_slots(java_order(keys), mapped[0], mapped[1])


def find_candidates(slots: SlotRanges) -> Candidates:
    """Find the candidate keys of each file, by two searches in the keys' slots in order."""
    order = np.argsort(slots.keys, kind="stable").astype(np.int64, copy=False)
    ordered = slots.keys[order]
    # A range that contradicts itself (bounds of two string orders, damage) rules nothing out.
    always = slots.always | (slots.low > slots.high)
    starts = np.where(always, 0, np.searchsorted(ordered, slots.low, side="left"))
    stops = np.where(always, len(order), np.searchsorted(ordered, slots.high, side="right"))
    return Candidates(order, starts.astype(np.int64, copy=False), stops.astype(np.int64, copy=False))


@kernel
def _bytes_slots(bounds: Any, bound_offsets: Any, data: Any, offsets: Any, out: Any) -> None:
    count = len(bound_offsets) - 1
    for i in range(len(out)):
        start, end = offsets[i], offsets[i + 1]
        low, high = 0, count
        exact = 0
        # The first bound that is not below the key.
        while low < high:
            middle = (low + high) >> 1
            at, stop = bound_offsets[middle], bound_offsets[middle + 1]
            j, order = 0, 0
            while at + j < stop and start + j < end:
                if bounds[at + j] != data[start + j]:
                    order = -1 if bounds[at + j] < data[start + j] else 1
                    break
                j += 1
            if order == 0:
                order = (stop - at > end - start) - (stop - at < end - start)
            if order < 0:
                low = middle + 1
            else:
                high = middle
                if order == 0:
                    exact = 1
        out[i] = 2 * low + exact
