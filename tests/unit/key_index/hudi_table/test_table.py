"""Tagging against hand-made tables: files without filters, damaged ones, row groups, moved and repeated keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.codec.hudi.bloom import new_filter
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError
from lakeidx.format.hudi.footer import BLOOM_FILTER, FILTER_TYPE_CODE, MIN_RECORD_KEY
from lakeidx.key_index.hudi_table.table import HudiTagResult, find_record_keys
from lakeidx.key_index.options import IndexOptions
from lakeidx.storage import open_store
from tests.unit.key_index.hudi_tables import HandMadeTable

T1 = "20260101000000001"


@pytest.fixture
def table(tmp_path: Path) -> HandMadeTable:
    made = HandMadeTable(tmp_path / "t", layout=2)
    made.instant(T1)
    return made


def _tag(table: HandMadeTable, keys: list[str], options: dict[str, str] | None = None) -> HudiTagResult:
    store = open_store(table.path)
    return find_record_keys(store, table.path, pa.array(keys, pa.string()), options=IndexOptions(options or {}))


def _where(result: HudiTagResult) -> list[str | None]:
    return [result.files[f].file_id if f >= 0 else None for f in result.file.tolist()]


def test_file_without_filter_has_its_keys_read(table: HandMadeTable) -> None:
    table.file(T1, "a-0", ["k1", "k2"])
    table.file(T1, "b-0", ["k3", "k4"], footer={})
    result = _tag(table, ["k4", "k1", "zz"])
    assert _where(result) == ["b-0", "a-0", None]
    assert result.metrics.files_without_filter == 1
    # Reading keys is no filter's mistake.
    assert result.metrics.false_positives == 0


BAD = {
    "unknown type": {BLOOM_FILTER: b"AAAA", FILTER_TYPE_CODE: b"CUCKOO"},
    "not base64": {BLOOM_FILTER: b"****"},
    "no filter inside": {BLOOM_FILTER: b"AAAAAAAA"},
    "wrong type": {
        BLOOM_FILTER: new_filter("SIMPLE", num_entries=3, fpp=0.1, max_entries=0).to_base64().encode(),
        FILTER_TYPE_CODE: b"DYNAMIC_V0",
    },
}


@pytest.mark.parametrize("footer", BAD.values(), ids=BAD.keys())
def test_a_filter_that_cannot_be_read(table: HandMadeTable, footer: dict[bytes, bytes]) -> None:
    table.file(T1, "a-0", ["k1"])
    name = table.file(T1, "b-0", ["k3"], footer=footer)
    result = _tag(table, ["k3", "k1", "zz"])
    assert _where(result) == ["b-0", "a-0", None]
    assert result.metrics.bad_filters == 1
    with pytest.raises((CorruptFileError, UnsupportedError)) as caught:
        _tag(table, ["k3"], {"index.bad-filter": "fail"})
    assert str(caught.value.path).endswith(name)


def test_half_a_range_is_damage(table: HandMadeTable) -> None:
    table.file(T1, "a-0", ["k1"], footer={MIN_RECORD_KEY: b"k1"})
    with pytest.raises(CorruptFileError, match="one end"):
        _tag(table, ["k1"])


def test_a_base_file_that_is_not_parquet(table: HandMadeTable) -> None:
    name = table.file(T1, "a-0", ["k1"])
    (table.root / name).write_bytes(b"PAR1 and nothing more")
    with pytest.raises(CorruptFileError, match="Parquet"):
        _tag(table, ["k1"])


def test_row_groups_without_the_key_are_not_read(table: HandMadeTable) -> None:
    keys = [f"k{i:03d}" for i in range(100)]
    name = table.file(T1, "a-0", keys, row_group_size=10)
    assert pq.read_metadata(table.root / name).num_row_groups == 10
    result = _tag(table, ["k055", "k051", "k090"])
    assert result.row.tolist() == [55, 51, 90]
    assert (result.metrics.row_groups_read, result.metrics.row_groups) == (2, 10)
    assert result.metrics.rows_read == 20


def test_ranges_spare_the_filters(table: HandMadeTable) -> None:
    for i, name in enumerate("abc"):
        table.file(T1, f"{name}-0", [f"{i}{j}" for j in range(10)])
    result = _tag(table, ["05", "07"])
    assert _where(result) == ["a-0", "a-0"]
    assert (result.metrics.files, result.metrics.files_pruned, result.metrics.files_probed) == (3, 2, 1)
    every = _tag(table, ["05", "07"], {"hoodie.bloom.index.prune.by.ranges": "false"})
    assert (every.metrics.files_pruned, every.metrics.files_probed, every.metrics.pairs) == (0, 3, 6)


def test_a_key_in_two_partitions(table: HandMadeTable) -> None:
    table.file(T1, "a-0", ["k1", "k2"], partition="p=1")
    table.file(T1, "b-0", ["k1"], partition="p=2")
    result = _tag(table, ["k1", "k2"])
    assert _where(result) == ["a-0", "a-0"]
    assert result.repeated == 1


def test_a_table_without_meta_columns(tmp_path: Path) -> None:
    properties = {"hoodie.populate.meta.fields": "false", "hoodie.table.recordkey.fields": "id,v"}
    made = HandMadeTable(tmp_path / "t", layout=1, properties=properties)
    made.instant(T1)
    made.file(T1, "a-0", ["x", "y"], footer={})
    result = _tag(made, ["id:y,v:1", "id:y,v:2", "y"])
    assert _where(result) == ["a-0", None, None]
    assert result.row.tolist() == [1, -1, -1]


def test_an_overfull_filter_is_only_slower(table: HandMadeTable) -> None:
    keys = [f"k{i}" for i in range(500)]
    bloom = new_filter("SIMPLE", num_entries=5, fpp=0.01, max_entries=0)
    bloom.add(RowBytes.from_list([k.encode() for k in keys]))
    table.file(T1, "a-0", keys, footer={BLOOM_FILTER: bloom.to_base64().encode()})
    absent = [f"n{i}" for i in range(300)]
    result = _tag(table, keys + absent)
    assert result.found.tolist() == [True] * 500 + [False] * 300
    assert result.metrics.false_positives == 300
    assert bloom.fill == 1.0


def test_nothing_asked_and_nothing_there(table: HandMadeTable) -> None:
    assert _tag(table, ["k"]).found.tolist() == [False]
    table.file(T1, "a-0", ["k"])
    assert _tag(table, []).found.tolist() == []
    assert _tag(table, [""]).found.tolist() == [False]
    with pytest.raises(InvalidInputError):
        find_record_keys(open_store(table.path), table.path, pa.array(["a", None]))
