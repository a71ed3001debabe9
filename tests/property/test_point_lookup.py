"""Random histories of every merge engine: a point lookup, a scan and a dictionary say the same, with and without lookup files."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.tasks.runner import LocalRunner
from tests.kit.share import WHOLE
from tests.kit.table_history import ENGINES, History, Key, Record, State


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


def batch(rng: random.Random, history: History) -> list[Record]:
    records: list[Record] = []
    for _ in range(rng.randint(1, 25)):
        key = (rng.randint(0, 2), rng.randint(0, 20))
        kind = rng.choice(["+I", "+U", "-D"] if history.engine.deletes else ["+I"])
        text = rng.choice([None, "", "é" * rng.randint(1, 9)])
        values = (text, *(rng.choice([None, rng.randint(-9, 9)]) for _ in range(3)))
        records.append((*key, values, kind))  # type: ignore[arg-type]
    return records


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("store_type", "values"),
    [("sort", "value"), ("hash", "value"), ("sort", "position"), ("sort", "key"), ("hash", "key")],
)
def test_lookup_is_scan_is_model(tmp_path: Path, name: str, store_type: str, values: str) -> None:
    rng = random.Random(f"{name} {store_type} {values}")
    engine = ENGINES[name]
    engine = type(engine)(**{**vars(engine), "options": {**engine.options, "lookup.store.type": store_type,
                                                         "lookup.store.values": values,
                                                         "cache-page-size": "1 kb"}})  # fmt: skip
    history = History(tmp_path, engine)
    keys = [(p, k) for p in range(4) for k in range(24)]
    kept = TableLookup(history.table.metadata)
    runner = LocalRunner(1)
    built = 0
    for step in range(8 if WHOLE and values == "value" else 4):
        history.upsert(batch(rng, history))
        if rng.random() < 0.4:
            history.compact(full=rng.random() < 0.3)
        if rng.random() < 0.3:
            history.expire(rng.randint(1, 3))
        if step % 2:
            built += run_lookup_store(history.table.metadata, runner).built
        if rng.random() < 0.2:
            history.clean()
        rng.shuffle(keys)
        assert history.content() == history.visible
        assert asked(kept, keys) == history.visible, "the lookup that was open all the time"
        some = [rng.choice(keys) for _ in range(rng.randint(0, 30))]
        expected = {k: history.visible[k] for k in some if k in history.visible}
        assert asked(TableLookup(history.table.metadata), some) == expected
        assert asked(TableLookup(history.table.metadata, use_files=False), keys) == history.visible
    history.compact(full=True)
    built += run_lookup_store(history.table.metadata, runner).built
    again = run_lookup_store(history.table.metadata, runner)
    assert built > 0
    assert again.built == 0
    last = TableLookup(history.table.metadata)
    assert asked(last, keys) == history.visible
    if history.visible:
        assert (last.metrics.data_files == 0) == (values == "value")
        assert last.metrics.lookup_files > 0
