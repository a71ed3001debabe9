"""Every page, the footer's statistics and the copies of the keys of a data file are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.errors import CorruptFileError
from lakeidx.format.file_names import NewFileNames
from lakeidx.quality.tasks.decode_files import verify_data_file
from lakeidx.table.view import load_view
from tests.kit.small_tables import make_table, upsert
from tests.unit.data.tables import STORE, kv_table, table_schema

WORDS = ["bb", "cc", "dd", "bb", "cc", "dd", "bb", "cc"]
#: How Parquet packs the places of WORDS in their dictionary: 2 bits each, one group of 8.
PLACES = bytes([2, 3, 0b00_10_01_00, 0b01_00_10_01])


def _file(folder: Path, values: Sequence[str | None], change: Callable[[pa.Table], pa.Table] = lambda t: t) -> Path:
    """Write a data file of a table with these values anew, as a writer without checksums of pages does."""
    table = make_table(folder, options={"dynamic-bucket.target-row-num": "5000"})
    upsert(table, [(1, k, v) for k, v in enumerate(values)])
    (path,) = (folder / "wh" / "d.db" / "t").rglob("data-*.parquet")
    pq.write_table(change(pq.read_table(path, partitioning=None)), path, compression="none", use_dictionary=["v"])
    return path


def _verify(path: Path) -> int:
    table = Table.open(str(next(p for p in path.parents if p.name == "t")))
    (entry,) = load_view(table.metadata, table.snapshot).entries
    file = replace(entry.file, file_size=path.stat().st_size)
    return verify_data_file(table.metadata.store, str(path), file, table.metadata.latest_schema())[0]


def _patch(path: Path, old: bytes, new: bytes, *, times: int) -> None:
    data = path.read_bytes()
    assert data.count(old) == times
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize("values", [WORDS, ["x", None, "y", None], [None, None], [str(n) for n in range(2000)]])
def test_rows_of_a_sound_file(tmp_path: Path, values: Sequence[str | None]) -> None:
    assert _verify(_file(tmp_path, values)) == len(values)


def test_a_value_of_a_dictionary_beyond_the_bounds_of_the_footer(tmp_path: Path) -> None:
    path = _file(tmp_path, WORDS)
    # In the dictionary's page; the statistics keep "dd" as the greatest.
    _patch(path, b"\x02\x00\x00\x00dd", b"\x02\x00\x00\x00ee", times=1)
    with pytest.raises(CorruptFileError, match="column v: values beyond the bounds in the footer"):
        _verify(path)


def test_a_value_that_no_row_has_may_stand_in_a_dictionary(tmp_path: Path) -> None:
    """A writer that fills its dictionary before it drops rows leaves such values."""
    path = _file(tmp_path, WORDS)
    _patch(path, PLACES, bytes([2, 3, 0b00_01_01_00, 0b01_00_01_01]), times=1)
    _patch(path, b"\x02\x00\x00\x00dd", b"\x02\x00\x00\x00ee", times=1)
    assert _verify(path) == len(WORDS)


def test_a_place_beyond_the_dictionary(tmp_path: Path) -> None:
    path = _file(tmp_path, WORDS)
    _patch(path, PLACES, bytes([2, 3, 0b11_10_01_00, 0b01_00_10_01]), times=1)
    with pytest.raises(CorruptFileError, match="column 'v', row group 0: its pages cannot be decoded"):
        _verify(path)


def test_a_copy_of_a_key_that_differs_from_the_key(tmp_path: Path) -> None:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.column_names.index("_KEY_k")
        return rows.set_column(at, rows.schema.field(at), pa.array([0, 1, 2, 3, 4, 5, 6, 9]))

    with pytest.raises(CorruptFileError, match="column _KEY_k differs from column k"):
        _verify(_file(tmp_path, WORDS, change))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="the file has no column 'v'"):
        _verify(_file(tmp_path, WORDS, lambda rows: rows.drop_columns(["v"])))


def test_rows_that_the_manifest_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="expected 8 rows, found 7"):
        _verify(_file(tmp_path, WORDS, lambda rows: rows.slice(1)))


@pytest.mark.parametrize(("time", "right"), [(0, True), (86_399_999, True), (86_400_000, False), (-1, False)])
def test_times_that_are_of_no_day_are_named_with_the_way_out(tmp_path: Path, time: int, right: bool) -> None:
    """Releases before took them from Arrow and Debezium."""
    schema = table_schema({"k": "INT NOT NULL", "t": "TIME(3)"})
    times = kv_table(schema, [(1, 5), (2, time)])
    (file,) = DataFileWriter(schema, store=STORE, bucket_dir=str(tmp_path), names=NewFileNames()).write_all([times])
    path = f"{tmp_path}/{file.file_name}"
    if right:
        assert verify_data_file(STORE, path, file, schema)[0] == 2
        return
    with pytest.raises(CorruptFileError, match=f"column t has a time of {time} ms.* upsert the rows again"):
        verify_data_file(STORE, path, file, schema)
