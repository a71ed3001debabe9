"""File index ``bloom-filter``: whether a value surely does not occur in the file.

======================  ===========================================================================
piece                   bytes
======================  ===========================================================================
hash functions          i32 **big endian**
bits                    the rest; bit i is bit ``i % 8`` from the lowest of byte ``i // 8``
======================  ===========================================================================

Hashes: numbers (FLOAT and DOUBLE by their IEEE bits) by Wang's mix, strings and bytes by xxHash64; nulls are left out.
There is no checksum and nothing in the bits tells a damaged filter from a whole one.

source   org.apache.paimon.fileindex.bloomfilter.BloomFilterFileIndex, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import one_array
from lakeidx.codec.cursor import Cursor
from lakeidx.codec.hashes.bloom64 import bloom_hash_many, bloom_size, hash_longs, may_contain_any, set_hashes
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, FileIndexWriter, Verdict
from lakeidx.file_index.kinds.value_keys import float_bits, is_bytes_type, key_of, numbers_of
from lakeidx.predicate.tree import Compare, In, Leaf, Op, Values
from lakeidx.types import DataType, Root

_DEFAULT_ITEMS = 1_000_000
_DEFAULT_FPP = 0.1
_MAX_FUNCTIONS = 1100  # fpp of the smallest positive double
_REFUSED = frozenset({Root.BOOLEAN, Root.DECIMAL, Root.VARIANT})


class BloomFilterIndexer:
    """The type ``bloom-filter``: options `items` (expected distinct values) and `fpp` (rate of false positives)."""

    name = "bloom-filter"
    options = frozenset({"items", "fpp"})

    def check(self, t: DataType, options: Mapping[str, str]) -> None:
        """Raise InvalidInputError for BOOLEAN, DECIMAL, nested types and bad options."""
        if t.root in _REFUSED or t.is_nested:
            raise InvalidInputError(f"bloom-filter cannot index {t.with_nullable(True)}")
        _size(options)

    def create_writer(self, t: DataType, options: Mapping[str, str]) -> FileIndexWriter:
        """Make a filter of the size by options `items` and `fpp`."""
        self.check(t, options)
        return _BloomFilterWriter(t, *_size(options))

    def create_reader(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> FileIndexReader:
        """Make a reader; tests touch a few bytes of the payload."""
        return _BloomFilterReader(t, payload, path=path)


def _size(options: Mapping[str, str]) -> tuple[int, int]:
    items, fpp = options.get("items", str(_DEFAULT_ITEMS)), options.get("fpp", str(_DEFAULT_FPP))
    try:
        return bloom_size(int(items), float(fpp))
    except ValueError:
        raise InvalidInputError(f"items must be a whole number and fpp a number, not {items!r} and {fpp!r}") from None


class _BloomFilterWriter:
    """Adds batch after batch to one filter of a fixed size."""

    def __init__(self, t: DataType, bits: int, functions: int) -> None:
        self._type, self._functions = t, functions
        self._bits = np.zeros(bits // 8, np.uint8)

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Add the next rows."""
        if is_bytes_type(self._type):
            set_hashes(self._bits, bloom_hash_many(_strings(column, self._type)), self._functions)
            return
        numbers = numbers_of(column, self._type)
        values = numbers.values if numbers.valid is None else numbers.values[numbers.valid]
        set_hashes(self._bits, hash_longs(float_bits(values, self._type)), self._functions)

    def finish(self) -> bytes:
        """Return the payload."""
        return struct.pack(">i", self._functions) + self._bits.tobytes()


def _strings(column: Any, t: DataType) -> RowBytes:
    """Return the non-null strings of a column; of a dictionary-encoded one, each of its values once."""
    if pa.types.is_dictionary(column.type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array(
            [c.dictionary.take(c.indices.unique().drop_null()) for c in chunks], column.type.value_type
        )
    return RowBytes.from_arrow(one_array(column, t).drop_null())


class _BloomFilterReader:
    """Answers ``=`` and IN."""

    def __init__(self, t: DataType, payload: bytes | memoryview, *, path: str | None = None) -> None:
        cursor = Cursor(payload, path)
        self._type, self._functions = t, cursor.i32be()
        if not 1 <= self._functions <= _MAX_FUNCTIONS or not cursor.remaining:
            raise cursor.error(
                f"a bloom filter of {cursor.remaining} bytes with {self._functions} hash functions", at=0
            )
        self._bits = memoryview(payload)[4:]

    def select(self, leaf: Leaf) -> FileIndexResult:
        """Return SKIP when no wanted value was added; REMAIN otherwise, and for a null literal."""
        if isinstance(leaf, Compare) and leaf.op is Op.EQ:
            wanted: tuple[Any, ...] = (leaf.value,)
        elif isinstance(leaf, In) and not leaf.negated:
            wanted = leaf.values
        else:
            return Verdict.REMAIN
        if None in wanted:
            return Verdict.REMAIN
        if isinstance(wanted, Values):
            hashes = wanted.kept(("bloom", self._type), self._hashes)
        else:
            hashes = self._hashes(wanted)
        return Verdict.REMAIN if may_contain_any(self._bits, hashes, self._functions) else Verdict.SKIP

    def _hashes(self, values: tuple[Any, ...]) -> npt.NDArray[np.int64]:
        keys = [key_of(v, self._type) for v in values]
        if is_bytes_type(self._type):
            return bloom_hash_many(RowBytes.from_arrow(pa.array(keys, pa.large_binary())))
        return hash_longs(float_bits(np.array(keys, np.int64), self._type))
