"""Changes of the tables of a database in the words of each change capture tool.

Rows are plain Python values; the encoders are written from the tools' documentation and share no code with lakeidx.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
DAY_ZERO, TIME_ZERO = date(1970, 1, 1), datetime(1970, 1, 1)
#: Kinds of columns: type in MySQL, in a table definition of DMS, and of Kafka Connect (type, name, more).
KINDS: dict[str, tuple[str, Row, tuple[str, str, Row]]] = {
    "int": ("int", {"type": "INT4"}, ("int32", "", {})),
    "bigint": ("bigint", {"type": "INT8"}, ("int64", "", {})),
    "text": ("varchar(200)", {"type": "WSTRING", "length": 200}, ("string", "", {})),
    "price": ("decimal(12,2)", {"type": "NUMERIC", "precision": 12, "scale": 2},
              ("bytes", "org.apache.kafka.connect.data.Decimal",
               {"version": 1, "parameters": {"scale": "2", "connect.decimal.precision": "12"}})),
    "day": ("date", {"type": "DATE"}, ("int32", "io.debezium.time.Date", {})),
    "at": ("datetime(3)", {"type": "DATETIME"}, ("int64", "io.debezium.time.Timestamp", {})),
    "flag": ("bit(1)", {"type": "BOOLEAN"}, ("boolean", "", {})),
}  # fmt: skip
_DDL = ("create", "alter")
_WORDS = {"c": "insert", "u": "update", "d": "delete"}
_LETTERS = {"c": "I", "u": "U", "d": "D"}


@dataclass(frozen=True)
class Change:
    """A change of a row, c, u or d, or of the schema, create or alter.

    columns         those of the table at that time, with their kinds
    before, after   the row; None before an insert and after a delete
    number          its place among all changes
    """

    table: str
    op: str
    columns: dict[str, str]
    before: Row | None
    after: Row | None
    number: int
    transaction: int

    @property
    def ms(self) -> int:
        """When its transaction was committed."""
        return 1_700_000_000_000 + self.transaction * 1000

    @property
    def row(self) -> Row:
        """The row after it; of a delete the one that goes."""
        return self.after or self.before or {}


def as_text(value: Any) -> str | None:
    """A value as text, the same whatever type a table has found for it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    return None if value is None else str(value)


def _text_row(row: Row) -> Row:
    return {n: v if isinstance(v, int) else as_text(v) for n, v in row.items()}


def _sides(change: Change, form: Callable[[Row], Row]) -> tuple[Row, Row]:
    """The row of a change, and what an update has changed of the one before."""
    row, before = form(change.row), form(change.before or {})
    return row, {n: v for n, v in before.items() if n in row and v != row[n]}


def _sizes(text: str) -> list[int]:
    inside = text.partition("(")[2].rstrip(")")
    return [int(n) for n in inside.split(",")] if inside else []


def _lines(messages: Iterable[Any]) -> list[str]:
    return [json.dumps(m, ensure_ascii=False) for m in messages]


def _connect_row(row: Row | None, *, precise: bool) -> Row | None:
    if row is None:
        return None
    out = dict(row)
    for name, value in row.items():
        if isinstance(value, datetime):
            out[name] = (value - TIME_ZERO) // timedelta(milliseconds=1)
        elif isinstance(value, date):
            out[name] = (value - DAY_ZERO).days
        elif isinstance(value, Decimal):
            out[name] = _number_bytes(value) if precise else str(value)
    return out


