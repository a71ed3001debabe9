"""Tables that Hudi 1.0.2 itself wrote: every key's file comes out exactly, absent keys nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.codec.hudi.bloom import decode_filter_base64
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.hudi.footer import parse_footer
from lakeidx.key_index.hudi_table.table import HudiTagResult, find_record_keys
from lakeidx.key_index.options import IndexOptions
from lakeidx.storage import open_store
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden
TABLES = Path(GOLDEN) / "hudi-tables"
CASES = sorted(p.name.removesuffix(".case.json") for p in TABLES.glob("*.case.json"))
OPTIONS = {
    "defaults": {},
    "no ranges": {"hoodie.bloom.index.prune.by.ranges": "false"},
    "many tasks": {"hoodie.bloom.index.keys.per.bucket": "7", "hoodie.bloom.index.parallelism": "5"},
}


def _case(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    case = json.loads((TABLES / f"{name}.case.json").read_text(encoding="utf-8"))
    lines = (TABLES / f"{name}.expect.jsonl").read_text(encoding="utf-8").splitlines()
    return case, [json.loads(line) for line in lines]


def _tag(name: str, keys: list[str], options: dict[str, str], partitions: list[str] | None = None) -> HudiTagResult:
    path = str(TABLES / name)
    return find_record_keys(
        open_store(path), path, pa.array(keys), partitions=partitions, options=IndexOptions(options)
    )


def test_there_are_tables() -> None:
    assert CASES


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("name", CASES)
def test_every_key_has_its_file_and_absent_keys_have_none(name: str, options: dict[str, str]) -> None:
    case, expected = _case(name)
    keys = [line["key"] for line in expected] + case["absent"]
    result = _tag(name, keys, options)
    rows = result.to_table().to_pylist()
    for row, line in zip(rows, expected, strict=False):
        assert row["found"], line
        assert (row["partition"], row["file_name"]) == (line["partition"], line["file"]), line
        assert line["file"].startswith(row["file_id"] + "_")
        assert line["file"].endswith(f"_{row['instant']}.parquet")
    assert [r["key"] for r in rows[len(expected) :] if r["found"]] == []
    assert result.repeated == 0
    metrics = result.metrics
    assert (metrics.keys, metrics.found) == (len(keys), len(expected))
    assert metrics.filter_hits == len(expected) + metrics.false_positives
    assert metrics.bad_filters == metrics.files_without_filter == 0


@pytest.mark.parametrize("name", CASES)
def test_the_row_is_the_one_that_holds_the_key(name: str) -> None:
    _, expected = _case(name)
    keys = [line["key"] for line in expected]
    result = _tag(name, keys, {})
    columns: dict[str, Any] = {}
    for i, line in enumerate(expected):
        file = result.files[result.file[i]]
        held = columns.setdefault(file.path, pq.read_table(file.path, columns=["_hoodie_record_key", "v"]).to_pylist())
        assert held[result.row[i]] == {"_hoodie_record_key": line["key"], "v": line["v"]}


@pytest.mark.parametrize("name", CASES)
def test_false_positives_are_those_of_the_filters(name: str) -> None:
    """Counted anew, file by file: every latest file's filter and range asked about every key with Hudi's range rule."""
    case, expected = _case(name)
    keys = [line["key"] for line in expected] + case["absent"]
    wrong = 0
    for file in {(line["partition"], line["file"]) for line in expected}:
        path = TABLES / name / file[0] / file[1]
        footer = parse_footer(pq.read_metadata(path).metadata)
        assert footer.filter_text is not None
        bloom = decode_filter_base64(footer.filter_text, footer.type_code)
        assert bloom.type_code == case["filter"]
        hits = bloom.test(RowBytes.from_list([k.encode() for k in keys]))
        own = set(pq.read_table(path, columns=["_hoodie_record_key"], partitioning=None).column(0).to_pylist())
        assert footer.min_key is not None
        assert footer.max_key is not None
        low, high = (k.decode().encode("utf-16-be") for k in (footer.min_key, footer.max_key))
        for key, hit in zip(keys, hits.tolist(), strict=True):
            if low <= key.encode("utf-16-be") <= high:
                assert hit or key not in own
                wrong += hit and key not in own
    metrics = _tag(name, keys, {}).metrics
    assert metrics.false_positives == wrong
    if "undersized" in name:
        assert wrong > 0


@pytest.mark.parametrize("name", [n for n in CASES if _case(n)[0]["partitioned"]])
def test_only_the_partitions_asked_for(name: str) -> None:
    _, expected = _case(name)
    partition = expected[0]["partition"]
    result = _tag(name, [line["key"] for line in expected], {}, [partition])
    assert result.found.tolist() == [line["partition"] == partition for line in expected]


@pytest.mark.parametrize("name", CASES)
def test_repeated_keys_get_the_same_answer(name: str) -> None:
    case, expected = _case(name)
    keys = [expected[0]["key"], case["absent"][0], expected[0]["key"], "", case["absent"][0], expected[-1]["key"]]
    result = _tag(name, keys, {})
    assert result.found.tolist() == [True, False, True, False, False, True]
    assert result.file[0] == result.file[2]
    assert np.array_equal(result.row[[0, 1]], result.row[[2, 4]])
