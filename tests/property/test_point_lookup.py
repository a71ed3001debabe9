"""Random histories of every merge engine: a point lookup, a scan and a dictionary say the same, with and without lookup files."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner
from tests.kit.share import WHOLE
from tests.kit.shared_table.machine import Machine
from tests.kit.shared_table.programs import Step
from tests.kit.table_history import ENGINES, Key, State


def asked(table_lookup: TableLookup, keys: list[Key]) -> State:
    """What a lookup gives, as the model has it; checks that answers stand in the order of the keys."""
    rows = pa.table({"p": pa.array([p for p, _ in keys], pa.int32()), "k": pa.array([k for _, k in keys], pa.int64())})
    answer = table_lookup.lookup(rows)
    out: State = {}
    assert len(answer.found) == answer.rows.num_rows == len(keys)
    for key, found, row in zip(keys, answer.found, answer.rows.to_pylist(), strict=True):
        if found:
            assert (row["p"], row["k"]) == key
            out[key] = (row["text"], row["n"], row["m"], row["s"])
        else:
            assert all(v is None for v in row.values())
    return out


def turn(rng: random.Random, number: int) -> list[Step]:
    """A batch, and what may follow it; handles that stay open scan and look up after each step."""
    steps = [Step("upsert", {"handle": None, "batch": f"b{number}", "content": rng.randrange(10**6)})]
    if rng.random() < 0.4:
        steps.append(Step("compact", {"handle": None, "full": rng.random() < 0.3}))
    if rng.random() < 0.3:
        steps.append(Step("expire", {"handle": None, "retain": rng.randint(1, 3)}))
    if number % 2:
        steps.append(Step("lookup_files", {"handle": None}))
    if rng.random() < 0.2:
        steps.append(Step("clean", {"handle": None}))
    return steps


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("store_type", "values"),
    [("sort", "value"), ("hash", "value"), ("sort", "position"), ("sort", "key"), ("hash", "key")],
)
def test_lookup_is_scan_is_model(tmp_path: Path, name: str, store_type: str, values: str) -> None:
    rng = random.Random(f"{name} {store_type} {values}")
    options = {"lookup.store.type": store_type, "lookup.store.values": values, "cache-page-size": "1 kb"}
    machine = Machine(tmp_path, replace(ENGINES[name], options={**ENGINES[name].options, **options}))
    keys = [(p, k) for p in range(4) for k in range(14)]
    for number in range(8 if WHOLE and values == "value" else 4):
        machine.run(turn(rng, number))
        visible, table = machine.model.newest.visible, machine.open()
        some = [rng.choice(keys) for _ in range(rng.randint(0, 30))]
        assert asked(TableLookup(table.metadata), some) == {k: visible[k] for k in some if k in visible}
        rng.shuffle(keys)
        assert asked(TableLookup(table.metadata, use_files=False), keys) == visible
    machine.run([Step("compact", {"handle": None, "full": True})])
    table, visible = machine.open(), machine.model.newest.visible
    run_lookup_store(table.metadata, LocalRunner(1))
    assert run_lookup_store(table.metadata, LocalRunner(1)).built == 0
    last = TableLookup(table.metadata)
    assert asked(last, keys) == visible
    if visible:
        assert (last.metrics.data_files == 0) == (values == "value")
        assert last.metrics.lookup_files > 0
