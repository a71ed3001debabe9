"""Five writers take turns on one table: lakeidx, Java Paimon 1.4.2 and 2.1, pypaimon, pypaimon-rust. After every turn each of them
reads what a plain dictionary says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from tests.kit.java_paimon import JavaPaimon
from tests.kit.java_tools import PAIMON_VERSIONS, use_paimon
from tests.kit.pypaimon_tools import PyPaimon
from tests.kit.share import WHOLE

pytestmark = [pytest.mark.interop, pytest.mark.one_witness]

FIELDS = [{"name": n, "type": t} for n, t in (("p", "INT"), ("k", "BIGINT"), ("v", "STRING"), ("n", "INT"))]
TURNS = 200 if WHOLE else 12
Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of table.

    options   of the table
    keys      its primary key
    writers   those that can write it; all can read it
    upserts   those of them that cannot delete from it
    """

    options: Mapping[str, str]
    keys: tuple[str, ...] = ("p", "k")
    writers: tuple[str, ...] = ("lakeidx", *PAIMON_VERSIONS, "python", "rust")
    upserts: tuple[str, ...] = ()


KINDS = {
    "fixed": Kind({"bucket": "2"}),
    "dynamic": Kind({"bucket": "-1", "dynamic-bucket.target-row-num": "8"}),
    "sequence": Kind({"bucket": "2", "sequence.field": "n"}),
    # pypaimon refuses to write such a table, pypaimon-rust refuses rows with kinds.
    "cross-partition": Kind(
        {"bucket": "-1", "dynamic-bucket.target-row-num": "8"}, ("k",), ("lakeidx", *PAIMON_VERSIONS, "rust"), ("rust",)
    ),
}


@dataclass
class Model:
    """The rows that the table must have, and the largest `n` that each key ever had."""

    kind: Kind
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    newest: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def write(self, row: Row) -> None:
        """Apply one row of kind +I or -D."""
        key = tuple(row[n] for n in self.kind.keys)
        if "sequence.field" in self.kind.options and row["n"] < self.newest.get(key, 0):
            return
        self.newest[key] = row["n"]
        if row["_kind"] == "-D":
            self.rows.pop(key, None)
        else:
            self.rows[key] = {n: row[n] for n in ("p", "k", "v", "n")}

    def draw(self, r: random.Random, mark: str, kind: str) -> list[Row]:
        """Rows of a batch, one a key; deletes are of keys that are there, and newer than what they delete."""
        keys = sorted(self.rows) if kind == "-D" else [(p, k) for p in (1, 2) for k in range(20)]
        out = []
        for key in r.sample(keys, min(len(keys), 3 if kind == "-D" else 9)):
            row: Row = (
                dict(self.rows[key]) if kind == "-D" else {"p": key[0], "k": key[1], "v": r.choice([mark, "", "ß"])}
            )
            known = tuple(row[n] for n in self.kind.keys)
            above = self.newest.get(known, 0) + 1
            # A row may come late where its key is there. That of a deleted key would depend on what was compacted.
            row["n"] = (
                r.randrange(1, above)
                if known in self.rows and kind == "+I" and above > 1 and r.random() < 0.3
                else above
            )
            out.append({**row, "_kind": kind})
        return list({tuple(row[n] for n in self.kind.keys): row for row in out}.values())


class Writers:
    """All five, on one table."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.file = folder / "rows.jsonl"
        spec = {"fields": FIELDS, "primaryKeys": list(kind.keys), "partitionKeys": ["p"], "options": dict(kind.options)}
        self.table = lakeidx.Table.create(str(folder / "wh" / "d.db" / "t"), spec)
        self.java = JavaPaimon(str(folder / "wh"), "d.t")
        self.python = PyPaimon(folder / "wh")

    def write(self, who: str, rows: list[Row]) -> None:
        """One batch by one writer; a delete by its own way."""
        if who == "lakeidx":
            if rows[0]["_kind"] == "-D":
                self.table.delete([{n: row[n] for n in self.table.schema.primary_keys} for row in rows])
            else:
                self.table.upsert([{n: v for n, v in row.items() if n != "_kind"} for row in rows])
        elif who in PAIMON_VERSIONS:
            with use_paimon(who):
                self.java.write([{n: str(v) for n, v in row.items()} for row in rows], self.file)
        else:
            self.python.write("d.t", rows, who)

    def compact(self, who: str) -> None:
        """Compact everything, where the writer can."""
        if who == "lakeidx":
            self.table.compact(full=True)
        else:
            with use_paimon(who):
                self.java.run("compact")

    def read(self) -> Iterator[tuple[str, list[Row]]]:
        """What each of them reads."""
        yield "lakeidx", self.table.scan().to_arrow().to_pylist()
        for version in PAIMON_VERSIONS:
            with use_paimon(version):
                yield version, [{n: row[n] for n in ("p", "k", "v", "n")} for row in self.java.json("read")]
        for engine in ("python", "rust"):
            yield engine, self.python.read("d.t", engine)


def _turn(writers: Writers, model: Model, r: random.Random, step: int) -> str:
    who = r.choice(model.kind.writers)
    what = r.choices(("+I", "-D", "compact"), (6, 2, 1))[0] if model.rows else "+I"
    if what == "compact":
        who = r.choice(("lakeidx", *PAIMON_VERSIONS))
        writers.compact(who)
    else:
        what = "+I" if who in model.kind.upserts else what
        rows = model.draw(r, f"{who} {step}", what)
        writers.write(who, rows)
        for row in rows:
            model.write(row)
    return f"turn {step}: {what} by {who}"


def _by_key(row: Row) -> tuple[int, int]:
    return row["p"], row["k"]


@pytest.mark.parametrize("name", KINDS)
def test_each_reader_sees_the_rows_of_all_writers(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    r, model, writers, told = random.Random(f"turns {name}"), Model(kind), Writers(tmp_path, kind), []
    try:
        for step in range(TURNS):
            told.append(_turn(writers, model, r, step))
            wanted = sorted(model.rows.values(), key=_by_key)
            for reader, rows in writers.read():
                assert sorted(rows, key=_by_key) == wanted, f"{reader} after {told[-6:]}"
        # pypaimon does not count its deletes, and a deleted key keeps its hash.
        assert {rule.name for rule in writers.table.verify().findings} <= {"deletes_counted", "stale_hashes"}
    finally:
        writers.python.close()
