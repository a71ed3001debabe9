"""Work that took minutes, or was done for each part again."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakeidx
from lakeidx import Table
from lakeidx.batch.assignment import file_keys
from lakeidx.batch.index_types import TableIndex
from lakeidx.predicate import ColumnStats, In, bind, col, devolve, may_match_stats, or_
from lakeidx.predicate.parse import parse_where
from lakeidx.storage import LocalStore
from lakeidx.table import handle
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import Field, parse_type
from tests.kit.index_history import GLOBAL_TYPES, IndexedTable
from tests.kit.slow_store import SlowStore
from tests.kit.small_tables import rows, table_spec
from tests.unit.batch.assignment.test_in_tasks import put

# 800 equalities joined by OR took 28 seconds on a table of 400 files, 5,000 values of an IN 14 seconds on 1,200 files.
#
# Every value was compared with the statistics of every file, and the condition was translated anew for each file that was read.

FIELDS = [Field(0, "id", parse_type("BIGINT")), Field(1, "name", parse_type("STRING"))]


@pytest.mark.parametrize(
    "where",
    [
        "id = 3 OR id = 1 OR name = 'x' OR id = 2", "id IN (3, 2) OR (name = 'x' OR id = 1) OR id = 3",
        "NOT (id <> 1 AND id NOT IN (2, 3) AND name <> 'x')", "id = 2.5 OR id IN (1, 2, 3, 9e30) OR name = 'x'",
    ],
)  # fmt: skip
def test_equalities_of_a_column_are_one_sorted_list(where: str) -> None:
    pred = parse_where(where, FIELDS)
    assert {repr(c) for c in pred.children} == {  # type: ignore[attr-defined]
        "In(column='id', values=(1, 2, 3), negated=False, map_key=None)", repr(col("name") == "x")
    }  # fmt: skip
    assert pickle.loads(pickle.dumps(pred)) == pred


def test_null_among_the_values_keeps_its_meaning() -> None:
    rows = pa.table({"id": [1, 2, None], "name": ["a"] * 3})
    for where, ids in (("id = 1 OR id = NULL", [1]), ("id <> 1 AND id <> NULL", []), ("NOT (id = 1 OR id = NULL)", []),
                       ("id <> 1 AND id <> 3", [2])):  # fmt: skip
        assert lakeidx.predicate.filter_table(parse_where(where, FIELDS), rows).column("id").to_pylist() == ids, where


def test_statistics_are_compared_with_a_few_values() -> None:
    """1,200 files: a second and more, when each of 5,000 values is compared."""
    compared = []

    class Counted(int):
        def __gt__(self, other: int) -> bool:
            compared.append(other)
            return int(self) > int(other)

    pred = bind(or_([col("id") == n for n in range(0, 50_000, 10)]), FIELDS)
    assert isinstance(pred, In)
    ends = [(Counted(n * 45 + 1), Counted(n * 45 + 8)) for n in range(1200)]
    kept = [n for n, (low, high) in enumerate(ends) if may_match_stats(pred, {"id": ColumnStats(low, high, 0, 100)})]
    assert 1200 < len(compared) < 1200 * 20
    expected = [n for n in range(1200) if any(v % 10 == 0 and v < 50_000 for v in range(n * 45 + 1, n * 45 + 9))]
    assert kept == expected


def test_a_condition_is_translated_once_for_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [{"name": "id", "type": "INT"}, {"name": "g", "type": "INT"}]
    table = lakeidx.Table.create(
        f"{tmp_path}/d.db/t", {"fields": fields, "options": {"bucket": "-1", "write-only": "true"}}
    )
    for n in range(4):
        if n == 2:
            table.alter(types={"id": "BIGINT"})
        t = pa.int32() if n < 2 else pa.int64()
        table.upsert(pa.table({"id": pa.array(np.arange(n * 10, n * 10 + 10), t), "g": pa.array([n] * 10, pa.int32())}))
    asked: list[Any] = []
    module = __import__("sys").modules["lakeidx.predicate.devolve"]

    def spy(*given: Any) -> Any:
        asked.append(given)
        return devolve(*given)

    monkeypatch.setattr(module, "devolve", spy)
    scan = table.scan(where=" OR ".join(f"id = {n}" for n in range(9, 1000, 10)))
    assert len(asked) == 1
    assert sorted(scan.to_arrow().column("id").to_pylist()) == [9, 19, 29, 39]
    assert len(asked) == 2
    said = scan.explain()
    assert said.predicate.startswith("id IN (9, 19, 29")
    assert said.predicate.endswith("… 80 more)")
    assert {r["layer"]: r["kept"] for r in said.rows_as_dicts()}["value statistics"] == 4


# Tasks that send keys to the data files that may have them loaded the table's view for each part; once in a task is enough.


@pytest.mark.slow
def test_a_task_with_several_parts_loads_the_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IndexedTable.make(tmp_path, "global-bloom", GLOBAL_TYPES["global-bloom"]).table
    put(table, "a", rows([(1, k, "a") for k in range(10)]), LocalRunner(1))
    monkeypatch.setattr("lakeidx.batch.parts.PART_ROWS", 4)
    loads: list[int] = []
    split, made = file_keys._Checks.split, TableIndex.context

    def counted(*arguments: Any) -> Any:
        loads[-1] += 1
        return made(*arguments)

    def splits(self: Any, item: Any) -> Any:
        loads.append(0)
        yield from split(self, item)

    monkeypatch.setattr(TableIndex, "context", counted)
    monkeypatch.setattr(file_keys._Checks, "split", splits)
    loads.append(0)
    put(table, "b", rows([(1, k, "b") for k in range(10)]), LocalRunner(1))
    # The driver's own, then parts that this runner gives to one task; behind the last one files are checked.
    assert loads[1:3] == [1, 0]


# What reads many small files of a store that waits asks for them side by side, and for each no oftener than it says.

PARTITIONS, KEYS, BATCHES = 20, 10, 4
FILES = PARTITIONS * BATCHES


def rows_requests(value: str) -> pa.Table:
    numbers = range(PARTITIONS * KEYS)
    partitions = pa.array([n % PARTITIONS for n in numbers], pa.int32())
    return pa.table({"p": partitions, "k": [n // PARTITIONS for n in numbers], "v": [value] * len(numbers)})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    spec = table_spec("p INT, k BIGINT, v STRING", ["p", "k"], partitions=["p"], options={"bucket": "-1"})
    table = Table.create(str(tmp_path / "t"), spec)
    for number in range(BATCHES):
        table.upsert(rows_requests(f"v{number}"))
    return table.uri


#: The call, the most requests it may cost, and how many of them are under way at once at least.
CALLS: dict[str, tuple[Callable[[Table], Any], int, int]] = {
    # Each data file for its pages and for its keys, its bucket's folder, its hash index.
    "verify": (Table.verify, 2 * FILES + 2 * PARTITIONS + 40, 10),
    "orphans": (Table.orphans, PARTITIONS + 40, 10),
    "advise": (Table.advise, 2 * FILES + 20, 10),
    "scan": (lambda table: table.scan().to_arrow(), FILES + 15, 10),
    "lookup": (lambda table: table.lookup(rows_requests("").select(["p", "k"])), 2 * FILES + PARTITIONS + 15, 10),
    "compact": (lambda table: table.compact(full=True), 2 * FILES + PARTITIONS + 30, 10),
    # Snapshots go one after the other, the oldest first, so that no death leaves a gap.
    "expire": (lambda table: table.expire(retain_min=1, retain_max=1), 60, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_requests_are_few_and_side_by_side(uri: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    call, most, at_once = CALLS[name]
    store = SlowStore(LocalStore(uri))
    monkeypatch.setattr(handle, "open_store", lambda *_: store)
    table = Table.open(uri)
    store.reset()
    call(table)
    assert store.total.requests <= most, store.counts
    assert store.at_once >= at_once, store.counts
