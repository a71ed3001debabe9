"""A data file whose VARIANT column is shredded ended in an error of Arrow about the number of fields."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import UnsupportedError
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.storage import LocalStore


def test_one_line_names_the_column_and_the_file(tmp_path: Path) -> None:
    schema = new_schema({"fields": [{"name": "v", "type": "VARIANT"}], "options": {"bucket": "-1"}})
    shredded = pa.StructArray.from_arrays(
        [pa.array([b"\x01"]), pa.array([None], pa.binary()), pa.array([7], pa.int64())],
        names=["metadata", "value", "typed_value"],
    )
    path = tmp_path / "data-0.parquet"
    pq.write_table(pa.table({"v": shredded}), path)
    with pytest.raises(UnsupportedError, match="column 'v': a shredded VARIANT") as caught:
        list(read_data_file(LocalStore(str(tmp_path)), str(path), None, schema, schema))
    assert caught.value.path == str(path)
