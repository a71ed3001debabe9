"""ORC data files of other writers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from lakeidx.data.positions import ReadCounters
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CorruptFileError, NotFoundError
from tests.unit.data.tables import STORE, kv_rows_of, kv_table, table_schema

SCHEMA = table_schema(
    {
        "k": "INT NOT NULL",
        "v": "STRING",
        "d": "DECIMAL(20, 2)",
        "t": "TIMESTAMP(3)",
        "a": {"type": "ARRAY", "element": "INT"},
    }
)
TABLE = kv_table(SCHEMA, [(i, f"v{i}", None, (i, 0), [i, None]) for i in range(50)])


@pytest.fixture
def path(tmp_path: Path) -> str:
    orc.write_table(TABLE, tmp_path / "data-1.orc")
    return str(tmp_path / "data-1.orc")


def test_rows_types_and_positions(path: str) -> None:
    counters = ReadCounters()
    tables = list(
        read_data_file(
            STORE, path, None, SCHEMA, SCHEMA, batch_rows=7, deletion_vector=np.array([0, 49]), counters=counters
        )
    )
    assert max(t.num_rows for t in tables) <= 7
    assert kv_rows_of(pa.concat_tables(tables), SCHEMA) == kv_rows_of(TABLE, SCHEMA)[1:-1]
    assert (counters.rows_read, counters.rows_given) == (50, 48)
    (projected, *_) = read_data_file(STORE, path, None, SCHEMA, SCHEMA, ["d"])
    assert projected.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "d"]


def test_damage_and_absence_are_named(path: str, tmp_path: Path) -> None:
    raw = Path(path).read_bytes()
    for length in (0, 10, len(raw) // 2, len(raw) - 1):
        Path(path).write_bytes(raw[:length])
        with pytest.raises(CorruptFileError, match=r"data-1\.orc"):
            list(read_data_file(STORE, path, None, SCHEMA, SCHEMA))
    with pytest.raises(NotFoundError):
        list(read_data_file(STORE, f"{tmp_path}/gone.orc", None, SCHEMA, SCHEMA))
