"""Aggregate functions of texts, arrays, maps, nested tables and bitmaps, one record at a time.

The order of what a Java HashMap gave back is kept (`lakeidx.data.engines.scalar.collections`).

source   org.apache.paimon.mergetree.compact.aggregate.{FieldListaggAgg, FieldCollectAgg, FieldMergeMapAgg,
         FieldMergeMapWithKeyTimeAgg, FieldNestedUpdateAgg, FieldNestedPartialUpdateAgg, FieldRoaringBitmap32Agg}, release 1.4.2

The iteration order of Java's HashMap and HashSet.

Some aggregate functions build their result from a ``java.util.HashMap``; its order shows in arrays and maps. It is the
order of bins (spread hash modulo capacity), inside a bin the order of insertion.

source   java.util.HashMap (initial capacity 16, load factor 0.75), hashCode of Integer, Long, Float, Double, Boolean,
         BigDecimal; org.apache.paimon.data.{BinaryString, Timestamp, BinaryRow}#hashCode, release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from lakeidx.codec.hashes.murmur import hash_bytes, hash_words
from lakeidx.codec.roaring import deserialize, serialize
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.values import unscaled_of
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.scalar.base import ScalarFunction, cannot_retract
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root


class ListAgg(ScalarFunction):
    """Texts joined by a delimiter."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        if not value or not acc:
            return acc or value
        delimiter = self.spec.delimiter
        if not self.spec.distinct:
            return acc + delimiter + value
        # An empty delimiter joins with nothing but splits at blanks.
        seen = set(acc.split(delimiter or " "))
        for token in value.split(delimiter or " "):
            if token and token not in seen:
                seen.add(token)
                acc = acc + delimiter + token
        return acc


