"""Aggregate functions of texts, arrays, maps, nested tables and bitmaps, one record at a time.

The order of what a Java HashMap gave back is kept (`lakeidx.data.engines.java_order`).

source   org.apache.paimon.mergetree.compact.aggregate.{FieldListaggAgg, FieldCollectAgg, FieldMergeMapAgg,
         FieldMergeMapWithKeyTimeAgg, FieldNestedUpdateAgg, FieldNestedPartialUpdateAgg, FieldRoaringBitmap32Agg}, release 1.4.2
"""

from __future__ import annotations

from typing import Any

from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.roaring import deserialize, serialize
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.data.engines.java_order import hash_code, identity, java_key_order, java_order_computed
from lakeidx.data.engines.options import FunctionSpec
from lakeidx.data.engines.scalar.base import ScalarFunction, cannot_retract
from lakeidx.errors import CorruptFileError, InvalidInputError


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
