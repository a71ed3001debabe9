"""pypaimon 2.1 and lakeidx read and write one table in turn; a plain dictionary says what both must see."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.tasks.runner import LocalRunner
from tests.kit.pypaimon_tools import PyPaimon
from tests.kit.upserts import upsert_table

pytestmark = [pytest.mark.interop, pytest.mark.one_witness]

FIELDS = [{"name": n, "type": t} for n, t in (("p", "INT"), ("k", "BIGINT"), ("v", "STRING"), ("n", "INT"))]
TABLES: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "8"},
    "aggregation": {"bucket": "2", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "partial-update": {"bucket": "1", "merge-engine": "partial-update"},
    "first-row": {"bucket": "2", "merge-engine": "first-row"},
}
State = dict[tuple[int, int], tuple[str | None, int | None]]


@pytest.fixture
def python(tmp_path: Path) -> Iterator[PyPaimon]:
    witness = PyPaimon(tmp_path / "wh")
    yield witness
    witness.close()


def _rows(r: random.Random, mark: str) -> list[dict[str, Any]]:
    keys = r.sample([(p, k) for p in (1, 2) for k in range(20)], 9)
    return [{"p": p, "k": k, "v": r.choice([mark, None]), "n": r.choice([None, 1, 5])} for p, k in keys]


def _merge(state: State, rows: list[dict[str, Any]], kind: str) -> None:
    for row in rows:
        key, new = (row["p"], row["k"]), (row["v"], row["n"])
        old = state.get(key)
        if old is None or kind in ("fixed", "dynamic"):
            state[key] = new
        elif kind == "partial-update":
            state[key] = (old[0] if new[0] is None else new[0], old[1] if new[1] is None else new[1])
        elif kind == "aggregation":
            total = new[1] if old[1] is None else old[1] if new[1] is None else old[1] + new[1]
            state[key] = (old[0] if new[0] is None else new[0], total)


def _state(rows: list[dict[str, Any]]) -> State:
    out = {(row["p"], row["k"]): (row["v"], row["n"]) for row in rows}
    assert len(out) == len(rows), "a key came twice"
    return out


def _upsert(table: Table, rows: list[dict[str, Any]], batch: str) -> None:
    types = {"p": pa.int32(), "k": pa.int64(), "v": pa.string(), "n": pa.int32()}
    arrow = pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))
    upsert_table(make_context(table.metadata, batch, runner=LocalRunner(1)), arrow)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("begins", ["lakeidx", "pypaimon"])
def test_both_continue_in_turn(kind: str, begins: str, python: PyPaimon, tmp_path: Path) -> None:
    spec = {"fields": FIELDS, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": TABLES[kind]}
    place = str(tmp_path / "wh" / "d.db" / "t")
    if begins == "lakeidx":
        Table.create(place, spec)
    else:
        python.create("d.t", spec)
    r, state = random.Random(f"{kind} {begins}"), State()
    for step in range(6):
        rows = _rows(r, f"{step}")
        if (step % 2 == 0) == (begins == "lakeidx"):
            _upsert(Table.open(place), rows, f"b{step}")
        else:
            python.write("d.t", rows)
        _merge(state, rows, kind)
        if kind == "first-row" or step == 3:
            run_compaction(Table.open(place).metadata, LocalRunner(1), full=True)
        assert _state(Table.open(place).scan().to_arrow().to_pylist()) == state, f"lakeidx, step {step}"
        assert _state(python.read("d.t")) == state, f"pypaimon, step {step}"
