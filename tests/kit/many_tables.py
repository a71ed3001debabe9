"""A database of many tables that changes at random, its schema, too, and one feed of all changes in each tool's messages.

The model is the tables as a plain copy has them: a row is what its last message says, null in columns that the message's table
does not have. It shares no code with lakeidx.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
DAY, TIME = date(1970, 1, 1), datetime(1970, 1, 1)
#: Names of columns begin with them.
LETTERS = "cdefghijklmnopqrstuvwxyz"
#: Kinds of columns: type in MySQL, in a table definition of DMS, and of Kafka Connect (type, name, parameters).
KINDS: dict[str, tuple[str, Row, tuple[str, str, Row]]] = {
    "int": ("int", {"type": "INT4"}, ("int32", "", {})),
    "bigint": ("bigint", {"type": "INT8"}, ("int64", "", {})),
    "text": ("varchar(200)", {"type": "WSTRING", "length": 200}, ("string", "", {})),
    "price": ("decimal(12,2)", {"type": "NUMERIC", "precision": 12, "scale": 2}, ("string", "", {})),
    "day": ("date", {"type": "DATE"}, ("int32", "io.debezium.time.Date", {})),
    "at": ("datetime(3)", {"type": "DATETIME"}, ("int64", "io.debezium.time.Timestamp", {})),
}


@dataclass
class Table:
    """One table: columns with their kinds, rows by key, and rows as a copy has them; `gone`: columns that were dropped."""

    name: str
    columns: dict[str, str]
    rows: dict[int, Row] = field(default_factory=dict)
    copy: dict[int, Row] = field(default_factory=dict)
    every: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """A change of a row, or of the schema (`op` is ``create`` or ``alter``); `columns` are those of the table at that time."""

    table: str
    op: str
    columns: dict[str, str]
    before: Row | None
    after: Row | None
    number: int


class ManyTables:
    """The database: ten tables, of which the last is created in the middle."""

    def __init__(self, seed: int, tables: int = 10) -> None:
        self.random = random.Random(seed)
        self.events: list[Event] = []
        self.tables: dict[str, Table] = {}
        self._left = [f"table_{n}" for n in range(tables)]
        for _ in range(tables - 1):
            self._create()

    def run(self, changes: int) -> ManyTables:
        for n in range(changes):
            if n == changes // 2 and self._left:
                self._create()
            if self.random.random() < 0.04:
                self._alter(self.random.choice(list(self.tables.values())))
            self._change(self.random.choice(list(self.tables.values())))
        return self

    def _create(self) -> None:
        name = self._left.pop(0)
        kinds = self.random.sample(["price", "day", "at", "text"], self.random.randint(1, 4))
        table = Table(name, {"id": "int", "qty": "int", **{f"c_{k}": k for k in kinds}})
        self.tables[name] = table
        table.every |= dict.fromkeys(table.columns)
        self._event(table, "create", None, None)

    def _alter(self, table: Table) -> None:
        choice = self.random.choice(["add", "widen", "drop"])
        if choice == "widen":
            if table.columns["qty"] == "bigint":
                return
            table.columns = {**table.columns, "qty": "bigint"}
        elif choice == "add":
            kind = self.random.choice(list(KINDS))
            name = next(n for letter in LETTERS if (n := f"{letter}_{kind}") not in table.every)
            table.columns = {**table.columns, name: kind}
            table.every[name] = None
        else:
            some = [n for n in table.columns if n not in ("id", "qty")]
            if not some:
                return
            gone = self.random.choice(some)
            table.columns = {n: k for n, k in table.columns.items() if n != gone}
            for row in table.rows.values():
                row.pop(gone, None)
        for row in table.rows.values():
            row |= {n: None for n in table.columns if n not in row}
        self._event(table, "alter", None, None)

    def _change(self, table: Table) -> None:
        key = self.random.randrange(12)
        before = table.rows.get(key)
        if before is not None and self.random.random() < 0.25:
            del table.rows[key], table.copy[key]
            self._event(table, "d", before, None)
            return
        after = {n: key if n == "id" else self._value(k) for n, k in table.columns.items()}
        if before is not None and self.random.random() < 0.5:
            after = {**before, "qty": self._value(table.columns["qty"])}
        table.rows[key] = after
        table.copy[key] = dict(after)
        self._event(table, "c" if before is None else "u", before, after)

    def _event(self, table: Table, op: str, before: Row | None, after: Row | None) -> None:
        plain = None if before is None else dict(before), None if after is None else dict(after)
        self.events.append(Event(table.name, op, dict(table.columns), *plain, len(self.events) + 1))

    def _value(self, kind: str) -> Any:
        some = self.random
        if some.random() < 0.1:
            return None
        values: dict[str, Callable[[], Any]] = {
            "int": lambda: some.randint(-(2**31), 2**31 - 1),
            "bigint": lambda: some.randint(-(2**62), 2**62),
            "text": lambda: some.choice(['x "y"', "Ärger\n", "", "null", "{", f"n{some.random()}"]),
            "price": lambda: Decimal(some.randint(-(10**11), 10**11)).scaleb(-2),
            "day": lambda: DAY + timedelta(days=some.randint(-30000, 30000)),
            "at": lambda: TIME + timedelta(milliseconds=some.randint(0, 4 * 10**12)),
        }
        return values[kind]()

    def check(self, warehouse: Any, database: str = "ods") -> None:
        """Compare the tables of a warehouse with a plain copy; a column that never had a value may not be there."""
        wanted = self.copies()
        for name in warehouse.tables(database):
            rows = warehouse.table(name).scan().to_arrow().to_pylist()
            found = {r["id"]: {n: as_text(v) for n, v in r.items() if v is not None} for r in rows}
            assert len(found) == len(rows)
            copy = wanted.pop(name.partition(".")[2], {})
            assert found == {k: {n: v for n, v in row.items() if v is not None} for k, row in copy.items()}, name
        assert not wanted

    def copies(self) -> dict[str, dict[int, Row]]:
        """Rows by table and key as a copy has them, values as text."""
        return {
            t.name: {k: {n: as_text(row.get(n)) for n in t.every} for k, row in t.copy.items()}
            for t in self.tables.values()
            if any(e.table == t.name and e.op in "cud" for e in self.events)
        }


def as_text(value: Any) -> str | None:
    """A value as text, the same whatever type a table has found for it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    return None if value is None else str(value)