def _number_bytes(value: Decimal) -> str:
    number = int(value.scaleb(2))
    size = (number.bit_length() // 8) + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def _envelope(change: Change) -> Row:
    fields = []
    for name, kind in change.columns.items():
        t, meaning, more = KINDS[kind][2]
        fields.append(
            {"type": t, "optional": name != "id", **({"name": meaning} if meaning else {}), "field": name, **more}
        )
    sides = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
    return {"type": "struct", "fields": [*sides, {"type": "string", "optional": False, "field": "op"}]}


def _schema_change(change: Change, source: Row) -> Row:
    columns = [{"name": n, "typeName": KINDS[k][0].partition("(")[0].upper(), "optional": n != "id",
                **dict(zip(("length", "scale"), _sizes(KINDS[k][0]), strict=False))}
               for n, k in change.columns.items()]  # fmt: skip
    told = {"type": change.op.upper(), "id": f'"shop"."{change.table}"',
            "table": {"primaryKeyColumnNames": ["id"], "columns": columns}}  # fmt: skip
    return {"source": source, "ts_ms": source["ts_ms"], "databaseName": "shop", "ddl": f"{change.op} …",
            "tableChanges": [told]}  # fmt: skip


def debezium(changes: Sequence[Change], *, schema: bool = False) -> list[str]:
    """Messages of Debezium; without a schema part decimals are text. A change of the key is an update, deletes have tombstones."""
    out: list[Any] = []
    for c in changes:
        source = {"connector": "mysql", "name": "dbserver1", "ts_ms": c.ms, "db": "shop", "table": c.table,
                  "file": "binlog.1", "pos": c.number, "lsn": c.number}  # fmt: skip
        if c.op in _DDL:
            payload, envelope = _schema_change(c, source), {"type": "struct", "name": "SchemaChangeValue"}
        else:
            envelope = _envelope(c)
            payload = {"before": _connect_row(c.before, precise=schema), "after": _connect_row(c.after, precise=schema),
                       "source": source, "op": c.op, "ts_ms": c.ms + 250,
                       "transaction": {"id": str(c.transaction), "total_order": c.number}}  # fmt: skip
        out.append({"schema": envelope, "payload": payload} if schema else payload)
        out += [None] if c.op == "d" else []
    return _lines(out)


def _canal_row(row: Row) -> Row:
    return {n: str(int(v)) if isinstance(v, bool) else as_text(v) for n, v in row.items()}


def canal(changes: Sequence[Change]) -> list[str]:
    """Messages of Canal: rows of one transaction and kind that follow one another share a message."""
    groups: list[list[Change]] = []
    for c in changes:
        last = groups[-1][0] if groups else None
        if last is not None and (last.op, last.table, last.transaction) == (c.op, c.table, c.transaction):
            groups[-1].append(c)
        else:
            groups.append([c])
    out = []
    for group in groups:
        first = group[0]
        message: Row = {"data": None, "database": "shop", "es": first.ms, "id": first.number, "isDdl": False,
                        "mysqlType": None, "old": None, "pkNames": None, "sql": "", "table": first.table,
                        "ts": first.ms + 90}  # fmt: skip
        if first.op in _DDL:
            message |= {"isDdl": True, "sql": f"{first.op} table …", "type": first.op.upper()}
        else:
            sides = [_sides(c, _canal_row) for c in group]
            message |= {"data": [row for row, _ in sides], "type": _WORDS[first.op].upper(), "pkNames": ["id"],
                        "mysqlType": {n: KINDS[k][0] for n, k in first.columns.items()},
                        "old": [old for _, old in sides] if first.op == "u" else None}  # fmt: skip
        out.append(message)
    return _lines(out)


def _maxwell_row(row: Row) -> Row:
    return {n: float(row[n]) if isinstance(row[n], Decimal) else v for n, v in _text_row(row).items()}


def _maxwell_column(name: str, text: str) -> Row:
    word, sizes = text.partition("(")[0], _sizes(text)
    return {"type": word, "name": name, **({"column-length": sizes[0]} if word == "datetime" else {}),
            **({"signed": True} if word in ("int", "bigint") else {})}  # fmt: skip


def maxwell(changes: Sequence[Change]) -> list[str]:
    """Messages of Maxwell with output_ddl; decimals are numbers."""
    out = []
    for c in changes:
        message: Row = {"database": "shop", "table": c.table, "ts": c.ms // 1000, "xid": c.transaction,
                        "xoffset": c.number}  # fmt: skip
        if c.op in _DDL:
            columns = [_maxwell_column(n, KINDS[k][0]) for n, k in c.columns.items()]
            definition = {"database": "shop", "table": c.table, "columns": columns, "primary-key": ["id"]}
            message |= {"type": f"table-{c.op}", "def": definition, "sql": "…"}
        else:
            row, old = _sides(c, _maxwell_row)
            message |= {"type": _WORDS[c.op], "data": row, **({"old": old} if c.op == "u" else {})}
        out.append(message)
    return _lines(out)


def ogg(changes: Sequence[Change]) -> list[str]:
    """Messages of Oracle GoldenGate, which tells no change of a schema."""
    return _lines(
        {"table": f"SHOP.{c.table}", "op_type": _LETTERS[c.op], "primary_keys": ["id"], "pos": f"{c.number:020d}",
         "op_ts": f"{TIME_ZERO + timedelta(milliseconds=c.ms)}.000000",
         **{side: _text_row(row) for side, row in (("before", c.before), ("after", c.after)) if row is not None}}
        for c in changes if c.op not in _DDL
    )  # fmt: skip


def dms_json(changes: Sequence[Change]) -> list[str]:
    """Messages of AWS DMS to Kafka or Kinesis, with before-images of all columns."""
    out: list[Row] = []
    for c in changes:
        stamp = (TIME_ZERO + timedelta(milliseconds=c.ms)).isoformat(timespec="microseconds") + "Z"
        metadata: Row = {"timestamp": stamp, "schema-name": "shop", "table-name": c.table}
        if c.op in _DDL:
            definition = {"columns": {n: KINDS[k][1] for n, k in c.columns.items()}, "primary-key": ["id"]}
            word = "create-table" if c.op == "create" else "change-columns"
            metadata |= {"record-type": "control", "operation": word}
            out.append({"metadata": metadata, "control": {"table-def": definition}})
            continue
        metadata |= {"record-type": "data", "operation": _WORDS[c.op], "transaction-id": c.number}
        message: Row = {"data": _text_row(c.row), "metadata": metadata}
        out.append({**message, "before-image": _text_row(c.before or {})} if c.op == "u" else message)
    return _lines(out)


def dms_csv(changes: Sequence[Change]) -> list[str]:
    """Lines of a CSV file of AWS DMS with a transact id; a change of the key is a delete and an insert."""
    text = io.StringIO()
    sink = csv.writer(text, lineterminator="\n")
    rows = [c for c in changes if c.op not in _DDL]
    sink.writerow(["Op", "transact_id", *rows[0].columns])
    for c in rows:
        moved = c.before is not None and c.after is not None and c.before["id"] != c.after["id"]
        steps = [("D", c.before), ("I", c.after)] if moved else [(_LETTERS[c.op], c.row)]
        for letter, row in steps:
            # Of texts none may be empty: an empty field is null.
            sink.writerow([letter, c.number, *("" if v is None else v for v in _text_row(row or {}).values())])
    return [text.getvalue().removesuffix("\n")]
