"""Avro landing files (object container files): types by the schema in the file, rows block by block.

Avro is row by row, and so is this reader; what a value is, its logical type says.

source   Avro 1.12 specification, logical types
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from lakeidx.codec.containers.avro import open_blocks
from lakeidx.codec.containers.avro_schemas import resolved_schema

#: Records of a batch, about: blocks are smaller.
_ROWS = 16_384
_TYPES = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(),
}  # fmt: skip
_LOGICAL = {
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
    **{f"timestamp-{word}s": pa.timestamp(unit, "UTC") for word, unit in (("milli", "ms"), ("micro", "us"), ("nano", "ns"))},
    **{f"local-timestamp-{word}s": pa.timestamp(unit) for word, unit in (("milli", "ms"), ("micro", "us"), ("nano", "ns"))},
}  # fmt: skip
#: Makes a value for Arrow of one of fastavro.
_Made = Callable[[Any], Any]
_EXACT = Context(prec=200)


def open_avro(source: Any, path: str) -> tuple[pa.Schema, Callable[[list[str]], Iterator[pa.RecordBatch]]]:
    """Return the columns of an Avro file, and what reads the batches of some of them; a union of several types is one in Arrow.

    errors   CorruptFileError; ValueError for a schema of no columns, or of types that hold themselves
    """
    text, blocks = open_blocks(source.read(), path)
    record = resolved_schema(text)
    if not isinstance(record, dict):
        raise ValueError("its top type is not a record")
    found = {f["name"]: _column(f["type"]) for f in record["fields"]}

    def read(names: list[str]) -> Iterator[pa.RecordBatch]:
        rows: list[Any] = []
        for block in blocks:
            rows += block
            if len(rows) >= _ROWS:
                yield _batch(rows, names, found)
                rows = []
        yield _batch(rows, names, found)

    return pa.schema([pa.field(name, t) for name, (t, _) in found.items()]), read


def _batch(rows: list[Any], names: list[str], found: dict[str, tuple[pa.DataType, _Made | None]]) -> pa.RecordBatch:
    arrays = []
    for name in names:
        t, made = found[name]
        values = [row[name] for row in rows]
        arrays.append(pa.array(values if made is None else map(made, values), t, size=len(values)))
    return pa.RecordBatch.from_arrays(arrays, names)


def _column(node: Any) -> tuple[pa.DataType, _Made | None]:
    """Return the type of a node of a resolved schema, and what makes its values, None where they are Arrow's already."""
    if isinstance(node, list):
        branches = [b for b in node if b != "null"]
        if len(branches) == 1:
            return _column(branches[0])
        parts = [_column(b)[0] for b in branches]
        return pa.dense_union([pa.field(str(i), t) for i, t in enumerate(parts)]) if parts else pa.null(), None
    node = node if isinstance(node, dict) else {"type": node}
    kind, logical = node["type"], node.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale = node.get("scale", 0)
        exact = pa.decimal128 if node["precision"] <= 38 else pa.decimal256
        return exact(node["precision"], scale), _each(lambda v: decimal_of_bytes(v, scale))
    if logical in _LOGICAL and kind in ("int", "long"):
        return _LOGICAL[logical], None
    if kind == "array":
        t, made = _column(node["items"])
        return pa.list_(t), None if made is None else _items(made)
    if kind == "map":
        t, made = _column(node["values"])
        return pa.map_(pa.string(), t), _each(lambda v: [(k, x if made is None else made(x)) for k, x in v.items()])
    if kind in ("record", "error"):
        fields = {f["name"]: _column(f["type"]) for f in node["fields"]}
        made_by = {n: m for n, (_, m) in fields.items() if m is not None}
        t = pa.struct([pa.field(n, t) for n, (t, _) in fields.items()])
        return t, _each(lambda v: {**v, **{n: m(v[n]) for n, m in made_by.items()}}) if made_by else None
    return (pa.binary(node["size"]) if kind == "fixed" else _TYPES[kind]), None


def _each(made: _Made) -> _Made:
    return lambda value: None if value is None else made(value)


def _items(made: _Made) -> _Made:
    return _each(lambda values: [made(v) for v in values])


def decimal_of_bytes(value: bytes, scale: int) -> Decimal:
    """Return the decimal of an integer in bytes, big-endian two's complement."""
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
