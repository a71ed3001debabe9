"""`record-level.expire-time` was checked at create and then ignored: compactions kept rows that Java drops."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.tasks.runner import LocalRunner

_NOW = time.time()
_OLD, _NEW = _NOW - 7200, _NOW + 7200


def _table(folder: Path, data_type: str, **options: str) -> lakeidx.Table:
    expire = {"record-level.expire-time": "1 h", "record-level.time-field": "t"}
    return lakeidx.Table.create(
        f"{folder}/d.db/t",
        {
            "fields": [{"name": "k", "type": "INT"}, {"name": "t", "type": data_type}, {"name": "v", "type": "STRING"}],
            "primaryKeys": ["k"],
            "options": {"bucket": "1", **expire, **options},
        },
    )


def _compact(table: lakeidx.Table, *, full: bool = True) -> CompactionReport:
    return run_compaction(table.metadata, LocalRunner(), full=full)


def _keys(table: lakeidx.Table) -> list[int]:
    return sorted(table.scan(columns=["k"]).to_arrow().column("k").to_pylist())


def _time_of(data_type: str, seconds: float) -> Any:
    if data_type == "INT":
        return int(seconds)
    if data_type == "BIGINT":
        return int(seconds * 1000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment if "LOCAL" in data_type else moment.replace(tzinfo=None)


@pytest.mark.parametrize(
    "data_type", ["INT", "BIGINT", "TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"]
)
def test_old_rows_are_read_until_a_compaction_drops_them(tmp_path: Path, data_type: str) -> None:
    """Old rows go, new ones and those without a time stay; readers see all before."""
    table = _table(tmp_path, data_type)
    times = pa.array([_time_of(data_type, _OLD), _time_of(data_type, _NEW), None])
    table.upsert(pa.table({"k": [1, 2, 3], "t": times, "v": ["a", "b", "c"]}))
    if data_type == "TIMESTAMP(9)":
        # Has no statistics: only a file that is rewritten anyway loses rows, in Java as well.
        table.upsert(pa.table({"k": [3], "v": ["c"]}), missing="null")
    assert _keys(table) == [1, 2, 3]
    _compact(table)
    assert _keys(table) == [2, 3]
    assert table.lookup(pa.table({"k": [1]})).column("_FOUND").to_pylist() == [False]


def test_seconds_in_a_bigint(tmp_path: Path) -> None:
    """Numbers below a million million are seconds."""
    table = _table(tmp_path, "BIGINT")
    table.upsert(pa.table({"k": [1, 2], "t": [int(_OLD), int(_NEW)]}), missing="null")
    _compact(table)
    assert _keys(table) == [2]


def test_a_file_all_in_the_top_level_is_rewritten_when_its_oldest_row_is_too_old(tmp_path: Path) -> None:
    """A second full compaction does nothing while no row is too old, and drops those that became so; also a file written
    before the column was widened.
    """
    table = _table(tmp_path, "INT")
    table.upsert(pa.table({"k": [1, 2], "t": [int(time.time()) - 2400, int(_NEW)]}), missing="null")
    _compact(table)
    assert _keys(table) == [1, 2]
    assert _compact(table).snapshot_ids == ()
    schema = json.loads((tmp_path / "d.db/t/schema/schema-0").read_text())
    schema["id"], schema["options"]["record-level.expire-time"] = 1, "30 min"
    schema["fields"][1]["type"] = "BIGINT"
    (tmp_path / "d.db/t/schema/schema-1").write_text(json.dumps(schema))
    table = lakeidx.Table.open(f"{tmp_path}/d.db/t")
    assert _compact(table).rows_out == 1
    assert _keys(table) == [2]


def test_the_column_must_be_a_time(tmp_path: Path) -> None:
    """Refused when the table is made."""
    with pytest.raises(InvalidInputError, match=r"record-level\.time-field.*'t' must be INT, BIGINT or TIMESTAMP"):
        _table(tmp_path, "STRING")
