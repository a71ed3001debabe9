"""Values as change capture tools encode them, converted to landing columns: dates, times, decimals, bytes."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.landing.cast_values import decode_hex
from lakeidx.landing.cdc.connect_schema import EPOCHS, VARIABLE_DECIMAL, ZONED, ConnectColumn
from lakeidx.landing.cdc.envelopes import Envelope
from lakeidx.landing.columnar.avro import decimal_of_bytes
from lakeidx.types import BYTES_ROOTS, TIMESTAMP_ROOTS, DataType, Root


def decode_base64(text: pa.Array) -> pa.Array:
    """Decode padded base64 texts; null stays null. ValueError when a value is not base64."""
    return pa.array([None if v is None else a2b_base64(v, strict_mode=True) for v in text.to_pylist()], pa.binary())


def _decode_latin_1(text: pa.Array) -> pa.Array:
    """Decode texts whose characters stand for a byte each; ValueError for a character beyond 255."""
    return pa.array([None if v is None else v.encode("latin-1") for v in text.to_pylist()], pa.binary())


def decimals_of(values: pa.Array, scale: int) -> pa.Array:
    """Read big-endian two's complement integers (bytes) as decimals of a scale, DECIMAL(38, scale).

    errors   ValueError for a number of more digits, or without any byte
    """
    found = values.to_pylist()
    if b"" in found:
        raise ValueError("a decimal has a byte or more")
    return pa.array([None if v is None else decimal_of_bytes(v, scale) for v in found], pa.decimal128(38, scale))


#: The type of `io.debezium.data.VariableScaleDecimal` in JSON.
_VARIABLE = pa.struct([("scale", pa.int32()), ("value", pa.string())])
_UNITS = {"D": 0, "s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_BYTES_AS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "base64": decode_base64,
    "latin-1": _decode_latin_1,
    "hex": decode_hex,
}
_FAILURES = (pa.ArrowInvalid, ValueError)


def json_type_of(column: ConnectColumn) -> pa.DataType | None:
    """Return the Arrow type to read a declared column as; None where only the slow way can."""
    if column.type.startswith("int"):
        return pa.int64()
    if column.type in ("float", "double", "float32", "float64"):
        return pa.float64()
    if column.type == "boolean":
        return pa.bool_()
    if column.name == VARIABLE_DECIMAL:
        return _VARIABLE
    return pa.string() if column.type in ("string", "bytes") else None


def decode(values: pa.Array, declared: ConnectColumn | None, wanted: DataType, envelope: Envelope) -> pa.Array:
    """Decode a column of JSON values; values that are not what they should be stay as they are, for the cast to refuse them.

    declared   what the schema part says, if there is one
    envelope   says what bytes are without schema part, and whether numbers count from the epoch, in the unit of the precision of
               the table's column
    """

    def whole(part: pa.Array) -> pa.Array:
        if declared is not None:
            return _declared(part, declared, wanted)
        return _guessed(part, wanted, envelope)

    try:
        return whole(values)
    except _FAILURES:
        return _one_by_one(values, whole, "not as " + envelope.bytes_as if wanted.root in BYTES_ROOTS else "")


def _guessed(values: pa.Array, wanted: DataType, envelope: Envelope) -> pa.Array:
    if pa.types.is_string(values.type) and wanted.root in BYTES_ROOTS:
        return _BYTES_AS[envelope.bytes_as](values)
    if not envelope.counts or (wanted.root is not Root.DATE and wanted.root not in TIMESTAMP_ROOTS):
        return values
    if pa.types.is_string(values.type):
        numbers = pc.match_substring_regex(values, r"^-?\d+$")
        if not pc.any(numbers).as_py():
            return values
        if not pc.all(numbers).as_py():
            raise ValueError("numbers among other texts")
    if wanted.root is Root.DATE:
        return _from_epoch(values, "date", "D")
    unit = "ms" if wanted.precision <= 3 else "us" if wanted.precision <= 6 else "ns"
    return _from_epoch(values, "timestamp", unit)


def _one_by_one(values: pa.Array, decode_part: Callable[[pa.Array], pa.Array], mark: str) -> pa.Array:
    """Decode values of which some cannot be, each distinct one by itself; as text, with those left as they were.

    mark   put before them where they could be taken for decoded ones, which are hex
    """
    if pa.types.is_struct(values.type):
        return values
    encoded = values.dictionary_encode()
    texts = []
    for i in range(len(encoded.dictionary)):
        part = encoded.dictionary.slice(i, 1)
        try:
            part = decode_part(part)
        except _FAILURES:
            if mark and pa.types.is_string(part.type):
                part = pc.binary_join_element_wise(mark, part, ": ")
        texts.append(part[0].as_py().hex() if pa.types.is_binary(part.type) else pc.cast(part, pa.string())[0].as_py())
    return pa.array(texts, pa.string()).take(encoded.indices)


def _declared(values: pa.Array, declared: ConnectColumn, wanted: DataType) -> pa.Array:
    if declared.name in EPOCHS:
        return _from_epoch(values, *EPOCHS[declared.name])
    if declared.is_decimal:
        return decimals_of(decode_base64(values), declared.scale)
    if declared.name == VARIABLE_DECIMAL and pa.types.is_struct(values.type):
        return _variable_decimals(values)
    if declared.name == ZONED and wanted.root is Root.TIMESTAMP:
        return pc.cast(values, pa.timestamp("us", "UTC"))
    if declared.type == "bytes" and wanted.root in BYTES_ROOTS:
        return decode_base64(values)
    if wanted.root is Root.BOOLEAN and pa.types.is_integer(values.type):
        return pc.cast(values, pa.string())
    return values


def _from_epoch(values: pa.Array, kind: str, unit: str) -> pa.Array:
    """Read numbers as days, times of day or moments counted in a unit.

    errors   ArrowInvalid for text that is no number
    """
    numbers = pc.cast(values, pa.int64())
    if kind == "date":
        return pc.cast(pc.cast(numbers, pa.int32()), pa.date32())
    if kind == "time":
        return (
            pc.cast(pc.cast(numbers, pa.int32()), pa.time32("ms"))
            if unit == "ms"
            else pc.cast(numbers, pa.time64(unit))
        )
    return pc.cast(numbers, pa.timestamp(unit))


def _variable_decimals(values: pa.Array) -> pa.Array:
    """Return decimals that bring their own scale as text, a scale at a time."""
    scales, raw = (pc.struct_field(values, i) for i in range(2))
    numbers = decode_base64(raw)
    out = pa.nulls(len(values), pa.string())
    for scale in pc.unique(scales.drop_null()).to_pylist():
        mine = pc.fill_null(pc.equal(scales, scale), False)
        texts = pc.cast(decimals_of(pc.if_else(mine, numbers, pa.scalar(None, pa.binary())), scale), pa.string())
        out = pc.if_else(mine, texts, out)
    return out


def order_values(values: pa.Array, name: str, unit: str, wanted: DataType) -> pa.Array:
    """Read the source's order for a column: numbers for a TIMESTAMP count from the epoch.

    name   last part of where the order stands: ``ts_us`` and ``ts_ns`` tell their unit
    unit   unit of the message's own times
    """
    digits = (
        pa.types.is_string(values.type) and pc.all(pc.match_substring_regex(values, r"^-?\d+$"), min_count=0).as_py()
    )
    if wanted.root in TIMESTAMP_ROOTS and (digits or pa.types.is_integer(values.type)):
        tail = name.rpartition("_")[2]
        return _from_epoch(values, "timestamp", tail if tail in ("ms", "us", "ns") else unit)
    if wanted.root in TIMESTAMP_ROOTS and pa.types.is_string(values.type) and wanted.root is Root.TIMESTAMP:
        return pc.replace_substring_regex(values, r"Z$", "")
    return values


def newest_ms(values: pa.Array, unit: str) -> int | None:
    """Return the newest of the source's times in epoch milliseconds, None without any that can be read."""
    if len(values) == values.null_count:
        return None
    if unit == "text":
        try:
            plain = pc.replace_substring_regex(pc.cast(values, pa.string()), r"Z$", "")
            moments: Any = pc.cast(pc.cast(plain, pa.timestamp("us")), pa.int64())
        except _FAILURES:
            return None
        return int(pc.max(moments).as_py()) // 1000
    try:
        newest = int(pc.max(pc.cast(values, pa.int64())).as_py())
    except _FAILURES:
        return None
    return newest * 1000 // _UNITS[unit]