def _text_row(row: Row | None) -> Row | None:
    return None if row is None else {n: v if isinstance(v, int) else as_text(v) for n, v in row.items()}


def _old(event: Event, row: Callable[[Row | None], Row | None]) -> Row:
    before, after = row(event.before) or {}, row(event.after) or {}
    return {n: v for n, v in before.items() if n in after and v != after[n]}


def _connect_row(row: Row | None) -> Row | None:
    if row is None:
        return None
    out = dict(row)
    for name, value in row.items():
        if isinstance(value, datetime):
            out[name] = (value - TIME) // timedelta(milliseconds=1)
        elif isinstance(value, date):
            out[name] = (value - DAY).days
        elif isinstance(value, Decimal):
            out[name] = str(value)
    return out


def debezium(events: list[Event], *, schema: bool) -> list[str]:
    """Messages of Debezium for MySQL with decimals as text; its schema changes in the same feed, when there is no schema part."""
    out = []
    for e in events:
        source = {"connector": "mysql", "name": "dbserver1", "ts_ms": 1_700_000_000_000 + e.number, "db": "shop",
                  "table": e.table, "file": "binlog.1", "pos": e.number}  # fmt: skip
        if e.op in ("create", "alter"):
            columns = [{"name": n, "typeName": KINDS[k][0].partition("(")[0].upper(), "optional": n != "id",
                        **dict(zip(("length", "scale"), _sizes(KINDS[k][0]), strict=False))}
                       for n, k in e.columns.items()]  # fmt: skip
            change = {"type": e.op.upper(), "id": f'"shop"."{e.table}"',
                      "table": {"primaryKeyColumnNames": ["id"], "columns": columns}}  # fmt: skip
            payload: Row = {"source": source, "ts_ms": source["ts_ms"], "databaseName": "shop", "ddl": f"{e.op} …",
                            "tableChanges": [change]}  # fmt: skip
            out.append(
                {"schema": {"type": "struct", "name": "SchemaChangeValue"}, "payload": payload} if schema else payload
            )
            continue
        payload = {"before": _connect_row(e.before), "after": _connect_row(e.after), "source": source, "op": e.op}
        out.append({"schema": _envelope(e), "payload": payload} if schema else payload)
        if e.op == "d":
            out.append(None)  # type: ignore[arg-type]
    return [json.dumps(m) for m in out]


def _sizes(text: str) -> list[int]:
    inside = text.partition("(")[2].rstrip(")")
    return [int(n) for n in inside.split(",")] if inside else []


def _envelope(e: Event) -> Row:
    fields = []
    for name, kind in e.columns.items():
        t, meaning, parameters = KINDS[kind][2]
        fields.append(
            {"type": t, "optional": name != "id", **({"name": meaning} if meaning else {}), "field": name, **parameters}
        )
    sides = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
    return {"type": "struct", "fields": [*sides, {"type": "string", "optional": False, "field": "op"}]}


