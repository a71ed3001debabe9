"""Every type of Paimon with values at its ends and beyond, as plain Python: what the matrix of doors sends in and expects back.

A value of the model is a plain one: bool, int, float, Decimal, str, bytes; days since the epoch for a DATE, nanoseconds since
midnight for a TIME, since the epoch for a TIMESTAMP; a list of an ARRAY, pairs of a MAP or MULTISET, a tuple of a ROW or VARIANT;
None. Text that is no UTF-8 is bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakeidx.types import DataType, Root, is_list, parse_type

LTZ = " WITH LOCAL TIME ZONE"
DAY = 86_400 * 10**9
#: 0001-01-01 and the end of 9999-12-31, and 2026-07-25T17:20:00.123456789.
FIRST, END, MODERN = -62_135_596_800 * 10**9, 253_402_300_800 * 10**9, 1_785_000_000_123_456_789
_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MOMENTS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


@dataclass(frozen=True)
class Column:
    """A column, its values, and those that it does not take.

    spec      its type as schema JSON has it
    good      values that are stored
    bad       values for which a row is rejected
    carriers  Arrow types in which programs hand such values over
    """

    name: str
    spec: Any
    good: Sequence[Any]
    bad: Sequence[Any]
    carriers: Sequence[pa.DataType]

    @property
    def type(self) -> DataType:
        """The type of the table's column."""
        return parse_type(self.spec)

    def stored(self, value: Any) -> Any:
        """Return what the table has of a value: CHAR is padded."""
        t = self.type
        return value.ljust(t.length) if t.root is Root.CHAR and isinstance(value, str) else value


def _moments(precision: int, zoned: bool) -> tuple[list[int], list[int]]:
    step, day, half = 10 ** (9 - precision), DAY if zoned else 0, DAY // 2 if zoned else 0
    first, end = FIRST - day, END + day
    # Zones go to 12 hours, and what lies further out no text can tell.
    good = [0, -step, MODERN // step * step, FIRST - half, END + half - step]
    bad = [first - step, end, *([step // 10, MODERN // step * step + 1] if step > 1 else [])]
    if precision > 6:
        # Nanoseconds of 64 bits.
        bad += good[3:]
        good[3:] = [-(2**63) // step * step + step, (2**63 - 1) // step * step]
    return good, bad


_INT64, _UNITS = pa.int64(), ("us", "ns", "ms", "s")


def _ints(bits: int) -> tuple[list[int], list[Any]]:
    most = 2 ** (bits - 1)
    return [0, 1, -1, most - 1, -most], [most, -most - 1, Decimal("0.5"), "x"]


_TEXT = ["", "a", "é🙂", 'it\'s "q"', "a,b;c", "back\\n", "line\nfeed", "NULL", " x ", "\ttab", "\x01", "z" * 3000]
_FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), -float("inf"), 2.0**-149, (2 - 2**-23) * 2.0**127]
VARIANT = (b"\x02\x01\x00\x00\x02\x0c\x01", b"\x01\x01\x00\x01a")
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())


def _atomic() -> Iterator[tuple[str, Sequence[Any], Sequence[Any], Sequence[pa.DataType]]]:
    yield "BOOLEAN", [True, False], ["maybe"], (pa.bool_(),)
    for word, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64)):
        exact = getattr(pa, f"int{bits}")()
        wide = pa.decimal128(38, 1) if bits == 64 else _INT64
        yield word, *_ints(bits), (wide, pa.decimal128(30, 2), exact, pa.dictionary(pa.int32(), _INT64))
    yield "FLOAT", _FLOATS, [1e300, -1e300, "x"], (pa.float64(), pa.float32())
    yield "DOUBLE", [*_FLOATS, 0.1, 5e-324, 1.7976931348623157e308], ["x"], (pa.float64(),)
    carriers: tuple[pa.DataType, ...]
    for digits, scale in ((1, 0), (5, 2), (18, 18), (38, 0), (38, 10), (38, 38)):
        most, least = Decimal((0, (9,) * digits, -scale)), Decimal((0, (1,), -scale))
        beyond = [
            Decimal((0, (1,), digits - scale)),
            Decimal((1, (1,), digits - scale)),
            Decimal((0, (1, 5), -scale - 1)),
        ]
        carriers = (pa.decimal256(76, 39), pa.decimal128(digits, scale))
        yield (
            f"DECIMAL({digits}, {scale})",
            [Decimal(0), least, least.copy_negate(), most, most.copy_negate()],
            [*beyond, "x"],
            carriers,
        )
    yield "CHAR(4)", ["", "ab", "abcd", "é🙂ab"], ["abcde", "éabcd", b"\xff"], _TEXTS
    yield "VARCHAR(6)", [*(t for t in _TEXT if len(t) < 7), "six___"], ["seven__", b"a\xffb"], _TEXTS
    yield "STRING", _TEXT, [b"\xff\xfe", b"\xed\xa0\x80"], _TEXTS
    yield "BINARY(4)", [b"", b"a", b"\0\xff\0\xff"], [b"12345"], (*_BYTES, pa.binary())
    yield "VARBINARY(3)", [b"", b"ab\0"], [b"1234"], _BYTES
    yield "BYTES", [b"", b"\0", bytes(range(256)), b"x" * 3000], [], _BYTES
    yield (
        "DATE",
        [0, -1, -719_162, 2_932_896],
        [-719_163, 2_932_897, "x"],
        (pa.date32(), pa.date64(), pa.timestamp("us")),
    )
    for precision in (0, 3, 9):
        clocks = [0, 1_000_000, 3_723_004_000_000, DAY - 1_000_000]
        carriers = (pa.time64("ns"), pa.time64("us"), pa.time32("ms"))
        yield f"TIME({precision})", clocks, [1, 1_000, DAY, -1_000_000, "25:00:00"], carriers
    for precision in (0, 1, 3, 4, 6, 7, 9):
        moments, outside = _moments(precision, zoned=False)
        yield f"TIMESTAMP({precision})", moments, [*outside, "x"], [pa.timestamp(u) for u in _UNITS]
        moments, outside = _moments(precision, zoned=True)
        zones = ("UTC", "America/New_York", "+05:30", "UTC")
        zoned = [pa.timestamp(u, z) for u, z in zip(_UNITS, zones, strict=True)]
        yield f"TIMESTAMP({precision}){LTZ}", moments, [*outside, "x"], zoned
    yield (
        "VARIANT",
        [VARIANT],
        [],
        (pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]),),
    )


