"""The schema part of Kafka Connect messages: splitting a block of lines by it, and the declared types of the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.types import DataType, parse_type

_BEGIN = re.compile(rb'\s*\{\s*"schema"\s*:\s*(?=\{)')
_SCHEMA = re.compile(rb'"schema"\s*:\s*\{')
_THEN = re.compile(r'\s*,\s*"payload"\s*:')
#: Patterns begin with the line feed before a line: that finds their places much faster than ``^`` does.
_BLANKS = re.compile(rb"(?:[ \t]*\n)*")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
#: Numbers that count from the epoch or midnight: name -> (kind, unit).
EPOCHS = {
    "io.debezium.time.Date": ("date", "D"),
    "org.apache.kafka.connect.data.Date": ("date", "D"),
    "io.debezium.time.Time": ("time", "ms"),
    "org.apache.kafka.connect.data.Time": ("time", "ms"),
    "io.debezium.time.MicroTime": ("time", "us"),
    "io.debezium.time.NanoTime": ("time", "ns"),
    "io.debezium.time.Timestamp": ("timestamp", "ms"),
    "org.apache.kafka.connect.data.Timestamp": ("timestamp", "ms"),
    "io.debezium.time.MicroTimestamp": ("timestamp", "us"),
    "io.debezium.time.NanoTimestamp": ("timestamp", "ns"),
}
ZONED = "io.debezium.time.ZonedTimestamp"
_PLAIN = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "float32": "FLOAT",
          "double": "DOUBLE", "float64": "DOUBLE", "boolean": "BOOLEAN", "bytes": "BYTES"}  # fmt: skip
_EPOCH_TYPES = {"ms": "TIMESTAMP(3)", "us": "TIMESTAMP(6)", "ns": "TIMESTAMP(9)"}


@dataclass(frozen=True, slots=True)
class ConnectColumn:
    """A column as the schema part declares it.

    type       Connect's type: int8 … int64, float, double, boolean, string, bytes, struct, array, map
    name       its meaning (``io.debezium.time.Date``), "" for a plain one
    scale      of a decimal
    precision  of a decimal, when the source has told
    """

    type: str
    name: str = ""
    scale: int = 0
    precision: int = 38

    @property
    def is_decimal(self) -> bool:
        """True for an integer in bytes that encodes a decimal of `scale`."""
        return self.name == _DECIMAL

    def paimon_type(self) -> DataType:
        """Return the type a column of the table gets for it; text where none fits."""
        if self.is_decimal:
            digits = max(self.precision, self.scale)
            return parse_type(f"DECIMAL({digits}, {self.scale})" if digits <= 38 else "STRING")
        if self.name in EPOCHS:
            kind, unit = EPOCHS[self.name]
            return parse_type({"date": "DATE", "time": "TIME(3)"}.get(kind) or _EPOCH_TYPES[unit])
        if self.name == ZONED:
            return parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE")
        return parse_type(_PLAIN.get(self.type, "STRING"))


@dataclass(frozen=True, slots=True)
class Run:
    """Lines with one schema part.

    block    whole lines; the schema part cut out of each where all begin with it
    lines    number of lines
    columns  what it says of the row's columns, None without one
    """

    block: bytes
    lines: int
    columns: Mapping[str, ConnectColumn] | None


def split_runs(block: bytes) -> Iterator[Run]:
    """Split a block of whole lines where the schema part changes; lines without one are runs, too."""
    start = 0
    while start < len(block):
        begin = _first_text(block, start)
        prefix, columns = _schema_part(block[begin : _line_end(block, begin)])
        if prefix is None:
            # Lines with a schema part in another place are read one by one.
            end = _line_end(block, begin) if columns is not None else _next_with_schema(block, begin)
            yield Run(block[start:end], block.count(b"\n", start, end), columns)
        else:
            end = _next(block, begin, b"(?!" + re.escape(prefix) + b"|[ \\t]*\n)")
            run = b"\n" + block[start:end]
            cut = run.replace(b"\n" + prefix, b'\n{"payload":')[1:]
            yield Run(cut, block.count(b"\n", start, end), columns)
        start = end


def _first_text(block: bytes, start: int) -> int:
    found = _BLANKS.match(block, start)
    at = found.end() if found else start
    return at if at < len(block) else start


def _line_end(block: bytes, start: int) -> int:
    return block.find(b"\n", start) + 1 or len(block)


def _next(block: bytes, start: int, pattern: bytes) -> int:
    """Return where the next line after that of `start` begins that a pattern matches."""
    found = re.compile(b"\n" + pattern).search(block, _line_end(block, start) - 1)
    return found.start() + 1 if found else len(block)


def _next_with_schema(block: bytes, start: int) -> int:
    """Return where the next line after that of `start` begins that may have a schema part, wherever it has it."""
    found = _SCHEMA.search(block, _line_end(block, start))
    return block.rfind(b"\n", 0, found.start()) + 1 if found else len(block)


def _schema_part(line: bytes) -> tuple[bytes | None, Mapping[str, ConnectColumn] | None]:
    """Return a line's text up to the payload, and its schema part; the text is None when the schema part is elsewhere."""
    begin = _BEGIN.match(line)
    try:
        if begin is None:
            value = json.loads(line)
            return None, columns_of(value.get("schema")) if isinstance(value, dict) and "payload" in value else None
        text = line.decode("utf-8")
        at = len(line[: begin.end()].decode("utf-8"))
        schema, end = json.JSONDecoder().raw_decode(text, at)
        then = _THEN.match(text, end)
        if then is None:
            return None, columns_of(schema)
        return text[: then.end()].encode("utf-8"), columns_of(schema)
    except (ValueError, RecursionError):
        return None, None


def columns_of(schema: Any) -> Mapping[str, ConnectColumn] | None:
    """Return the columns of the row in a schema part; None when it describes no row before or after a change."""
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return None
    for wanted in ("after", "before"):
        for field in schema["fields"]:
            if isinstance(field, dict) and field.get("field") == wanted and isinstance(field.get("fields"), list):
                return {str(f.get("field")): _column(f) for f in field["fields"] if isinstance(f, dict)}
    return None


def _column(field: Mapping[str, Any]) -> ConnectColumn:
    parameters = field.get("parameters") or {}
    return ConnectColumn(
        str(field.get("type")),
        str(field.get("name") or ""),
        int(parameters.get("scale", 0)),
        int(parameters.get("connect.decimal.precision", 38)),
    )
