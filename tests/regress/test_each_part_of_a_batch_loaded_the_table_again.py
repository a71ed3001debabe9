"""Tasks that send keys to the data files that may have them loaded the table's view for each part; once in a task is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.batch.assignment import file_keys
from lakeidx.batch.index_types import TableIndex
from lakeidx.tasks.runner import LocalRunner
from tests.kit.index_history import GLOBAL_TYPES, IndexedTable
from tests.kit.small_tables import rows
from tests.unit.batch.assignment.test_in_tasks import put


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