#: What nested types are made of in the matrix.
_INSIDE = ("BOOLEAN", "TINYINT", "BIGINT", "DOUBLE", "DECIMAL(5, 2)", "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)",
           "TIMESTAMP(6)", "TIMESTAMP(9)", f"TIMESTAMP(3){LTZ}", f"TIMESTAMP(6){LTZ}", "VARIANT")  # fmt: skip
#: Types of keys: none that is equal and yet another, and no bytes, which are no text in JSON.
_KEYS = ("TINYINT", "BIGINT", "STRING", "DATE", "TIMESTAMP(3)")


def _name(word: str) -> str:
    """Return a name of a column that needs no more than quotes."""
    return word.lower().replace(" with local time zone", " ltz").replace(", ", ".")


def _nested(word: str, good: Sequence[Any], bad: Sequence[Any], carriers: Sequence[pa.DataType]) -> Iterator[Column]:
    name = _name(word)
    bad = [b for b in bad if not isinstance(b, str)]
    lists = [make(c) for make in (pa.list_, pa.large_list) for c in carriers]
    array = {"type": "ARRAY", "element": word}
    yield Column(f"array {name}", array, [[], [None], [*good, None]], [[good[0], b] for b in bad], lists)
    row = {
        "type": "ROW",
        "fields": [{"id": 0, "name": "a", "type": word}, {"id": 1, "name": "b", "type": f"{word} NOT NULL"}],
    }
    rows = [pa.struct([pa.field("a", c), pa.field("b", c)]) for c in carriers]
    yield Column(f"row {name}", row, [(None, good[0]), *zip(good, good, strict=True)],
                 [(good[0], None), *((b, good[0]) for b in bad)], rows)  # fmt: skip
    spec = {"type": "MAP", "key": "STRING", "value": word}
    maps = [pa.map_(pa.string(), c) for c in carriers]
    yield Column(
        f"map of {name}",
        spec,
        [[], [("k", None), *((f"k{i}", g) for i, g in enumerate(good))]],
        [[("k", b)] for b in bad],
        maps,
    )
    if word in _KEYS:
        spec = {"type": "MAP", "key": word, "value": "INT"}
        maps = [pa.map_(c, pa.int32()) for c in carriers]
        yield Column(f"map by {name}", spec, [[], [(g, None) for g in good]], [[(b, 1)] for b in bad], maps)
        spec = {"type": "MULTISET", "element": word}
        yield Column(
            f"multiset {name}", spec, [[], [(g, i + 1) for i, g in enumerate(good)]], [[(b, 1)] for b in bad], maps
        )
    if word in ("STRING", "TIMESTAMP(3)"):
        deep = {"type": "ARRAY", "element": {"type": "MAP", "key": "STRING", "value": row}}
        value = [[], None, [("k", None), ("l", (None, good[-1]))]]
        yield Column(
            f"deep {name}",
            deep,
            [[], value],
            [[[("k", (None, None))]]],
            [pa.list_(pa.map_(pa.string(), r)) for r in rows],
        )


