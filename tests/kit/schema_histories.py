"""Random histories of a table whose schema changes, and the plain model they are compared with.

The model holds the columns by name and the rows as dictionaries; it knows nothing of schema ids, field ids or files.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import lakeidx
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import parse_type, to_arrow

#: Types a column may go through, narrow to wide, and how many values fit all of them.
LADDERS = (("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(25, 3)"), ("FLOAT", "DOUBLE"), ("VARCHAR(8)", "STRING"))
SPEC = {
    "fields": [
        {"name": "k", "type": "INT"},
        {"name": "a", "type": "TINYINT"},
        {"name": "s", "type": "VARCHAR(8)"},
        {"name": "r", "type": {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]}},
    ],
    "primaryKeys": ["k"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
}

Writer = Callable[["SchemaHistory", list[dict[str, Any]]], None]


@dataclass
class SchemaHistory:
    """One table, its model and its source of chance.

    opened   a handle of another program, open all the time
    """

    table: lakeidx.Table
    opened: lakeidx.Table
    chance: random.Random
    columns: dict[str, str] = field(default_factory=lambda: {"k": "INT", "a": "TINYINT", "s": "VARCHAR(8)"})
    row_fields: dict[str, str] = field(default_factory=lambda: {"x": "INT"})
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    names: int = 0

    @classmethod
    def begin(cls, uri: str, seed: int) -> SchemaHistory:
        """A new table of SPEC."""
        return cls(lakeidx.Table.create(uri, SPEC), lakeidx.Table.open(uri), random.Random(seed))

    def new_name(self) -> str:
        """A name that no column has had, or one that a dropped column had."""
        self.names += 1
        return self.chance.choice([n for n in (f"c{self.names}", "a", "s") if n not in self.columns])

    def value(self, type_name: str) -> Any:
        """A value that is the same in every type of its ladder."""
        if self.chance.random() < 0.2:
            return None
        if type_name in LADDERS[2]:
            return self.chance.choice(["", "x", "é", "eight ch"])
        return float(self.chance.randrange(-8, 8)) / 4 if type_name in LADDERS[1] else self.chance.randrange(-100, 100)

    def batch(self) -> list[dict[str, Any]]:
        """Rows for the columns there are now, one per key."""
        keys = self.chance.sample(range(60), self.chance.randrange(1, 25))
        return [
            {
                "k": key,
                **{n: self.value(t) for n, t in self.columns.items() if n != "k"},
                "r": None if key % 5 == 0 else {n: self.value(t) for n, t in self.row_fields.items()},
            }
            for key in keys
        ]

    def upsert(self, write: Writer) -> None:
        """One batch, by one of the writers."""
        rows = self.batch()
        write(self, rows)
        self.rows.update({r["k"]: r for r in rows})

    def alter(self) -> None:
        """One to three changes of the schema at once."""
        for change in self.chance.sample([self._add, self._drop, self._rename, self._widen, self._row], 2):
            change()

    def _add(self) -> None:
        name, type_name = self.new_name(), self.chance.choice(self.chance.choice(LADDERS))
        self.table.alter(add={name: type_name}, move={name: self.chance.choice(["first", "after k"])})
        self.columns[name] = type_name
        for row in self.rows.values():
            row[name] = None

    def _drop(self) -> None:
        name = self._some()
        if name is not None and len(self.columns) > 2:
            self.table.alter(drop=[name])
            del self.columns[name]
            for row in self.rows.values():
                del row[name]

    def _rename(self) -> None:
        name = self._some()
        if name is None:
            return
        new = self.new_name()
        self.table.alter(rename={name: new})
        self.columns[new] = self.columns.pop(name)
        for row in self.rows.values():
            row[new] = row.pop(name)

    def _widen(self) -> None:
        name = self._some()
        wider = _wider(self.columns[name]) if name is not None else None
        if name is not None and wider is not None:
            self.table.alter(types={name: wider})
            self.columns[name] = wider

    def _row(self) -> None:
        """A change inside the ROW column."""
        if self.chance.random() < 0.5:
            name = f"f{len(self.row_fields)}_{self.names}"
            self.table.alter(add={f"r.{name}": "INT"})
            self.row_fields[name] = "INT"
            for row in self.rows.values():
                if row["r"] is not None:
                    row["r"][name] = None
        else:
            name = self.chance.choice(list(self.row_fields))
            wider = _wider(self.row_fields[name])
            if wider is not None:
                self.table.alter(types={f"r.{name}": wider})
                self.row_fields[name] = wider

    def _some(self) -> str | None:
        names = [n for n in self.columns if n != "k"]
        return self.chance.choice(names) if names else None

    def compact(self) -> None:
        """Rewrite every bucket with the newest schema."""
        run_compaction(self.table.metadata, LocalRunner(1), full=True)

    def check(self) -> None:
        """What scans, filters and lookups give is what the model holds."""
        found = self.table.scan().to_arrow()
        assert set(found.column_names) == {*self.columns, "r"}
        for name, type_name in self.columns.items():
            assert found.schema.field(name).type == to_arrow(parse_type(type_name))
        rows = {r["k"]: r for r in found.to_pylist()}
        assert len(rows) == found.num_rows, "a key came twice"
        assert rows == self.rows
        keys = list(range(60))
        answer = self.opened.lookup(pa.table({"k": keys}))
        assert [(f.name, f.type) for f in answer.schema][1:] == [(f.name, f.type) for f in found.schema]
        answers = zip(keys, answer.to_pylist(), strict=True)
        assert {k: row for k, row in answers if row.pop("_FOUND")} == self.rows
        self._check_filter(self.chance.choice(list(self.columns)))

    def _check_filter(self, name: str) -> None:
        value = self.value(self.columns[name])
        if value is None:
            where, kept = f"{name} IS NULL", [k for k, row in self.rows.items() if row[name] is None]
        else:
            sign, test = self.chance.choice([("=", operator.eq), ("<=", operator.le), (">", operator.gt)])
            where = f"{name} {sign} '{value}'"
            kept = [k for k, row in self.rows.items() if row[name] is not None and test(row[name], value)]
        found = self.opened.scan(where=where, columns=["k"]).to_arrow().column("k").to_pylist()
        assert sorted(found) == sorted(kept), where


def _wider(type_name: str) -> str | None:
    ladder = next(x for x in LADDERS if type_name in x)
    at = ladder.index(type_name)
    return ladder[at + 1] if at + 1 < len(ladder) else None


def write_by_lakeidx(history: SchemaHistory, rows: list[dict[str, Any]]) -> None:
    """Upsert rows as Arrow, columns in any order."""
    schema = history.table.schema
    names = list(rows[0])
    history.chance.shuffle(names)
    types = {n: to_arrow(schema.field(n).type) for n in names}
    history.table.upsert(pa.table({n: pa.array([r[n] for r in rows], types[n]) for n in names}))
