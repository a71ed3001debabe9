"""`partition.default-name` and `partition.legacy-name` name directories: after a change the files in them were not found."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx import InvalidInputError, Table

CASES = [
    ("STRING NOT NULL", "", {"partition.default-name": "none"}, {"partition.default-name": "__DEFAULT_PARTITION__"}),
    ("DATE NOT NULL", date(2020, 1, 1), {"partition.legacy-name": "false"}, {"partition.legacy-name": "true"}),
]


def _table(folder: Path, column: str, options: dict[str, str] | None = None, *, partitioned: bool = True) -> Table:
    spec: dict[str, Any] = {
        "fields": [{"name": "p", "type": column}, {"name": "k", "type": "INT NOT NULL"}],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"] if partitioned else [],
        "options": {"bucket": "1", **(options or {})},
    }
    return Table.create(folder / "t", spec)


@pytest.mark.parametrize(("column", "value", "change", "default"), CASES)
def test_they_cannot_change_once_there_are_files(
    tmp_path: Path, column: str, value: Any, change: dict[str, str], default: dict[str, str]
) -> None:
    table = _table(tmp_path, column)
    rows = pa.table({"p": [value], "k": pa.array([1], pa.int32())})
    table.upsert(rows)
    with pytest.raises(InvalidInputError, match="the directories of its partitions are named by it"):
        table.alter(set=change)
    # What says the same, and what had been set already, is no change.
    table.alter(set=default)
    table.alter(reset=list(default))
    assert Table.open(table.uri).scan().to_arrow() == rows.cast(table.scan().to_arrow().schema)


@pytest.mark.parametrize(("column", "value", "change", "default"), CASES)
def test_they_can_where_nothing_is_named_by_them(
    tmp_path: Path, column: str, value: Any, change: dict[str, str], default: dict[str, str]
) -> None:
    empty = _table(tmp_path / "empty", column, default)
    empty.alter(set=change)
    plain = _table(tmp_path / "plain", column, partitioned=False)
    plain.upsert(pa.table({"p": [value], "k": pa.array([1], pa.int32())}))
    plain.alter(set=change)
    assert plain.scan().to_arrow().num_rows == 1


def test_a_reset_is_a_change(tmp_path: Path) -> None:
    table = _table(tmp_path, "STRING NOT NULL", {"partition.default-name": "none"})
    table.upsert(pa.table({"p": [""], "k": pa.array([1], pa.int32())}))
    with pytest.raises(InvalidInputError, match=r"'partition\.default-name' cannot change"):
        table.alter(reset=["partition.default-name"])