def columns() -> list[Column]:
    """Return all columns of the matrix: each type, those that take no null, and nested ones."""
    out = []
    for word, good, bad, carriers in _atomic():
        name = _name(word)
        out.append(Column(name, word, [*good, None], bad, carriers))
        if word in ("INT", "STRING", "TIMESTAMP(6)"):
            out.append(Column(f"{name} not null", f"{word} NOT NULL", good, [None], carriers))
        if word in _INSIDE:
            out += [
                Column(c.name, c.spec, [*c.good, None], c.bad, c.carriers) for c in _nested(word, good, bad, carriers)
            ]
    return out


@dataclass(frozen=True)
class Row:
    """A row of the matrix; `bad` is the column whose value is not taken, if one is."""

    id: int
    values: dict[str, Any]
    bad: str | None = None


class Unfit(Exception):
    """A value that a way in cannot write at all."""


def rows_of(found: Sequence[Column], writes: Any) -> tuple[list[Row], list[Row]]:
    """Return rows of good values, and rows with one that is not taken.

    writes   tells of (column, value) whether a way in can write it; what it cannot is left out
    """
    good = {c.name: [v for v in c.good if writes(c, v)] for c in found}
    count = max(map(len, good.values()))
    rows = [Row(i, {n: v[i % len(v)] for n, v in good.items() if v}) for i in range(count)]
    required = {c.name: c.good[0] for c in found if not c.type.nullable}
    bad = [(c, b) for c in found for b in c.bad if writes(c, b)]
    return rows, [Row(1000 + i, {**required, c.name: b}, c.name) for i, (c, b) in enumerate(bad)]


# -- Arrow ---------------------------------------------------------------------------------------------------------------------


def to_arrow(values: Sequence[Any], t: DataType, carrier: pa.DataType) -> pa.Array:
    """Make an Arrow array of values of the model; Unfit where its type has no such value."""
    there = [v is not None for v in values]
    gone = pa.array([not ok for ok in there]) if not all(there) else None
    if pa.types.is_struct(carrier):
        parts = [f.type for f in t.fields] or [parse_type("BYTES")] * 2
        children = [
            to_arrow([None if v is None else v[i] for v in values], p, carrier.field(i).type)
            for i, p in enumerate(parts)
        ]
        if any(not f.nullable for f in carrier):
            children = [c.fill_null(b"") for c in children]
        return pa.StructArray.from_arrays(children, fields=list(carrier), mask=gone)
    if pa.types.is_map(carrier) or is_list(carrier):
        offsets = [0]
        for v in values:
            offsets.append(offsets[-1] + len(v or ()))
        flat = [item for v in values if v is not None for item in v]
        assert t.element is not None
        if pa.types.is_map(carrier):
            key, item = (t.key, t.element) if t.key is not None else (t.element, parse_type("INT"))
            keys = to_arrow([k for k, _ in flat], key, carrier.key_type)
            items = to_arrow([i for _, i in flat], item, carrier.item_type)
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, mask=gone)
        build = pa.LargeListArray if pa.types.is_large_list(carrier) else pa.ListArray
        numbers = pa.int64() if build is pa.LargeListArray else pa.int32()
        return build.from_arrays(pa.array(offsets, numbers), to_arrow(flat, t.element, carrier.value_type), mask=gone)
    if pa.types.is_dictionary(carrier):
        return to_arrow(values, t, carrier.value_type).dictionary_encode()
    return _leaves(values, t, carrier)


