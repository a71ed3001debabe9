"""Cross-partition tables, both directions: Java and lakeidx write one table in turn, and each key lives in one partition.

source of the expected rows: a dictionary per merge engine, by the rules of Paimon's three ExistingProcessors
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.api.table import Table
from lakeidx.batch.context import make_context, new_batch_id
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon, require_java_paimon
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.interop

#: (partition, a, b) of a key.
Value = tuple[str, str | None, int | None]
Model = dict[int, Value]
Row = tuple[str, int, str | None, int | None, str]

FIELDS = [
    {"name": "dt", "type": "STRING"},
    {"name": "k", "type": "BIGINT"},
    {"name": "a", "type": "STRING"},
    {"name": "b", "type": "INT"},
]


def _deduplicate(model: Model, row: Row) -> None:
    dt, k, a, b, kind = row
    if kind == "-D":
        model.pop(k, None)
    else:
        model[k] = (dt, a, b)


def _partial_update(model: Model, row: Row) -> None:
    dt, k, a, b, _ = row
    old_dt, old_a, old_b = model.get(k, (dt, None, None))
    model[k] = (old_dt, old_a if a is None else a, old_b if b is None else b)


def _first_row(model: Model, row: Row) -> None:
    dt, k, a, b, _ = row
    model.setdefault(k, (dt, a, b))


@dataclass(frozen=True)
class Engine:
    """A merge engine, and its rule; deletes = the feed has some; hidden = readers see only what is compacted."""

    name: str
    apply: Callable[[Model, Row], None]
    deletes: bool = False
    hidden: bool = False


ENGINES = [
    Engine("deduplicate", _deduplicate, deletes=True),
    Engine("partial-update", _partial_update),
    Engine("first-row", _first_row, hidden=True),
]


def _feed(r: random.Random, engine: Engine, rows: int) -> list[Row]:
    out = []
    for _ in range(rows):
        a = None if r.random() < 0.3 else f"a{r.randrange(1000)}"
        b = None if r.random() < 0.3 else r.randrange(1000)
        kind = "-D" if engine.deletes and r.random() < 0.15 else r.choice(("+I", "+U"))
        out.append((f"2026-0{r.randrange(1, 5)}", r.randrange(60), a, b, kind))
    return out


def _upsert(table: Table, rows: list[Row]) -> Any:
    columns = list(zip(*rows, strict=True))
    types = [pa.string(), pa.int64(), pa.string(), pa.int32(), pa.string()]
    names = ["dt", "k", "a", "b", "_kind"]
    batch = pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})
    return upsert_table(make_context(table.metadata, new_batch_id(), runner=LocalRunner(1)), batch)


def _as_json(rows: list[Row]) -> list[dict[str, str | None]]:
    return [
        {"dt": dt, "k": str(k), "a": a, "b": None if b is None else str(b), "_kind": kind} for dt, k, a, b, kind in rows
    ]


def _of_lakeidx(table: Table) -> Model:
    found = Table.open(table.uri).scan().to_arrow().to_pylist()
    out = {r["k"]: (r["dt"], r["a"], r["b"]) for r in found}
    assert len(out) == len(found), "a key lives in two partitions"
    return out


def _of_java(lines: list[Mapping[str, Any]]) -> Model:
    out = {r["k"]: (r["dt"], r["a"], r["b"]) for r in lines}
    assert len(out) == len(lines), "a key lives in two partitions"
    return out


# Each call of Java costs seconds: who begins matters for nothing but the very first snapshot, which one engine shows.
@pytest.mark.parametrize(
    ("engine", "first"),
    [(ENGINES[0], "lakeidx"), *((e, "java") for e in ENGINES)],
    ids=lambda v: v if isinstance(v, str) else v.name,
)
def test_java_and_lakeidx_write_in_turn(tmp_path: Path, engine: Engine, first: str) -> None:
    require_java_paimon()
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "7", "merge-engine": engine.name}
    spec = {"fields": FIELDS, "primaryKeys": ["k"], "partitionKeys": ["dt"], "options": options}
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    java = JavaPaimon(f"{tmp_path}/wh", "d.t")
    r = random.Random(engine.name + first)
    model: Model = {}
    moved = 0
    for step in range(4):
        rows = _feed(r, engine, 50)
        for row in rows:
            engine.apply(model, row)
        if (step % 2 == 0) == (first == "java"):
            java.write(_as_json(rows), tmp_path / "rows.jsonl", compact=engine.hidden)
        else:
            report = _upsert(table, rows)
            moved += report.assign.moved
            assert report.assign.index_type == "state"
            if engine.hidden:
                run_compaction(table.metadata, LocalRunner(1), full=True)
        assert _of_lakeidx(table) == model, f"step {step}"
    assert _of_java(java.json("read")) == model
    assert not load_view(table.metadata, table.metadata.latest_snapshot()).index, "there is no hash index"
    assert (moved > 0) == (engine.name == "deduplicate")


def test_a_key_that_holds_one_of_two_partition_columns(tmp_path: Path) -> None:
    """Keys of one group live in one day at a time; equal numbers of two groups are two keys."""
    require_java_paimon()
    spec = {
        "fields": [{"name": "g", "type": "STRING"}, *FIELDS],
        "primaryKeys": ["g", "k"],
        "partitionKeys": ["g", "dt"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "7"},
    }
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    java = JavaPaimon(f"{tmp_path}/wh", "d.t")
    r = random.Random(5)
    model: dict[tuple[str, int], Value] = {}
    moved = 0
    for step in range(4):
        rows = [(r.choice("xy"), row) for row in _feed(r, ENGINES[0], 60)]
        for g, (dt, k, a, b, kind) in rows:
            if kind == "-D":
                model.pop((g, k), None)
            else:
                model[(g, k)] = (dt, a, b)
        if step % 2:
            written = [{"g": g, **line} for (g, _), line in zip(rows, _as_json([row for _, row in rows]), strict=True)]
            java.write(written, tmp_path / "rows.jsonl")
        else:
            columns = list(zip(*[(g, *row) for g, row in rows], strict=True))
            types = [pa.string(), pa.string(), pa.int64(), pa.string(), pa.int32(), pa.string()]
            names = ["g", "dt", "k", "a", "b", "_kind"]
            batch = pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})
            context = make_context(table.metadata, f"b{step}", runner=LocalRunner(1))
            moved += upsert_table(context, batch).assign.moved
        table = Table.open(table.uri)
        found = table.scan().to_arrow().to_pylist()
        assert {(x["g"], x["k"]): (x["dt"], x["a"], x["b"]) for x in found} == model, f"step {step}"
        assert len(found) == len(model)
        theirs = java.json("read")
        assert {(x["g"], x["k"]): (x["dt"], x["a"], x["b"]) for x in theirs} == model, f"step {step}"
        assert len(theirs) == len(model)
        asked = pa.table({"g": ["x"] * 60 + ["y"] * 60, "k": pa.array([*range(60), *range(60)], pa.int64())})
        answers = lakeidx.Table.open(table.uri).lookup(asked).to_pylist()
        got = {(x["g"], x["k"]): (x["dt"], x["a"], x["b"]) for x in answers if x["_FOUND"]}
        assert got == model, f"step {step}"
        assert all(result.passed for result in verify(load_evidence(table.metadata)))
    assert moved > 0