def canal(events: list[Event]) -> list[str]:
    out = []
    for e in events:
        message: Row = {"data": None, "database": "shop", "es": e.number, "id": e.number, "isDdl": False, "mysqlType": None,
                        "old": None, "pkNames": None, "sql": "", "table": e.table, "ts": e.number}  # fmt: skip
        if e.op in ("create", "alter"):
            message |= {"isDdl": True, "sql": f"{e.op} table …", "type": e.op.upper()}
        else:
            word = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[e.op]
            message |= {"data": [_canal_row(e.after or e.before)], "type": word, "pkNames": ["id"],
                        "mysqlType": {n: KINDS[k][0] for n, k in e.columns.items()},
                        "old": [_old(e, _canal_row)] if e.op == "u" else None}  # fmt: skip
        out.append(json.dumps(message))
    return out


def _canal_row(row: Row | None) -> Row | None:
    return row and {n: as_text(v) for n, v in row.items()}


def maxwell(events: list[Event]) -> list[str]:
    """Messages of Maxwell with output_ddl; decimals are numbers."""
    out = []
    for e in events:
        message: Row = {"database": "shop", "table": e.table, "ts": e.number}
        if e.op in ("create", "alter"):
            columns = [_maxwell_column(n, KINDS[k][0]) for n, k in e.columns.items()]
            definition = {"database": "shop", "table": e.table, "columns": columns, "primary-key": ["id"]}
            message |= {"type": f"table-{e.op}", "def": definition, "sql": "…"}
        else:
            word = {"c": "insert", "u": "update", "d": "delete"}[e.op]
            message |= {"type": word, "data": _maxwell_row(e.after or e.before)}
            message |= {"old": _old(e, _maxwell_row)} if e.op == "u" else {}
        out.append(json.dumps(message))
    return out


def _maxwell_row(row: Row | None) -> Row | None:
    found = _text_row(row)
    return found and {n: float(v) if isinstance((row or {})[n], Decimal) else v for n, v in found.items()}


def _maxwell_column(name: str, text: str) -> Row:
    word, sizes = text.partition("(")[0], _sizes(text)
    return {"type": word, "name": name, **({"column-length": sizes[0]} if word == "datetime" else {}),
            **({"signed": True} if word in ("int", "bigint") else {})}  # fmt: skip


def ogg(events: list[Event]) -> list[str]:
    return [
        json.dumps(
            {"table": f"SHOP.{e.table}", "op_type": {"c": "I", "u": "U", "d": "D"}[e.op], "primary_keys": ["id"],
             "op_ts": "2024-01-01 00:00:00.000000", "pos": f"{e.number:020d}",
             **({} if e.before is None else {"before": _text_row(e.before)}),
             **({} if e.after is None else {"after": _text_row(e.after)})}
        )
        for e in events if e.op in "cud"
    ]  # fmt: skip


def dms_json(events: list[Event]) -> list[str]:
    out: list[Row] = []
    for e in events:
        metadata: Row = {"timestamp": "2024-01-01T00:00:00.000000Z", "schema-name": "shop", "table-name": e.table}
        if e.op in ("create", "alter"):
            definition = {"columns": {n: KINDS[k][1] for n, k in e.columns.items()}, "primary-key": ["id"]}
            metadata |= {
                "record-type": "control",
                "operation": "create-table" if e.op == "create" else "change-columns",
            }
            out.append({"metadata": metadata, "control": {"table-def": definition}})
            continue
        word = {"c": "insert", "u": "update", "d": "delete"}[e.op]
        metadata |= {"record-type": "data", "operation": word, "transaction-id": e.number}
        message: Row = {"data": _text_row(e.after or e.before), "metadata": metadata}
        out.append({**message, "before-image": _text_row(e.before)} if e.op == "u" else message)
    return [json.dumps(m) for m in out]


#: By name: format, messages, whether each message tells the columns of its table, and types that it does not tell.
FEEDS: dict[str, tuple[str, Callable[[list[Event]], list[str]], bool, dict[str, str]]] = {
    "debezium-schema": ("debezium", lambda e: debezium(e, schema=True), True, {}),
    "debezium": ("debezium", lambda e: debezium(e, schema=False), False, {}),
    "canal": ("canal", canal, True, {}),
    "maxwell": ("maxwell", maxwell, False, {f"*.{letter}_price": "DECIMAL(12, 2)" for letter in LETTERS}),
    "ogg": ("ogg", ogg, False, {}),
    "dms-json": ("dms-json", dms_json, False, {}),
}
