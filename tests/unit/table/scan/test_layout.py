"""Rows with kinds in every layout, packed row by row as Paimon's PackChangelogReader does."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.table.scan.layout import Layout
from lakeidx.table.system.names import split_system_name
from tests.unit.data.tables import table_schema

SCHEMA = table_schema({"k": "INT NOT NULL", "v": "STRING"}, keys=["k"], options={})


def packed_one_by_one(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """-U and a +U behind it become one row."""
    out, i = [], 0
    while i < len(rows):
        pair = rows[i]["_rowkind"] == "-U" and rows[i + 1 : i + 2] and rows[i + 1]["_rowkind"] == "+U"
        taken = rows[i : i + 2] if pair else rows[i : i + 1]
        out.append({"rowkind": taken[-1]["_rowkind"], **{n: [r[n] for r in taken] for n in ("k", "v")}})
        i += len(taken)
    return out


@pytest.mark.parametrize("seed", range(20))
def test_updates_are_packed_wherever_a_batch_ends(seed: int) -> None:
    r = random.Random(seed)
    rows: list[dict[str, Any]] = []
    while len(rows) < 40:
        kinds = r.choice((["+I"], ["-D"], ["-U", "+U"], ["-U", "+U"], ["-U"], ["+U"]))
        rows += [{"k": len(rows), "v": r.choice([None, "a", "b"]), "_rowkind": kind} for kind in kinds]
    table = pa.Table.from_pylist(rows, schema=Layout.KINDS.arrow_schema(SCHEMA, ["k", "v"]))
    cuts = sorted({0, table.num_rows, *r.sample(range(40), 12)})
    pieces = [table.slice(a, b - a) for a, b in pairwise(cuts)]
    found = [row for t in Layout.BINLOG.lay_out([pieces[0].slice(0, 0), *pieces]) for row in t.to_pylist()]
    assert found == packed_one_by_one(rows)
    audit = [row for t in Layout.AUDIT_LOG.lay_out(pieces) for row in t.to_pylist()]
    assert [list(row) for row in audit] == [["rowkind", "k", "v"]] * len(rows)
    assert [(row["rowkind"], row["k"], row["v"]) for row in audit] == [(x["_rowkind"], x["k"], x["v"]) for x in rows]


def test_columns_of_the_layouts() -> None:
    def columns(layout: Layout) -> list[str]:
        return [f"{f.name} {f.type}" for f in layout.arrow_schema(SCHEMA, ["k", "v"])]

    assert columns(Layout.PLAIN) == ["k int32", "v string"]
    assert columns(Layout.KINDS) == ["k int32", "v string", "_rowkind string"]
    assert columns(Layout.AUDIT_LOG) == ["rowkind string", "k int32", "v string"]
    assert columns(Layout.BINLOG) == ["rowkind string", "k list<element: int32>", "v list<element: string>"]


def test_a_column_that_is_named_like_the_kinds_is_refused() -> None:
    schema = table_schema({"k": "INT NOT NULL", "_rowkind": "STRING"}, keys=["k"], options={})
    with pytest.raises(InvalidInputError, match="'_rowkind'"):
        Layout.KINDS.arrow_schema(schema, ["k", "_rowkind"])
    assert Layout.AUDIT_LOG.arrow_schema(schema, ["_rowkind"]).names == ["rowkind", "_rowkind"]


def test_paths_of_system_tables() -> None:
    assert split_system_name("/lake/d.db/t") == ("/lake/d.db/t", None)
    assert split_system_name("/a$b/d.db/t") == ("/a$b/d.db/t", None)
    assert split_system_name("s3://lake/d.db/t$binlog/") == ("s3://lake/d.db/t", Layout.BINLOG)
    with pytest.raises(InvalidInputError, match="no system table 'plain'; there are snapshots, schemas"):
        split_system_name("/lake/d.db/t$plain")
