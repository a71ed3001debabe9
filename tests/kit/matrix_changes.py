"""Ways into a table by the messages of change capture tools: each row is an insert."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lakeidx.landing.read import LandingOptions
from lakeidx.types import BYTES_ROOTS
from tests.kit.matrix_in import Load, Refused, WayIn, upserted
from tests.kit.matrix_texts import (
    connect_column,
    connect_value,
    csv_lines,
    json_bytes,
    json_of,
    native,
    nested_text,
    text_of,
)
from tests.kit.matrix_values import Column

#: Makes the message of a row's values.
Message = Callable[[dict[str, Any], Sequence[Column]], Any]
_KEY = {"field": "id", "optional": False, "type": "int32"}


def _debezium(row: dict[str, Any], columns: Sequence[Column]) -> Any:
    return {"before": None, "after": row, "source": {"table": "t", "ts_ms": 1}, "op": "c"}


def _with_schema(row: dict[str, Any], columns: Sequence[Column]) -> Any:
    fields = [_KEY, *(connect_column(c.name, c.type) for c in columns)]
    sides = [{"type": "struct", "field": side, "fields": fields} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": sides}, "payload": _debezium(row, columns)}


def _canal(row: dict[str, Any], columns: Sequence[Column]) -> Any:
    return {"data": [row], "database": "d", "table": "t", "es": 1, "type": "INSERT", "isDdl": False, "old": None}


def _maxwell(row: dict[str, Any], columns: Sequence[Column]) -> Any:
    return {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": row}


def _ogg(row: dict[str, Any], columns: Sequence[Column]) -> Any:
    return {"table": "D.T", "op_type": "I", "op_ts": "2026-01-01 00:00:00.000000", "after": row}


def _dms_json(row: dict[str, Any], columns: Sequence[Column]) -> Any:
    metadata = {"timestamp": "2026-01-01T00:00:00Z", "record-type": "data", "operation": "insert"}
    return {"data": row, "metadata": metadata}


def _json(column: Column, value: Any, leaf: Callable[[Any, Any], Any]) -> Any:
    """Return a value as a message has it; what is nested is JSON of its own."""
    return json_of(value, column.type, native if column.type.is_nested else leaf)


def _bytes_as(decoded: Callable[[bytes], str], leaf: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Write bytes in a tool's own way, all else as `leaf` does."""
    return lambda v, t: decoded(v) if isinstance(v, bytes) and t.root in BYTES_ROOTS else leaf(v, t)


def _put(form: str, message: Message, leaf: Callable[[Any, Any], Any], load: Load) -> Refused:
    rows = (*load.good, *load.bad)
    values = [{"id": r.id, **{c.name: _json(c, r.values.get(c.name), leaf) for c in load.columns}} for r in rows]
    file = load.folder / "f.jsonl"
    file.write_bytes(b"".join(json_bytes(message(v, load.columns)) + b"\n" for v in values))
    ids = {i: r.id for i, r in enumerate(rows, 1)}
    refused = upserted(load.table, file, LandingOptions(format=form, missing="null"))
    return {ids.get(-i, i): why for i, why in refused.items()}


def _way(form: str, message: Message, leaf: Callable[[Any, Any], Any]) -> WayIn:
    def writes(column: Column, value: Any, layout: int) -> Any:
        return _json(column, value, leaf)

    return WayIn(partial(_put, form, message, leaf), writes)


def _put_dms(load: Load) -> Refused:
    """CSV files of AWS DMS, with the operation first."""
    rows = (*load.good, *load.bad)
    values = [["I", str(r.id), *(nested_text(r.values.get(c.name), c.type) for c in load.columns)] for r in rows]
    lines = csv_lines(["Op", "id", *(c.name for c in load.columns)], values)
    file = load.folder / "f.csv"
    file.write_bytes(b"".join(lines))
    begins = [1 + sum(line.count(b"\n") for line in lines[:at]) for at in range(1, len(lines))]
    ids = dict(zip(begins, (r.id for r in rows), strict=True))
    refused = upserted(load.table, file, LandingOptions(format="dms", missing="null"))
    return {ids.get(-i, i): why for i, why in refused.items()}


CHANGES_IN: dict[str, WayIn] = {
    "Debezium with schemas": _way("debezium", _with_schema, partial(connect_value, precise=True)),
    "Debezium": _way("debezium", _debezium, partial(connect_value, precise=False)),
    "Canal": _way("canal", _canal, _bytes_as(lambda b: b.decode("latin-1"), text_of)),
    "Maxwell": _way("maxwell", _maxwell, _bytes_as(lambda b: base64.b64encode(b).decode(), native)),
    "GoldenGate": _way("ogg", _ogg, native),
    "DMS messages": _way("dms-json", _dms_json, native),
    "DMS files": WayIn(_put_dms, lambda column, value, _: nested_text(value, column.type)),
}
