"""File index ``bsi`` (bit-sliced index): for every bit of a number the rows where it is set.

All **big endian** but R = roaring bitmap in the portable form (`lakeidx.codec.roaring`).

======================  ==============================================================================
piece                   bytes
======================  ==============================================================================
version                 u8 1
rows                    i32
has positive            u8; when 1: slices of the values >= 0
has negative            u8; when 1: slices of the absolute values of those < 0
slices                  u8 1, i64 min (always 0), i64 max, R of the rows with a value, i32 n, n of R
======================  ==============================================================================

Slice i holds the rows where bit i of ``value - min`` is set; n = bits of ``max - min``. Numbers as in
`lakeidx.file_index.kinds.value_keys`. The least 64-bit integer has no absolute value: Java fails to write it, here such a
file goes without the index.

source   org.apache.paimon.fileindex.bsi.BitSliceIndexBitmapFileIndex, utils.BitSliceIndexRoaringBitmap, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.roaring import read_bitmap, serialize_rows, serialize_slices
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, FileIndexWriter, Verdict
from lakeidx.file_index.kinds.value_keys import CollectingWriter, Numbers, is_cut, key_of
from lakeidx.predicate.tree import Compare, In, IsNull, Leaf, Op
from lakeidx.types import INT_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_LEAST = -(1 << 63)
_ROOTS = INT_ROOTS | TIMESTAMP_ROOTS | {Root.DATE, Root.TIME, Root.DECIMAL}


class BsiIndexer:
    """The type ``bsi``, which has no options."""

    name = "bsi"
    options: frozenset[str] = frozenset()

    def check(self, t: DataType, options: Mapping[str, str]) -> None:
        """Raise InvalidInputError for anything but integers, DECIMAL up to 18 digits, DATE, TIME and TIMESTAMP."""
        if t.root not in _ROOTS or (t.root is Root.DECIMAL and t.precision > 18):
            raise InvalidInputError(f"bsi cannot index {t.with_nullable(True)}")

    def create_writer(self, t: DataType, options: Mapping[str, str]) -> FileIndexWriter:
        """Make a writer for one file."""
        self.check(t, options)
        return CollectingWriter(t, lambda keys: _encode_bsi(keys.numbers()))

    def create_reader(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> FileIndexReader:
        """Make a reader; the whole payload is decoded."""
        return _BsiReader(t, payload, rows=rows, path=path)


def _encode_bsi(numbers: Numbers) -> bytes | None:
    """Encode a bit-sliced index; None when a value is the least 64-bit integer."""
    values, valid = numbers.values, numbers.valid
    known = np.ones(len(values), bool) if valid is None else valid
    if (values[known] == _LEAST).any():
        return None
    positive, negative = known & (values >= 0), known & (values < 0)
    head = struct.pack(">Bi", 1, len(values))
    return head + _encode_slices(values, positive) + _encode_slices(-values, negative)


def _encode_slices(values: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> bytes:
    if not chosen.any():
        return b"\x00"
    greatest = int(values[chosen].max())
    bits = greatest.bit_length()
    rows = np.flatnonzero(chosen).astype(np.uint32)
    present = serialize_rows(rows)
    parts = [b"\x01", struct.pack(">Bqq", 1, 0, greatest), present, struct.pack(">i", bits)]
    return b"".join(parts + serialize_slices(values, bits, None if len(rows) == len(values) else chosen))


@dataclass(frozen=True, slots=True)
class Slices:
    """Bit slices of non-negative numbers.

    greatest  the largest number
    present   rows with a number
    slices    rows where bit i is set, i = 0..
    """

    greatest: int
    present: BitMap
    slices: tuple[BitMap, ...]

    def equal(self, x: int) -> BitMap:
        """Return the rows whose number is x."""
        return self._compare(x)[1]

    def below(self, x: int) -> BitMap:
        """Return the rows whose number is less than x."""
        return self._compare(x)[0]

    def up_to(self, x: int) -> BitMap:
        """Return the rows whose number is at most x."""
        below, equal = self._compare(x)
        return below | equal

    def _compare(self, x: int) -> tuple[BitMap, BitMap]:
        """Find the rows below x and those equal to x, comparing bit by bit from the highest (O'Neil and Quass)."""
        if x < 0:
            return BitMap(), BitMap()
        if x > self.greatest:
            return self.present, BitMap()
        below, equal = BitMap(), self.present
        for i in range(len(self.slices) - 1, -1, -1):
            if x >> i & 1:
                below |= equal - self.slices[i]
                equal = equal & self.slices[i]
            else:
                equal = equal - self.slices[i]
        return below, equal


_NOTHING = Slices(-1, BitMap(), ())


class _BsiReader:
    """Answers comparisons, IN, NOT IN, IS NULL and IS NOT NULL with rows; nulls pass IS NULL only."""

    def __init__(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> None:
        self._type, self._exact = t, not is_cut(t)
        cursor = Cursor(payload, path)
        version = cursor.u8()
        if version != 1:
            raise cursor.error(f"expected version 1 of a bit-sliced index, found {version}", at=0)
        self.rows = cursor.i32be()
        if self.rows < 0 or (rows is not None and rows != self.rows):
            raise cursor.error(f"a bit-sliced index over {self.rows} rows for a file of {rows}", at=1)
        self.positive, self.negative = self._slices(cursor), self._slices(cursor)
        if cursor.remaining or self.positive.present & self.negative.present:
            raise cursor.error("the parts of a bit-sliced index do not fit together")
        self._present = self.positive.present | self.negative.present

    def _slices(self, cursor: Cursor) -> Slices:
        flag = cursor.u8()
        if flag == 0:
            return _NOTHING
        at = cursor.pos
        version, least, greatest = cursor.u8(), cursor.i64be(), cursor.i64be()
        present = read_bitmap(cursor, rows=self.rows)
        count = cursor.i32be()
        if flag != 1 or version != 1 or least != 0 or greatest < 0 or count != greatest.bit_length() or not present:
            raise cursor.error(f"bit slices of version {version} from {least} to {greatest} with {count} bits", at=at)
        slices = tuple(read_bitmap(cursor, rows=self.rows) for _ in range(count))
        made = Slices(greatest, present, slices)
        # Counting is some fifty times faster here than pyroaring's subset test.
        inside = all(s.intersection_cardinality(present) == len(s) for s in slices)
        if not inside or not made.equal(greatest):
            raise cursor.error("the slices of a bit-sliced index contradict each other", at=at)
        return made

    def select(self, leaf: Leaf) -> FileIndexResult:
        """Return the rows, or REMAIN for other tests."""
        if isinstance(leaf, Compare):
            return self._compare(leaf.op, leaf.value)
        if isinstance(leaf, IsNull):
            return self._present.copy() if leaf.negated else BitMap(range(self.rows)) - self._present
        if isinstance(leaf, In):
            if None in leaf.values and leaf.negated:
                return BitMap()
            if leaf.negated and not self._exact:
                return Verdict.REMAIN
            found: BitMap = reduce(lambda a, b: a | b, [self._equal(v) for v in leaf.values if v is not None], BitMap())
            return self._present - found if leaf.negated else found
        return Verdict.REMAIN

    def _equal(self, value: Any) -> BitMap:
        x = int(key_of(value, self._type))
        return self.negative.equal(-x) if x < 0 else self.positive.equal(x)

    def _compare(self, op: Op, value: Any) -> FileIndexResult:
        if value is None:
            return BitMap()
        if op is Op.EQ:
            return self._equal(value)
        if not self._exact:
            if op is Op.NE:
                return Verdict.REMAIN
            op = {Op.LT: Op.LE, Op.GT: Op.GE}.get(op, op)
        if op is Op.NE:
            return self._present - self._equal(value)
        x = int(key_of(value, self._type))
        below = self._up_to(x) if op in (Op.LE, Op.GT) else self._below(x)
        return below if op in (Op.LT, Op.LE) else self._present - below

    def _below(self, x: int) -> BitMap:
        if x < 0:
            return self.negative.present - self.negative.up_to(-x)
        return self.negative.present | self.positive.below(x)

    def _up_to(self, x: int) -> BitMap:
        if x < 0:
            return self.negative.present - self.negative.below(-x)
        return self.negative.present | self.positive.up_to(x)