class Collect(ScalarFunction):
    """Array elements gathered, all or each once."""

    def __init__(self, spec: FunctionSpec) -> None:
        super().__init__(spec)
        assert spec.type.element is not None
        self._element = spec.type.element

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None and value is None:
            return None
        if not self.spec.distinct:
            if acc is None or value is None:
                return value if acc is None else acc
            return [*acc, *value]
        if self._element.is_nested:
            # What was accumulated is taken as distinct already.
            out = list(acc or ())
            seen = {identity(v, self._element) for v in out}
            for v in value or ():
                if (key := identity(v, self._element)) not in seen:
                    seen.add(key)
                    out.append(v)
            return out
        distinct = {identity(v, self._element): v for v in reversed([*(acc or ()), *(value or ())])}
        first_seen = dict.fromkeys(identity(v, self._element) for v in [*(acc or ()), *(value or ())])
        return java_key_order((distinct[k] for k in first_seen), lambda v: hash_code(v, self._element))

    def agg_reversed(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg_reversed`."""
        return self.agg(acc, value)

    def retract(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.retract`."""
        if acc is None or not value:
            return acc
        left = [identity(v, self._element) for v in value]
        out = []
        for v in acc:
            key = identity(v, self._element)
            if key in left:
                left.remove(key)
            else:
                out.append(v)
        return out


class MergeMap(ScalarFunction):
    """Maps united; the newer value of a key wins."""

    def __init__(self, spec: FunctionSpec) -> None:
        super().__init__(spec)
        assert spec.type.key is not None
        self._key = spec.type.key

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        merged: dict[Any, tuple[Any, Any]] = {}
        for k, v in (*acc, *value):
            merged[identity(k, self._key)] = (k, v)
        return self._ordered(merged)

    def retract(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.retract`."""
        if acc is None or not value:
            return acc
        gone = {identity(k, self._key) for k, _ in value}
        return self._ordered({i: (k, v) for k, v in acc if (i := identity(k, self._key)) not in gone})

    def _ordered(self, merged: dict[Any, tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return java_key_order(merged.values(), lambda pair: hash_code(pair[0], self._key))


class MergeMapWithKeyTime(MergeMap):
    """Maps of rows united; per key the row with the largest time text wins, a null row removes the key."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        at = self.spec.time_field
        merged = {identity(k, self._key): (k, v) for k, v in acc}
        for k, row in value:
            key = identity(k, self._key)
            if row is None:
                merged.pop(key, None)
                continue
            if row[at] is None:
                continue
            old = merged[key][1] if key in merged else None
            # Java compares the texts by UTF-16 code units.
            if old is None or old[at] is None or _utf16(row[at]) > _utf16(old[at]):
                merged[key] = (k, row)
        return self._ordered(merged)

    def retract(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.retract`."""
        raise cannot_retract(self.spec)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


class _Nested(ScalarFunction):
    def __init__(self, spec: FunctionSpec) -> None:
        super().__init__(spec)
        assert spec.type.element is not None
        self._row = spec.type.element
        self._key_types = [self._row.fields[i].type for i in spec.nested_key]

    def _key(self, row: Any) -> bytes:
        return encode_row([row[i] for i in self.spec.nested_key], self._key_types)

    @staticmethod
    def _ordered(rows: dict[bytes, Any]) -> list[Any]:
        keys = java_key_order(rows, hash_words)
        return [rows[k] for k in keys]


class NestedUpdate(_Nested):
    """Rows of an array, replaced by key (or appended without one)."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        if len(acc) >= self.spec.count_limit:
            return acc
        room = self.spec.count_limit - len(acc)
        rows = [r for r in acc if r is not None] + [r for r in value if r is not None][:room]
        return self._ordered({self._key(r): r for r in rows}) if self.spec.nested_key else rows

    def retract(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.retract`."""
        if acc is None or value is None:
            return acc
        rows = [r for r in acc if r is not None]
        gone = [r for r in value if r is not None]
        if not self.spec.nested_key:
            out = {identity(r, self._row) for r in gone}
            return [r for r in rows if identity(r, self._row) not in out]
        # The map is built before rows leave it, so its order is that of its full size.
        kept = {self._key(r): r for r in rows}
        keys = {self._key(r) for r in gone}
        return [kept[k] for k in java_key_order(kept, hash_words) if k not in keys]


class NestedPartialUpdate(_Nested):
    """Rows of an array, updated by key with fields that are not null."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        rows: dict[bytes, tuple[Any, ...]] = {}
        keyed = [(self._key(row), row) for row in (*acc, *value) if row is not None]
        for key, row in keyed:
            old = rows.get(key, (None,) * len(row))
            rows[key] = tuple(o if n is None else n for o, n in zip(old, row, strict=True))
        return [rows[key] for key in java_order_computed((key for key, _ in keyed), hash_words)]


class Roaring32(ScalarFunction):
    """Serialised 32-bit roaring bitmaps united."""

    def agg(self, acc: Any, value: Any) -> Any:
        """See `ScalarFunction.agg`."""
        if acc is None or value is None:
            return value if acc is None else acc
        try:
            return serialize(deserialize(acc) | deserialize(value))
        except CorruptFileError as e:
            raise InvalidInputError(f"column {self.spec.column!r}: not a 32-bit roaring bitmap: {e.message}") from e


_T = TypeVar("_T")
_MASK = 0xFFFFFFFF


def java_key_order(items: Iterable[_T], hash_code: Callable[[_T], int]) -> list[_T]:
    """Return the items in the order of a HashMap or HashSet they were `put` into.

    items       distinct keys, in order of insertion
    hash_code   Java's hashCode of an item, any integer of the same low 32 bits
    """
    listed = list(items)
    capacity = 16
    while len(listed) > _threshold(capacity):
        capacity *= 2
    return _by_bin(listed, hash_code, capacity)


def java_order_computed(calls: Iterable[_T], hash_code: Callable[[_T], int]) -> list[_T]:
    """Return the distinct items in the order of a HashMap filled by `computeIfAbsent`.

    That puts a new entry at the head of its bin, and grows the table at the beginning of a call, not after an insertion.

    calls   the key of every call, in order, repetitions included; hashable
    """
    capacity = 16
    seen: dict[_T, None] = {}
    for item in calls:
        if len(seen) > _threshold(capacity):
            capacity *= 2
        seen[item] = None
    return _by_bin(list(reversed(seen)), hash_code, capacity)


def _threshold(capacity: int) -> int:
    return capacity * 3 // 4


def _by_bin(items: list[_T], hash_code: Callable[[_T], int], capacity: int) -> list[_T]:
    def bin_of(item: _T) -> int:
        h = hash_code(item) & _MASK
        return (h ^ h >> 16) & (capacity - 1)

    return sorted(items, key=bin_of)


def hash_code(value: Any, t: DataType) -> int:
    """Return Java's hashCode of an atomic internal value (low 32 bits); 0 for null.

    Byte arrays and nested values have no hash of their content in Java: they hash to 0 here, so that they are in order
    of insertion.
    """
    if value is None:
        return 0
    if t.root in STRING_ROOTS:
        return hash_bytes(value.encode("utf-8"))
    if t.root is Root.BOOLEAN:
        return 1231 if value else 1237
    if t.root is Root.BIGINT:
        return _fold(value)
    if t.root is Root.DOUBLE:
        return _fold(_float_bits(value, "<d", "<q", 0x7FF8000000000000))
    if t.root is Root.FLOAT:
        return _float_bits(value, "<f", "<i", 0x7FC00000)
    if t.root is Root.DECIMAL:
        return _big_decimal_hash(unscaled_of(value, t), t.scale)
    if t.root in TIMESTAMP_ROOTS:
        return int(31 * _fold(value[0]) + value[1])
    if t.root in BYTES_ROOTS or t.is_nested or t.root is Root.VARIANT:
        return 0
    return int(value)


def identity(value: Any, t: DataType) -> Hashable:
    """Make a hashable stand-in that is equal exactly when Java's ``equals`` holds: floats by their bits, the rest by value.

    Byte arrays compare by content (Java's HashSet compares them by identity, so it never finds two equal).
    """
    if value is None:
        return None
    if t.root is Root.DOUBLE:
        return _float_bits(value, "<d", "<q", 0x7FF8000000000000)
    if t.root is Root.FLOAT:
        return _float_bits(value, "<f", "<i", 0x7FC00000)
    if t.root is Root.ARRAY and t.element is not None:
        return tuple(identity(v, t.element) for v in value)
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        return frozenset((identity(k, t.key), identity(v, t.element)) for k, v in value)
    if t.root is Root.ROW:
        return tuple(identity(v, f.type) for v, f in zip(value, t.fields, strict=True))
    if t.root is Root.MULTISET and t.element is not None:
        return frozenset((identity(k, t.element), n) for k, n in value)
    out: Hashable = value
    return out


def _float_bits(value: float, pack: str, unpack: str, nan: int) -> int:
    if value != value:
        return nan
    return int(struct.unpack(unpack, struct.pack(pack, value))[0])


def _fold(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & _MASK


def _big_decimal_hash(unscaled: int, scale: int) -> int:
    magnitude, h = abs(unscaled), 0
    words = []
    while magnitude:
        words.append(magnitude & _MASK)
        magnitude >>= 32
    for word in reversed(words):
        h = (31 * h + word) & _MASK
    return 31 * (-h if unscaled < 0 else h) + scale
