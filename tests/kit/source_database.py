"""A database of one table that changes at random, and its changes in the words of each change capture tool.

Its rows are plain Python values; the encoders below are written from the tools' documentation and share no code with lakeidx.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
DAY_ZERO, TIME_ZERO = date(1970, 1, 1), datetime(1970, 1, 1)
FIELDS = [
    {"name": "id", "type": "INT"},
    {"name": "name", "type": "STRING"},
    {"name": "price", "type": "DECIMAL(12, 2)"},
    {"name": "day", "type": "DATE"},
    {"name": "at", "type": "TIMESTAMP(3)"},
    {"name": "flag", "type": "BOOLEAN"},
]


@dataclass(frozen=True)
class Change:
    """One change of one row: `before` is None for an insert, `after` for a delete."""

    before: Row | None
    after: Row | None
    lsn: int
    transaction: int

    @property
    def op(self) -> str:
        return "c" if self.before is None else "d" if self.after is None else "u"

    @property
    def ms(self) -> int:
        return 1_700_000_000_000 + self.transaction * 1000


@dataclass
class SourceDatabase:
    """The table as it is, and the changes that led to it."""

    seed: int
    rows: dict[int, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, transactions: int, keys: int = 12) -> None:
        for number in range(1, transactions + 1):
            for _ in range(self._random.randint(1, 4)):
                self._change(number, self._random.randrange(keys), keys)

    def _change(self, transaction: int, key: int, keys: int) -> None:
        before = self.rows.get(key)
        after: Row | None = self._row(key)
        dice = self._random.random()
        if before is not None and dice < 0.25:
            after = None
        elif before is not None and dice < 0.45:
            free = [k for k in range(keys) if k not in self.rows]
            after = {**before, "id": self._random.choice(free)} if free else after
        elif before is not None and dice < 0.75:
            after = {**before, "price": self._price()}
        if before is not None:
            del self.rows[before["id"]]
        if after is not None:
            self.rows[after["id"]] = after
        self.changes.append(Change(before, after, 1000 + len(self.changes), transaction))

    def _price(self) -> Decimal | None:
        choice = self._random.random()
        if choice < 0.2:
            return None
        return Decimal(
            self._random.randint(-(10**11), 10**11) if choice < 0.5 else self._random.randint(-200, 200)
        ).scaleb(-2)

    def _row(self, key: int) -> Row:
        some = self._random
        return {
            "id": key,
            "name": some.choice(['x "quoted"', "Ärger\n", "", None, "null", "1234", f"n{some.random()}"]),
            "price": self._price(),
            "day": some.choice([None, DAY_ZERO + timedelta(days=some.randint(-30000, 30000))]),
            "at": TIME_ZERO + timedelta(milliseconds=some.randint(-(10**12), 4 * 10**12)),
            "flag": some.choice([True, False, None]),
        }


def _lines(messages: Iterator[Any] | Sequence[Any]) -> list[str]:
    return [json.dumps(m, ensure_ascii=False) for m in messages]


def _number_bytes(value: Decimal) -> str:
    number = int(value.scaleb(2))
    size = (number.bit_length() // 8) + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def _connect_row(row: Row | None, *, precise: bool) -> Row | None:
    if row is None:
        return None
    price = row["price"]
    return {
        **row,
        "price": None if price is None else _number_bytes(price) if precise else str(price),
        "day": None if row["day"] is None else (row["day"] - DAY_ZERO).days,
        "at": (row["at"] - TIME_ZERO) // timedelta(milliseconds=1),
    }


def _image_schema(side: str) -> Row:
    columns = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "name"},
        {
            "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "12"}, "field": "price",
        },
        {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1, "field": "day"},
        {"type": "int64", "optional": True, "name": "io.debezium.time.Timestamp", "version": 1, "field": "at"},
        {"type": "boolean", "optional": True, "field": "flag"},
    ]  # fmt: skip
    return {"type": "struct", "fields": columns, "optional": True, "name": "server1.public.things.Value", "field": side}


SCHEMA = {
    "type": "struct",
    "fields": [_image_schema("before"), _image_schema("after"), {"type": "string", "optional": False, "field": "op"}],
    "optional": False,
    "name": "server1.public.things.Envelope",
}


def debezium(changes: Sequence[Change], *, schema: bool = False) -> list[str]:
    """Messages of Debezium for PostgreSQL; a change of the key is an update here, deletes have tombstones."""
    out: list[str] = []
    for c in changes:
        payload = {
            "before": _connect_row(c.before, precise=schema),
            "after": _connect_row(c.after, precise=schema),
            "source": {
                "connector": "postgresql",
                "ts_ms": c.ms,
                "txId": c.transaction,
                "lsn": c.lsn,
                "table": "things",
            },
            "op": c.op,
            "ts_ms": c.ms + 250,
            "transaction": {"id": str(c.transaction), "total_order": c.lsn, "data_collection_order": c.lsn},
        }
        out += _lines([{"schema": SCHEMA, "payload": payload} if schema else payload])
        out += ["null"] if c.op == "d" else []
    return out


def _text_row(row: Row | None) -> Row | None:
    if row is None:
        return None
    return {
        "id": row["id"],
        "name": row["name"],
        "price": None if row["price"] is None else str(row["price"]),
        "day": None if row["day"] is None else row["day"].isoformat(),
        "at": row["at"].isoformat(sep=" ", timespec="milliseconds"),
        "flag": row["flag"],
    }


def _canal_row(row: Row | None) -> Row:
    found = _text_row(row) or {}
    return {n: v if v is None else str(int(v)) if isinstance(v, bool) else str(v) for n, v in found.items()}


def _old(change: Change, form: Callable[[Row | None], Any]) -> Row:
    before, after = form(change.before), form(change.after)
    return {n: v for n, v in before.items() if v != after[n]}


def canal(changes: Sequence[Change]) -> list[str]:
    """Messages of Canal: rows of one transaction and kind that follow one another share a message."""
    groups: list[list[Change]] = []
    for c in changes:
        if groups and (groups[-1][0].op, groups[-1][0].transaction) == (c.op, c.transaction):
            groups[-1].append(c)
        else:
            groups.append([c])
    words = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
    types = {
        "id": "int",
        "name": "varchar(255)",
        "price": "decimal(12,2)",
        "day": "date",
        "at": "datetime(3)",
        "flag": "bit(1)",
    }
    messages: list[Any] = [
        {"data": None, "database": "shop", "es": 1, "id": 1, "isDdl": True, "type": "ALTER", "sql": "ALTER …"}
    ]
    for group in groups:
        first = group[0]
        messages.append(
            {
                "data": [_canal_row(c.after or c.before) for c in group],
                "database": "shop", "es": first.ms, "id": first.lsn, "isDdl": False, "mysqlType": types,
                "old": [_old(c, _canal_row) for c in group] if first.op == "u" else None,
                "pkNames": ["id"], "sql": "", "table": "things", "ts": first.ms + 90, "type": words[first.op],
            }
        )  # fmt: skip
    return _lines(messages)


def maxwell(changes: Sequence[Change]) -> list[str]:
    """Messages of Maxwell."""
    out = []
    for c in changes:
        kind = {"c": "insert", "u": "update", "d": "delete"}[c.op]
        message = {"database": "shop", "table": "things", "type": kind, "ts": c.ms // 1000, "xid": c.transaction,
                   "xoffset": c.lsn, "data": _text_row(c.after or c.before)}  # fmt: skip
        out.append({**message, "old": _old(c, _text_row)} if c.op == "u" else message)
    return _lines(out)


def ogg(changes: Sequence[Change]) -> list[str]:
    """Messages of Oracle GoldenGate."""
    return _lines(
        [
            {"table": "SHOP.THINGS", "op_type": {"c": "I", "u": "U", "d": "D"}[c.op],
             "op_ts": f"{TIME_ZERO + timedelta(milliseconds=c.ms)}.000000", "current_ts": "2024-01-01T00:00:00.000000",
             "pos": f"{c.lsn:020d}", "primary_keys": ["id"],
             **({} if c.before is None else {"before": _text_row(c.before)}),
             **({} if c.after is None else {"after": _text_row(c.after)})}
            for c in changes
        ]
    )  # fmt: skip


def dms_json(changes: Sequence[Change]) -> list[str]:
    """Messages of AWS DMS to Kafka or Kinesis, with before-images of all columns."""
    out: list[Any] = [
        {
            "metadata": {
                "timestamp": "2024-01-01T00:00:00.000000Z",
                "record-type": "control",
                "operation": "create-table",
            }
        }
    ]
    for c in changes:
        operation = {"c": "insert", "u": "update", "d": "delete"}[c.op]
        stamp = (TIME_ZERO + timedelta(milliseconds=c.ms)).isoformat(timespec="microseconds") + "Z"
        message = {
            "data": _text_row(c.after or c.before),
            "metadata": {"timestamp": stamp, "record-type": "data", "operation": operation, "transaction-id": c.lsn},
        }
        out.append({**message, "before-image": _text_row(c.before)} if c.op == "u" else message)
    return _lines(out)


def dms_csv(changes: Sequence[Change]) -> list[str]:
    """Lines of a CSV file of AWS DMS with a transact id; a change of the key is a delete and an insert."""
    text = io.StringIO()
    sink = csv.writer(text, lineterminator="\n")
    sink.writerow(["Op", "transact_id", *(f["name"] for f in FIELDS)])
    for c in changes:
        moved = c.op == "u" and c.before is not None and c.after is not None and c.before["id"] != c.after["id"]
        steps = (
            [("D", c.before), ("I", c.after)]
            if moved
            else [({"c": "I", "u": "U", "d": "D"}[c.op], c.after or c.before)]
        )
        for letter, row in steps:
            values = (_text_row(row) or {}).values()
            # Of texts none may be empty: an empty field is null.
            sink.writerow([letter, c.lsn, *("" if v is None else v for v in values)])
    return [text.getvalue().removesuffix("\n")]
