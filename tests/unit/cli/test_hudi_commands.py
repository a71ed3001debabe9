"""``lakeidx hudi tag``: golden tables come out exactly, keys in every format, clear errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.format.hudi.footer import BLOOM_FILTER, FILTER_TYPE_CODE
from tests.conftest import GOLDEN
from tests.kit.command_line import answer, call, lines
from tests.unit.key_index.hudi_tables import HandMadeTable

TABLES = Path(GOLDEN) / "hudi-tables"
CASES = sorted(p.name.removesuffix(".case.json") for p in TABLES.glob("*.case.json"))
T1 = "20260101000000001"


def keys_file(folder: Path, name: str, keys: list[str], column: str = "key") -> Path:
    file = folder / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({column: keys}), file)
    elif name.endswith(".csv"):
        with file.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([[column], *([k] for k in keys)])
    else:
        file.write_text("".join(json.dumps({column: k}) + "\n" for k in keys), encoding="utf-8")
    return file


@pytest.mark.slow
@pytest.mark.golden
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("name", CASES)
def test_golden_tables_come_out_exactly(name: str, ending: str, tmp_path: Path) -> None:
    case = json.loads((TABLES / f"{name}.case.json").read_text(encoding="utf-8"))
    lines = (TABLES / f"{name}.expect.jsonl").read_text(encoding="utf-8").splitlines()
    expected = [json.loads(line) for line in lines]
    keys = [e["key"] for e in expected] + case["absent"]
    found = call("hudi", "tag", TABLES / name, "--keys", keys_file(tmp_path, f"keys.{ending}", keys))
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [r["key"] for r in rows] == keys
    for row, line in zip(rows, expected, strict=False):
        assert row["found"]
        assert (row["partition"], row["file_name"]) == (line["partition"], line["file"])
        assert row["file_name"].startswith(row["file_id"] + "_")
        assert row["file_name"].endswith(f"_{row['instant']}.parquet")
    nowhere = {"found": False, "partition": None, "file_id": None, "file_name": None, "instant": None}
    for row, key in zip(rows[len(expected) :], case["absent"], strict=True):
        assert row == {"key": key, **nowhere}
    assert f"{len(expected)} of {len(keys)} keys found" in found.stderr
    assert "false positives" in found.stderr


@pytest.fixture
def table(tmp_path: Path) -> HandMadeTable:
    made = HandMadeTable(tmp_path / "t", layout=2)
    made.instant(T1)
    made.file(T1, "a-0", ["k1", "k2"], partition="p=1")
    made.file(T1, "b-0", ["k3", "k4"], partition="p=2", footer={})
    return made


def test_metrics_count_keys_files_and_probes(table: HandMadeTable, tmp_path: Path) -> None:
    keys = keys_file(tmp_path, "keys.jsonl", ["k1", "k4", "zz"])
    metrics = answer("hudi", "tag", table.path, "--keys", keys, "--metrics")
    assert {k: metrics[k] for k in ("keys", "found", "files", "files_probed", "files_read", "files_without_filter")} == {
        "keys": 3, "found": 2, "files": 2, "files_probed": 1, "files_read": 2, "files_without_filter": 1,
    }  # fmt: skip
    assert "1 files without a filter" in call("hudi", "tag", table.path, "--keys", keys).stderr


def test_partitions_and_formats(table: HandMadeTable, tmp_path: Path) -> None:
    keys = keys_file(tmp_path, "keys.csv", ["k1", "k4"])
    assert [r["found"] for r in lines("hudi", "tag", table.path, "--keys", keys, "--partition", "p=2")] == [False, True]
    out = tmp_path / "out.parquet"
    call("hudi", "tag", table.path, "--keys", keys, "--format", "parquet", "-o", out)
    assert pq.read_table(out).column("file_id").to_pylist() == ["a-0", "b-0"]
    assert "-o FILE" in call("hudi", "tag", table.path, "--keys", keys, "--format", "parquet", code=2).stderr
    assert "a-0" in call("hudi", "tag", table.path, "--keys", keys, "--format", "table").stdout


def test_the_column_with_the_keys(table: HandMadeTable, tmp_path: Path) -> None:
    other = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": ["k1"], "y": ["k3"]}), other)
    assert "--column" in call("hudi", "tag", table.path, "--keys", other, code=2).stderr
    assert lines("hudi", "tag", table.path, "--keys", other, "--column", "y")[0]["file_id"] == "b-0"
    assert "no column z" in call("hudi", "tag", table.path, "--keys", other, "--column", "z", code=2).stderr
    # The table's record key field is id; a file of one column needs no name.
    for column in ("id", "anything"):
        found = lines("hudi", "tag", table.path, "--keys", keys_file(tmp_path, "one.jsonl", ["k2"], column))
        assert found[0]["file_id"] == "a-0"


def test_keys_of_several_fields_are_put_together_as_hudi_does(tmp_path: Path) -> None:
    made = HandMadeTable(tmp_path / "t", layout=1, properties={"hoodie.table.recordkey.fields": "a,b"})
    made.instant(T1)
    made.file(T1, "f-0", ["a:1,b:x,y", "a:__null__,b:__empty__"])
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"a": 1, "b": "x,y"}\n{"a": null, "b": ""}\n{"a": 2, "b": "x"}\n')
    assert [(r["key"], r["found"]) for r in lines("hudi", "tag", made.path, "--keys", keys)] == [
        ("a:1,b:x,y", True),
        ("a:__null__,b:__empty__", True),
        ("a:2,b:x", False),
    ]


def test_files_with_unreadable_filters_are_read(tmp_path: Path) -> None:
    made = HandMadeTable(tmp_path / "t", layout=2)
    made.instant(T1)
    made.file(T1, "a-0", ["k1"], footer={BLOOM_FILTER: b"AAAA", FILTER_TYPE_CODE: b"CUCKOO"})
    made.file(T1, "b-0", ["k2"], footer={BLOOM_FILTER: b"****"})
    keys = keys_file(tmp_path, "keys.jsonl", ["k1", "k2"])
    found = call("hudi", "tag", made.path, "--keys", keys)
    assert [json.loads(line)["found"] for line in found.stdout.splitlines()] == [True, True]
    assert "2 filters that cannot be read" in found.stderr
    failed = call("hudi", "tag", made.path, "--keys", keys, "--bad-filter", "fail", code=2)
    assert len(failed.stderr.splitlines()) == 1
    assert "Traceback" not in failed.stderr
    assert "read-keys" in call("hudi", "tag", made.path, "--keys", keys, "--bad-filter", "guess", code=2).stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("keys.jsonl", "no json\n", "not JSON"),
        ("keys.jsonl", '"k1"\n', "no JSON object"),
        ("keys.jsonl", '{"key": null}\n', "line 1"),
        ("keys.jsonl", "", "empty"),
        ("keys.txt", "k1\n", "file extension"),
        ("keys.parquet", "no parquet", "Parquet"),
    ],
)
def test_bad_key_files(table: HandMadeTable, tmp_path: Path, name: str, content: str, says: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    stderr = call("hudi", "tag", table.path, "--keys", file, code=2).stderr
    assert says in stderr
    assert len(stderr.splitlines()) == 1


def test_missing_files_and_tables(table: HandMadeTable, tmp_path: Path) -> None:
    keys = keys_file(tmp_path, "keys.jsonl", ["k1"])
    for arguments in ([tmp_path / "nothing", "--keys", keys], [table.path, "--keys", tmp_path / "none.jsonl"]):
        stderr = call("hudi", "tag", *arguments, code=2).stderr
        assert len(stderr.splitlines()) == 1
