"""Random INSERT, UPDATE, DELETE and MERGE statements give what DuckDB gives for its own table of the same rows."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

import lakeidx
from lakeidx.api.sql.verbs import VerbResult

TABLES = {
    "dynamic": "TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '5')",
    "partitioned": "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '-1')",
    "vectors": "TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2', 'deletion-vectors.enabled' = 'true', 'lookup-wait' = 'true')",
}
CONDITIONS = (
    "{q}v > {n}", "{q}v + {q}k > {n}", "{q}s = 'b'", "{q}s IS NULL", "{q}p = 1 AND {q}v <= {n}", "{q}k IN (1, {n}, 5)",
    "NOT ({q}v = {n})", "{q}s LIKE 'a%' OR {q}p = 0", "coalesce({q}v, 0) BETWEEN 2 AND {n}",
)  # fmt: skip
SUBQUERIES = (*CONDITIONS, "k IN (SELECT k FROM {x} WHERE v > {n})", "v > (SELECT avg(v) FROM {t})",
              "EXISTS (SELECT 1 FROM {x} y WHERE y.k = {t}.k)")  # fmt: skip
VALUES = ("v + 1", "v * 2 - k", "NULL", "{n}", "CASE WHEN v > {n} THEN 0 ELSE v END", "length(s)")


class Statements:
    """Draws statements with names that differ between the two engines in braces."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    def filled(self, text: str, q: str = "") -> str:
        return text.replace("{n}", str(self.draw.randrange(12))).replace("{q}", q)

    def where(self) -> str:
        return f" WHERE {self.filled(self.draw.choice(SUBQUERIES))}" if self.draw.random() < 0.9 else ""

    def update(self) -> str:
        sets = [f"v = {self.filled(self.draw.choice(VALUES))}"]
        sets += ["s = s || 'x'"] if self.draw.random() < 0.4 else []
        return f"UPDATE {{t}} SET {', '.join(sets)}{self.where()}"

    def delete(self) -> str:
        return f"DELETE FROM {{t}}{self.where()}"

    def merge(self) -> str:
        clauses = []
        for name, q, actions in (
            ("MATCHED", self.draw.choice(["t.", "x."]), ["DELETE", "UPDATE SET v = x.v + t.v", "UPDATE SET v = x.v, s = x.s"]),
            ("NOT MATCHED", "x.",
             ["INSERT (p, k, v) VALUES (x.p, x.k, x.v)", "INSERT (p, k, v, s) VALUES (x.p, x.k, x.v + 1, 'n')"]),
            ("NOT MATCHED BY SOURCE", "t.", ["DELETE", "UPDATE SET v = t.v - 1"]),
        ):  # fmt: skip
            for left in reversed(range(self.draw.choice([0, 1, 1, 2]))):
                # A clause without a condition is the last.
                also = (
                    f" AND {self.filled(self.draw.choice(CONDITIONS), q)}" if left or self.draw.random() < 0.6 else ""
                )
                clauses.append(f"WHEN {name}{also} THEN {self.draw.choice(actions)}")
        clauses = clauses or ["WHEN MATCHED THEN DELETE"]
        on = self.draw.choice(["t.p = x.p AND t.k = x.k", "t.k = x.k AND x.p = t.p AND t.v IS NOT NULL"])
        source = self.draw.choice(["{x} AS x", "(SELECT p, k, v, s FROM {x} WHERE v <> 3) AS x"])
        return f"MERGE INTO {{t}} AS t USING {source} ON {on} {' '.join(clauses)}"


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("seed", range(2))
def test_verbs_change_rows_as_duckdb_does(tmp_path: Path, kind: str, seed: int) -> None:
    draw = random.Random(f"{kind} {seed}")
    warehouse, model = lakeidx.Warehouse(tmp_path), duckdb.connect()
    columns = "p INT, k INT, v INT, s {text}"
    for name in ("t", "x"):
        warehouse.sql(f"CREATE TABLE d.{name} ({columns.format(text='STRING')}) {TABLES[kind]}")
        model.execute(f"CREATE TABLE {name} ({columns.format(text='VARCHAR')})")
    made = Statements(draw)
    for turn in range(14):
        texts = [draw.choice([made.update, made.delete, made.merge])()]
        if turn % 4 == 0:
            # Keys that are new: an INSERT of known ones replaces their rows here, and none there.
            texts = [f"DELETE FROM {{{n}}} WHERE k >= 0" for n in ("t", "x")]
            for name, least, most in (("t", 0, 9), ("x", 4, 13)):
                keys = [(p, k) for k in range(least, most) for p in range(3) if draw.random() < 0.7]
                rows = [
                    f"({p}, {k}, {draw.randrange(12)}, {draw.choice(['NULL', repr('a'), repr('b')])})" for p, k in keys
                ]
                texts.append(f"INSERT INTO {{{name}}} VALUES {', '.join(rows)}")
        for text in texts:
            done = warehouse.sql(text.replace("{t}.", "t.").replace("{t}", "d.t").replace("{x}", "d.x"))
            count = model.execute(text.replace("{t}", "t").replace("{x}", "x")).fetchall()[0][0]
            assert isinstance(done, VerbResult)
            assert done.inserted + done.updated + done.deleted + done.upserted == count, text
        for name in ("t", "x"):
            found = warehouse.table(f"d.{name}").scan().to_arrow().sort_by([("p", "ascending"), ("k", "ascending")])
            wanted = model.execute(f"SELECT * FROM {name} ORDER BY p, k").fetchall()
            assert [tuple(r.values()) for r in found.to_pylist()] == wanted, texts
