"""Values of the matrix as programs write them in texts: CSV, JSON, and the messages of change capture tools."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root, parse_type
from tests.kit.matrix_values import DAY, END, FIRST, Unfit


def day_text(days: int) -> str:
    """ISO text of days since the epoch, in any year."""
    return str(np.datetime64(days, "D"))


def clock_text(nanos: int) -> str:
    """Time of day with as many digits as it has; below midnight with a sign."""
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    seconds, rest = divmod(nanos, 10**9)
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _refuse_first_second(nanos: int) -> None:
    if -(2**63) <= nanos < -(2**63) // 10**9 * 10**9 + 10**9:
        raise Unfit("Arrow reads no nanoseconds of the first second that they have")


def moment_text(nanos: int, zoned: bool, between: str = "T") -> str:
    """ISO text of a moment; one of a zone that is in another year there has the zone in which it is not."""
    _refuse_first_second(nanos)
    hours = 0 if not zoned else 12 if nanos < FIRST else -12 if nanos >= END else 0
    days, rest = divmod(nanos + hours * 3600 * 10**9, DAY)
    zone = "" if not zoned else "Z" if not hours else f"{hours:+03d}:00"
    return f"{day_text(days)}{between}{clock_text(rest)}{zone}"


def text_of(value: Any, t: DataType) -> str | None:
    """Return a value that is not nested as text; a text that stands where another type belongs, as it is."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape") if t.root in STRING_ROOTS else value.hex()
    if t.root is Root.DATE:
        return day_text(value)
    if t.root is Root.TIME:
        return clock_text(value)
    if t.root in TIMESTAMP_ROOTS:
        return moment_text(value, t.root is Root.TIMESTAMP_LTZ)
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def json_of(value: Any, t: DataType, leaf: Callable[[Any, DataType], Any]) -> Any:
    """Return a value as JSON has it; `leaf` writes those that are not nested."""
    if value is None:
        return None
    if t.root is Root.VARIANT:
        return {"value": value[0].hex(), "metadata": value[1].hex()}
    if t.root is Root.ROW:
        return {f.name: json_of(v, f.type, leaf) for f, v in zip(t.fields, value, strict=True)}
    if t.root is Root.ARRAY:
        assert t.element is not None
        return [json_of(v, t.element, leaf) for v in value]
    if t.root in (Root.MAP, Root.MULTISET):
        key, item = (t.key, t.element) if t.key is not None else (t.element, parse_type("INT"))
        assert key is not None
        assert item is not None
        return [[json_of(k, key, leaf), json_of(v, item, leaf)] for k, v in value]
    return leaf(value, t)


def native(value: Any, t: DataType) -> Any:
    """Return numbers and truth values as JSON's own, what JSON does not have as text."""
    if isinstance(value, float) and value - value == 0:
        return value
    own = isinstance(value, (bool, int)) and t.root in (
        Root.BOOLEAN,
        Root.TINYINT,
        Root.SMALLINT,
        Root.INT,
        Root.BIGINT,
    )
    return value if own else text_of(value, t)


def json_bytes(value: Any) -> bytes:
    """Return JSON as a file has it, broken text included."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")


def nested_text(value: Any, t: DataType) -> str | None:
    """Return a value as a text of its own, a nested one as JSON."""
    if t.is_nested or t.root is Root.VARIANT:
        return None if value is None else json.dumps(json_of(value, t, native), ensure_ascii=False)
    return text_of(value, t)


def csv_lines(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> list[bytes]:
    """Return the records of a CSV file: null is an empty field, and a text stands in quotes."""

    def record(fields: Sequence[str | None]) -> str:
        return ",".join("" if f is None else '"' + f.replace('"', '""') + '"' for f in fields) + "\n"

    return [record(r).encode("utf-8", "surrogateescape") for r in (names, *rows)]


# -- Messages of change capture tools ------------------------------------------------------------------------------------------

_CONNECT = {Root.BOOLEAN: "boolean", Root.TINYINT: "int16", Root.SMALLINT: "int16", Root.INT: "int32", Root.BIGINT: "int64",
            Root.FLOAT: "float", Root.DOUBLE: "double"}  # fmt: skip
_STAMPS = {"ms": "Timestamp", "us": "MicroTimestamp", "ns": "NanoTimestamp"}
_PER = {"ms": 10**6, "us": 10**3, "ns": 1}


def epoch_unit(t: DataType) -> str:
    """Return the unit in which Debezium counts times of a precision."""
    return "ms" if t.precision <= 3 else "us" if t.precision <= 6 else "ns"


def connect_value(value: Any, t: DataType, *, precise: bool) -> Any:
    """Return a value as Debezium writes it; `precise`: decimals as bytes, which the schema part tells of."""
    if value is None or isinstance(value, str):
        return value
    if t.root in BYTES_ROOTS:
        return base64.b64encode(value).decode()
    if t.root is Root.DATE:
        return value
    if t.root is Root.TIME or t.root is Root.TIMESTAMP:
        per = _PER["us" if t.root is Root.TIME else epoch_unit(t)]
        if value % per or not -(2**63) <= value // per < 2**63:
            raise Unfit("not in the unit")
        _refuse_first_second(value)
        return value // per if precise or t.root is Root.TIMESTAMP else clock_text(value)
    if t.root is Root.DECIMAL and precise:
        number = int(value.scaleb(t.scale)) if isinstance(value, Decimal) else value
        if value != Decimal(number).scaleb(-t.scale):
            raise Unfit("not in the scale")
        return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()
    return native(value, t)


def connect_column(name: str, t: DataType) -> dict[str, Any]:
    """Return what Debezium's schema part says of a column."""
    column = {"field": name, "optional": t.nullable, "type": _CONNECT.get(t.root, "string")}
    if t.root is Root.DATE:
        column |= {"type": "int32", "name": "io.debezium.time.Date"}
    elif t.root is Root.TIME:
        column |= {"type": "int64", "name": "io.debezium.time.MicroTime"}
    elif t.root is Root.TIMESTAMP:
        column |= {"type": "int64", "name": f"io.debezium.time.{_STAMPS[epoch_unit(t)]}"}
    elif t.root is Root.TIMESTAMP_LTZ:
        column |= {"name": "io.debezium.time.ZonedTimestamp"}
    elif t.root in BYTES_ROOTS:
        column |= {"type": "bytes"}
    elif t.root is Root.DECIMAL:
        digits = {"scale": str(t.scale), "connect.decimal.precision": str(t.precision)}
        column |= {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": digits}
    return column
