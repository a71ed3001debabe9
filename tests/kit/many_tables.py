"""A database of many tables that changes at random, its schema, too, and one feed of all changes in each tool's messages.

The model is the tables as a plain copy has them: a row is what its last message says, null in columns that the message's table
does not have. It shares no code with lakeidx.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tests.kit.change_messages import (
    DAY_ZERO,
    TIME_ZERO,
    Change,
    Row,
    as_text,
    canal,
    debezium,
    dms_json,
    maxwell,
    ogg,
)

#: Names of columns begin with them.
LETTERS = "cdefghijklmnopqrstuvwxyz"
#: Kinds of columns that come later.
_ADDED = ["int", "bigint", "text", "price", "day", "at"]


@dataclass
class Table:
    """One table: columns with their kinds, rows by key, and rows as a copy has them; `gone`: columns that were dropped."""

    name: str
    columns: dict[str, str]
    rows: dict[int, Row] = field(default_factory=dict)
    copy: dict[int, Row] = field(default_factory=dict)
    every: dict[str, None] = field(default_factory=dict)


class ManyTables:
    """The database: ten tables, of which the last is created in the middle."""

    def __init__(self, seed: int, tables: int = 10) -> None:
        self.random = random.Random(seed)
        self.events: list[Change] = []
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
            kind = self.random.choice(_ADDED)
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
        number = len(self.events) + 1
        self.events.append(Change(table.name, op, dict(table.columns), *plain, number, number))

    def _value(self, kind: str) -> Any:
        some = self.random
        if some.random() < 0.1:
            return None
        values: dict[str, Callable[[], Any]] = {
            "int": lambda: some.randint(-(2**31), 2**31 - 1),
            "bigint": lambda: some.randint(-(2**62), 2**62),
            "text": lambda: some.choice(['x "y"', "Ärger\n", "", "null", "{", f"n{some.random()}"]),
            "price": lambda: Decimal(some.randint(-(10**11), 10**11)).scaleb(-2),
            "day": lambda: DAY_ZERO + timedelta(days=some.randint(-30000, 30000)),
            "at": lambda: TIME_ZERO + timedelta(milliseconds=some.randint(0, 4 * 10**12)),
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


#: By name: format, messages, whether each message tells the columns of its table, and types that it does not tell.
FEEDS: dict[str, tuple[str, Callable[[Sequence[Change]], list[str]], bool, dict[str, str]]] = {
    "debezium-schema": ("debezium", lambda e: debezium(e, schema=True), True, {}),
    "debezium": ("debezium", debezium, False, {}),
    "canal": ("canal", canal, True, {}),
    "maxwell": ("maxwell", maxwell, False, {f"*.{letter}_price": "DECIMAL(12, 2)" for letter in LETTERS}),
    "ogg": ("ogg", ogg, False, {}),
    "dms-json": ("dms-json", dms_json, False, {}),
}
