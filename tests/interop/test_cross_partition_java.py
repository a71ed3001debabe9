"""Cross-partition tables, both directions: Java and lakeidx write one table in turn, and each key lives in one partition.

source of the expected rows: a dictionary per merge engine, by the rules of Paimon's three ExistingProcessors
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context, new_batch_id
from lakeidx.landing.read import LandingOptions
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon
from tests.kit.upserts import upsert_files

pytestmark = pytest.mark.interop

#: (group, number) -> (partition, a, b)
Key = tuple[str, int]
Value = tuple[str, str | None, int | None]
Model = dict[Key, Value]
TYPES = {"g": "STRING", "dt": "STRING", "k": "BIGINT", "a": "STRING", "b": "INT"}


def _deduplicate(model: Model, key: Key, row: Value) -> None:
    model[key] = row


def _partial_update(model: Model, key: Key, row: Value) -> None:
    dt, a, b = row
    old_dt, old_a, old_b = model.get(key, (dt, None, None))
    model[key] = (old_dt, old_a if a is None else a, old_b if b is None else b)


def _first_row(model: Model, key: Key, row: Value) -> None:
    model.setdefault(key, row)


@dataclass(frozen=True)
class Engine:
    """A merge engine, and its rule; deletes = the feed has some; hidden = readers see only what is compacted."""

    name: str
    apply: Callable[[Model, Key, Value], None]
    deletes: bool = False
    hidden: bool = False


ENGINES = [
    Engine("deduplicate", _deduplicate, deletes=True),
    Engine("partial-update", _partial_update),
    Engine("first-row", _first_row, hidden=True),
]


def _feed(r: random.Random, engine: Engine, groups: str, model: Model) -> list[dict[str, str | None]]:
    """Rows as text, and what they make of the model."""
    out: list[dict[str, str | None]] = []
    for _ in range(50):
        key, dt = (r.choice(groups), r.randrange(60)), f"2026-0{r.randrange(1, 5)}"
        a = None if r.random() < 0.3 else f"a{r.randrange(1000)}"
        b = None if r.random() < 0.3 else r.randrange(1000)
        kind = "-D" if engine.deletes and r.random() < 0.15 else r.choice(("+I", "+U"))
        if kind == "-D":
            model.pop(key, None)
        else:
            engine.apply(model, key, (dt, a, b))
        number = None if b is None else str(b)
        out.append({"g": key[0], "dt": dt, "k": str(key[1]), "a": a, "b": number, "_kind": kind})
    return out


def _model(rows: list[dict[str, Any]]) -> Model:
    out = {(r["g"], r["k"]): (r["dt"], r["a"], r["b"]) for r in rows}
    assert len(out) == len(rows), "a key lives in two partitions"
    return out


# Each call of Java costs seconds: who begins matters for nothing but the very first snapshot, which one engine shows.
@pytest.mark.parametrize(
    ("engine", "first", "keys"),
    [
        (ENGINES[0], "lakeidx", ["k"]),
        *((engine, "java", ["k"]) for engine in ENGINES),
        # Keys of one group live in one day at a time; equal numbers of two groups are two keys.
        (ENGINES[0], "lakeidx", ["g", "k"]),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, list) else getattr(v, "name", v),
)
def test_java_and_lakeidx_write_in_turn(tmp_path: Path, engine: Engine, first: str, keys: list[str]) -> None:
    spec = {
        "fields": [{"name": n, "type": t} for n, t in TYPES.items()],
        "primaryKeys": keys,
        "partitionKeys": [*keys[:-1], "dt"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "7", "merge-engine": engine.name},
    }
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    java = JavaPaimon(f"{tmp_path}/wh", "d.t")
    r = random.Random(engine.name + first)
    groups = "xy"[: len(keys)]
    asked = pa.table({"g": list(groups) * 60, "k": pa.array(np.repeat(range(60), len(groups)), pa.int64())})
    model: Model = {}
    moved = 0
    for step in range(4):
        rows = _feed(r, engine, groups, model)
        if (step % 2 == 0) == (first == "java"):
            java.write(rows, tmp_path / "rows.jsonl", compact=engine.hidden)
        else:
            (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            context = make_context(table.metadata, new_batch_id(), runner=LocalRunner(1))
            report = upsert_files(context, [f"{tmp_path}/rows.jsonl"], LandingOptions("jsonl"))
            moved += report.assign.moved
            assert report.assign.index_type == "state"
            if engine.hidden:
                run_compaction(table.metadata, LocalRunner(1), full=True)
        table = Table.open(table.uri)
        assert _model(table.scan().to_arrow().to_pylist()) == model, f"step {step}"
        assert _model(java.json("read")) == model, f"step {step}"
        answers = table.lookup(asked.select(keys)).to_pylist()
        assert _model([row for row in answers if row["_FOUND"]]) == model, f"step {step}"
        assert all(result.passed for result in verify(load_evidence(table.metadata)))
    assert not load_view(table.metadata, table.metadata.latest_snapshot()).index, "there is no hash index"
    assert (moved > 0) == (engine.name == "deduplicate")
