"""Every sort store file of the golden set: read in all ways, and written again to the same bytes."""

from __future__ import annotations

import json
import operator
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakeidx.codec.containers.compress import parse_codec
from lakeidx.codec.rows.compacted_row import encode_compacted_rows
from lakeidx.errors import UnsupportedError
from lakeidx.format.lookup.sst import describe_sst
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import LookupStoreOptions, StoreType
from lakeidx.types import parse_type
from tests.conftest import GOLDEN
from tests.unit.lookup.stores import ask, build, sst_entries

pytestmark = pytest.mark.golden
FOLDER = GOLDEN / "sst"
CASES = [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


def _order(case: dict[str, Any]) -> KeyOrder:
    if case["comparator"] == "unsigned-bytes":
        return KeyOrder.unsigned_bytes()
    assert case["comparator"] == "row-compacted"
    return KeyOrder.row_compacted([parse_type(t) for t in case["key_types"]])


def _entries(case: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    lines = (FOLDER / case["entries"]).read_text(encoding="utf-8").splitlines()
    return [(bytes.fromhex(key), bytes.fromhex(value)) for key, value, *_ in map(json.loads, lines)]


def _factory(case: dict[str, Any], cache: BlockCache | None = None) -> LookupStoreFactory:
    options = LookupStoreOptions(
        block_size=case["block_size"],
        compression=parse_codec(case["compression"]),
        zstd_level=case["zstd_level"],
        bloom_fpp=case["bloom_fpp"],
    )
    return LookupStoreFactory(StoreType.SORT, order=_order(case), options=options, cache=cache)


def test_there_are_cases() -> None:
    assert {case["compression"] for case in CASES} == {"none", "zstd", "lz4", "lzo"}


@pytest.mark.parametrize("cache_bytes", [1 << 20, 200, 0])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_lookup_of_java_has_the_same_answer(case: dict[str, Any], cache_bytes: int) -> None:
    cache = BlockCache(cache_bytes, working_bytes=cache_bytes)
    reader = _factory(case, cache).open_reader(FOLDER / case["file"])
    asked = [bytes.fromhex(key) for key, _ in case["lookups"]]
    expected = [None if value is None else bytes.fromhex(value) for _, value in case["lookups"]]
    assert ask(reader, asked) == expected
    entries = _entries(case)
    assert ask(reader, [key for key, _ in entries]) == [value for _, value in entries]
    assert len(entries) == case["records"]
    assert cache.used_bytes <= cache_bytes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_footer_is_decoded(case: dict[str, Any]) -> None:
    described = describe_sst(memoryview((FOLDER / case["file"]).read_bytes()))
    assert described["footer"] == case["footer"]
    assert described["entries"] == case["records"]
    assert described["size"] == case["size"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_same_entries_give_the_same_bytes(case: dict[str, Any], tmp_path: Path) -> None:
    if case["compression"] == "lzo":
        with pytest.raises(UnsupportedError, match="lzo blocks are read but not written"):
            _factory(case).create_writer(tmp_path / "ours.sst", expected_entries=1)
        return
    made_by = _factory(case)
    file = build(made_by, tmp_path / "ours.sst", _entries(case), expected=case["bloom_expected_entries"] or 0)
    ours, java = Path(file.path).read_bytes(), (FOLDER / case["file"]).read_bytes()
    assert file.entries == case["records"]
    if case["compression"] == "none":
        assert ours == java
    elif ours != java:
        # Compressors of other library versions may pack otherwise; then everything else must be the same.
        assert _bodies(ours) == _bodies(java)
    assert sst_entries(Path(file.path)) == _entries(case)


REMOTE = sorted((GOLDEN / "tables").glob("*/table/**/*.value.v1.lookup"))


@pytest.mark.parametrize("path", REMOTE, ids=lambda path: path.name)
def test_lookup_files_of_tables_hold_the_rows_of_their_data_files(path: Path, tmp_path: Path) -> None:
    # Beside the data file, as <data file>.<length>.<processor>.<version>.lookup: key -> row, sequence number, kind.
    data_file, length, *_ = path.name.removesuffix(".lookup").rsplit(".", 3)
    assert path.stat().st_size == int(length)
    case = json.loads((GOLDEN / "tables" / path.relative_to(GOLDEN / "tables").parts[0] / "case.json").read_bytes())
    types = {field["name"]: parse_type(field["type"]) for field in case["fields"]}
    key_names = [name for name in case["primary_keys"] if name not in case["partition_keys"]]
    rows = pq.ParquetFile(path.with_name(data_file)).read()
    keys = encode_compacted_rows([rows[f"_KEY_{name}"] for name in key_names], [types[name] for name in key_names])
    values = encode_compacted_rows([rows[name] for name in types], list(types.values())).to_list()
    ends = [
        struct.pack("<qB", s.as_py(), k.as_py())
        for s, k in zip(rows["_SEQUENCE_NUMBER"], rows["_VALUE_KIND"], strict=True)
    ]
    entries = list(zip(keys.to_list(), map(operator.add, values, ends), strict=True))

    order = KeyOrder.row_compacted([types[name] for name in key_names])
    made_by = LookupStoreFactory(StoreType.SORT, order=order)
    reader = made_by.open_reader(path)
    assert sst_entries(path) == entries
    assert ask(reader, keys.to_list()) == [value for _, value in entries]
    ours = build(made_by, tmp_path / "ours", entries, expected=len(entries))
    assert ours.size == int(length)
    assert Path(ours.path).read_bytes() == path.read_bytes()


def _bodies(data: bytes) -> list[Any]:
    """All of a file that does not depend on how well a block was packed."""
    described = describe_sst(memoryview(data))
    return [
        described["footer"]["bloom_size"],
        described["footer"]["bloom_entries"],
        [(block["last_key"], block["entries"], block["body_size"]) for block in described["blocks"]],
    ]
