"""Overwrites of the partitions a condition holds for: replaced, emptied, left alone; rows outside of them are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx


def make(folder: Path, *, keyed: bool = True) -> lakeidx.Table:
    fields = [{"name": "day", "type": "DATE"}, {"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    spec: dict[str, Any] = {"fields": fields, "partitionKeys": ["day"], "options": {"bucket": "-1"}}
    if keyed:
        spec["primaryKeys"] = ["day", "id"]
    table = lakeidx.Warehouse(f"{folder}/wh").create("d.t", spec)
    table.upsert(rows(("2026-01-30", 1), ("2026-01-31", 2), ("2026-02-01", 3)))
    return table


def rows(*pairs: tuple[str, int], v: str = "old") -> pa.Table:
    return pa.table(
        {
            "day": pa.array([d for d, _ in pairs], pa.string()),
            "id": pa.array([i for _, i in pairs], pa.int64()),
            "v": pa.array([v] * len(pairs), pa.string()),
        }
    )


def content(table: lakeidx.Table) -> list[tuple[str, int, str]]:
    return sorted((str(r["day"]), r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("keyed", [True, False])
def test_partitions_of_the_condition_are_replaced_and_emptied_in_one_snapshot(tmp_path: Path, keyed: bool) -> None:
    table = make(tmp_path, keyed=keyed)
    result = table.overwrite(rows(("2026-01-31", 9), v="new"), where="day >= '2026-01-01' AND day < '2026-02-01'")
    assert result.snapshots == (2,)
    assert content(table) == [("2026-01-31", 9, "new"), ("2026-02-01", 3, "old")]


@pytest.mark.parametrize("keyed", [True, False])
def test_no_rows_empty_the_partitions(tmp_path: Path, keyed: bool) -> None:
    table = make(tmp_path, keyed=keyed)
    table.overwrite(rows(), where="day = '2026-01-31'")
    assert content(table) == [("2026-01-30", 1, "old"), ("2026-02-01", 3, "old")]


def test_a_row_outside_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = content(table)
    with pytest.raises(
        lakeidx.InvalidInputError, match="where day = DATE '2026-01-31', and has rows for day = DATE '2026-02-01'"
    ):
        table.overwrite(rows(("2026-01-31", 1), ("2026-02-01", 2), v="new"), where="day = '2026-01-31'")
    assert content(table) == before
    assert table.snapshot is not None
    assert table.snapshot.id == 1


def test_conditions_are_over_partition_columns_and_exclude_the_whole_table(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(lakeidx.InvalidInputError, match="id is not a partition column; the table has day"):
        table.overwrite(rows(), where="id = 1")
    with pytest.raises(lakeidx.InvalidInputError, match="not both"):
        table.overwrite(rows(), where="day = '2026-01-31'", whole_table=True)