def _leaves(values: Sequence[Any], t: DataType, carrier: pa.DataType) -> pa.Array:
    number = pa.types.is_temporal(carrier)
    try:
        if number:
            storage = pa.int32() if carrier.bit_width == 32 else pa.int64()
            return pa.array([None if v is None else _ticks(v, t, carrier) for v in values], storage).cast(carrier)
        if any(isinstance(v, bytes) for v in values) and "string" in str(carrier):
            return _broken_text(values, carrier)
        wrong = next((v for v in values if isinstance(v, str) and "string" not in str(carrier)), None)
        if wrong is not None:
            raise Unfit(f"{wrong!r} in {carrier}")
        if pa.types.is_decimal(carrier):
            values = [v if v is None or isinstance(v, Decimal) else Decimal(v) for v in values]
        out = pa.array(values, carrier)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise Unfit(str(error)) from error
    if any(plain(a) != plain(b) for a, b in zip(out.to_pylist(), values, strict=True)):
        raise Unfit(f"not in {carrier}")
    return out


def _ticks(value: Any, t: DataType, carrier: pa.DataType) -> int:
    if isinstance(value, str):
        raise Unfit(value)
    nanos = value * DAY if t.root is Root.DATE else value
    per = DAY if carrier == pa.date32() else _PER["ms" if carrier == pa.date64() else carrier.unit]
    if nanos % per:
        raise Unfit(f"{value} in {carrier}")
    return int(nanos // per)


def _broken_text(values: Sequence[Any], carrier: pa.DataType) -> pa.Array:
    if carrier == pa.string_view():
        raise Unfit("made by hand only")
    binary = pa.large_binary() if carrier == pa.large_string() else pa.binary()
    raw = pa.array([v.encode() if isinstance(v, str) else v for v in values], binary)
    return pa.Array.from_buffers(carrier, len(raw), raw.buffers())


def from_arrow(column: pa.Array | pa.ChunkedArray, t: DataType) -> list[Any]:
    """Return the values of a column, in whatever Arrow types a way out has them, as those of the model."""
    return [_model(s, t) for s in column]


def _model(s: Any, t: DataType) -> Any:
    if not s.is_valid:
        return None
    if isinstance(s, (pa.DictionaryScalar, pa.ExtensionScalar)):
        return _model(s.value, t)
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = (t.key, t.element) if t.key is not None else (t.element, parse_type("INT"))
        assert key is not None
        assert item is not None
        pairs = s.values
        return [(_model(pairs[i][0], key), _model(pairs[i][1], item)) for i in range(len(pairs))]
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [_model(v, t.element) for v in s.values]
    if t.root in (Root.ROW, Root.VARIANT):
        parts = [f.type for f in t.fields] or [parse_type("BYTES")] * 2
        return tuple(_model(s[i], p) for i, p in enumerate(parts))
    if not pa.types.is_temporal(s.type):
        return s.as_py()
    nanos = s.value * (DAY if s.type == pa.date32() else _PER["ms" if s.type == pa.date64() else s.type.unit])
    return nanos // DAY if t.root is Root.DATE else nanos


def plain(value: Any) -> Any:
    """Return a value as one that is equal to another if and only if both are the same: NaN is itself, and -0.0 another than 0.0."""
    if isinstance(value, float):
        return ("float", "nan" if value != value else value.hex())
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return tuple(plain(v) for v in value.values())
    if isinstance(value, list) and value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
        # Pairs of a map have no order.
        return sorted((tuple(map(plain, v)) for v in value), key=repr)
    return (
        [plain(v) for v in value]
        if isinstance(value, list)
        else tuple(map(plain, value))
        if isinstance(value, tuple)
        else value
    )
