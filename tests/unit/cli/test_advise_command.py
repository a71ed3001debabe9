"""``lakeidx advise``: what it measures of tables and files, how it prints, clear errors."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.codec.hudi.bloom import new_filter
from lakeidx.key_index.advice.advice import filter_bytes
from lakeidx.key_index.registry import index_types
from tests.kit.command_line import answer, call

SPEC: dict[str, Any] = {
    "fields": [{"name": "day", "type": "STRING"}, {"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
    "primaryKeys": ["day", "id"],
    "partitionKeys": ["day"],
    "options": {"bucket": "-1"},
}


def advice(*arguments: object) -> dict[str, Any]:
    return dict(answer("advise", *arguments, "--format", "json"))


def rows_file(folder: Path, name: str, rows: list[tuple[str, int]]) -> Path:
    file = folder / name
    pq.write_table(
        pa.table({"day": [r[0] for r in rows], "id": [r[1] for r in rows], "v": [f"v{r[1]}" for r in rows]}), file
    )
    return file


def make(tmp_path: Path, batches: list[list[tuple[str, int]]], **changes: Any) -> str:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({**SPEC, **changes}))
    uri = f"{tmp_path}/wh/db.db/t"
    call("table", "create", uri, "--schema", spec)
    for i, batch in enumerate(batches):
        call("upsert", uri, rows_file(tmp_path, f"b{i}.parquet", batch), "--batch-id", f"b{i}")
    return uri


FIRST = [("a", i) for i in range(300)] + [("b", i) for i in range(200)]


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and table; nothing writes to them."""
    folder = tmp_path_factory.mktemp("one")
    return folder, make(folder, [FIRST])


def test_the_last_batch_of_a_table(tmp_path: Path) -> None:
    uri = make(tmp_path, [FIRST, [("a", i) for i in range(100, 140)] + [("a", 1000 + i) for i in range(10)]])
    found = advice(uri)
    m = found["measures"]
    # Against the state before the batch: 40 of its 50 keys were there.
    assert m["update_share"] == pytest.approx(0.8)
    assert (m["rows"], m["files"], m["partitions"], m["batch_rows"]) == (500, 2, 2, 50)
    assert (m["touched_rows"], m["touched_partitions"], m["move_share"]) == (300, 1, 0)
    assert {c["type"] for c in found["candidates"]} == {t.name for t in index_types()}
    assert (
        found["index.type"]
        == min((c for c in found["candidates"] if not c["why_not"]), key=lambda c: c["seconds"])["type"]
    )
    assert found["options"]["index.type"] == found["index.type"]
    assert set(found["sizes"]) == {"target_row_num", "buckets", "bloom_entries", "bloom_fpp", "bloom_bytes"}


def test_batches_given_as_keys(one_batch: tuple[Path, str], tmp_path: Path) -> None:
    uri = one_batch[1]
    one = rows_file(tmp_path, "one.parquet", [("a", i) for i in range(30)])
    two = tmp_path / "two.jsonl"
    two.write_text("".join(json.dumps({"day": "b", "id": 5000 + i}) + "\n" for i in range(10)))
    m = advice(uri, "--keys", one, "--keys", two)["measures"]
    assert m["update_share"] == pytest.approx(0.75)
    assert m["batch_rows"] == 20
    assert m["touched_rows"] == 500
    assert advice(uri, "--keys", one, "--batch-rows", 777)["measures"]["batch_rows"] == 777
    assert advice(uri, "--keys", one, "--sample", 5)["measures"]["batch_rows"] == 30


def test_moves_are_seen_when_they_are_asked_for(one_batch: tuple[Path, str], tmp_path: Path) -> None:
    uri = one_batch[1]
    batch = rows_file(tmp_path, "batch.parquet", [("b", i) for i in range(190, 230)])
    plain = advice(uri, "--keys", batch)
    assert plain["measures"]["update_share"] == pytest.approx(0.25)
    moved = advice(uri, "--keys", batch, "--moves")
    # 10 keys stand in both partitions, 30 only in the other one.
    assert moved["measures"]["update_share"] == 1.0
    assert moved["measures"]["move_share"] >= 0.75
    assert moved["index.type"] in ("state", "global-bloom", "global-simple")
    alone = advice(uri, "--keys", batch, "--moves", "--stateless")
    assert alone["index.type"] in ("global-bloom", "global-simple")
    assert "bucket" not in (advice(uri, "--keys", batch, "--other-writers")["index.type"],)


def test_a_table_for_people(tmp_path: Path) -> None:
    uri = make(tmp_path, [FIRST, FIRST[:20]])
    text = call("advise", uri).stdout
    assert "500 rows in 2 files of 2 partitions" in text
    assert "100% updates" in text
    assert "recommended: index.type = " in text
    assert "filters of " in text
    for kind in (t.name for t in index_types()):
        assert kind in text


def test_filters_are_as_large_as_said() -> None:
    for entries, fpp in [(1000, 0.01), (60_000, 1e-9), (123_456, 1e-4)]:
        made = new_filter("SIMPLE", num_entries=entries, fpp=fpp, max_entries=0)
        assert filter_bytes(entries, fpp) == len(made.to_base64())


def _files(tmp_path: Path, ordered: bool) -> list[Path]:
    numbers = list(range(1000))
    if not ordered:
        random.Random(1).shuffle(numbers)
    out = []
    for i in range(5):
        file = tmp_path / f"f{i}.csv"
        part = numbers[200 * i : 200 * i + 200] if i < 4 else numbers[700:800] + [2000 + j for j in range(100)]
        file.write_text("k,p,v\n" + "".join(f"{n},x,1\n" for n in part))
        out.append(file)
    return out


@pytest.mark.parametrize("ordered", [True, False])
def test_files_of_a_table_to_be(tmp_path: Path, ordered: bool) -> None:
    """The first four files are the table, the last one a batch; whole numbers are compared as numbers."""
    m = advice(*_files(tmp_path, ordered), "--key", "k")["measures"]
    assert (m["rows"], m["files"], m["batch_rows"], m["update_share"]) == (800, 4, 200, 0.5)
    # Half of the keys have one file of four, or every one; the new ones none.
    assert m["spread"] == pytest.approx(0.125 if ordered else 0.5, abs=0.01)
    assert m["key_order"] == ("ordered" if ordered else "partly ordered")
    assert m["held_files"] == pytest.approx(1.0, abs=0.01)


def test_files_with_partitions_and_composite_keys(tmp_path: Path) -> None:
    held = rows_file(tmp_path, "held.parquet", [("a", 1), ("a", 2), ("b", 3)])
    batch = rows_file(tmp_path, "batch.parquet", [("a", 1), ("b", 2), ("c", 9)])
    m = advice(held, "--keys", batch, "--key", "id", "--partition-by", "day")["measures"]
    assert (m["partitions"], m["files"]) == (2, 2)
    assert m["update_share"] == pytest.approx(1 / 3)
    m = advice(held, "--keys", batch, "--key", "id", "--partition-by", "day", "--moves")["measures"]
    assert (m["update_share"], m["move_share"]) == (pytest.approx(2 / 3), pytest.approx(1 / 2))
    m = advice(held, batch, "--key", "id,v")["measures"]
    assert (m["partitions"], m["update_share"]) == (1, pytest.approx(2 / 3))


def test_cross_partition_tables_have_two_types(tmp_path: Path) -> None:
    uri = make(tmp_path, [FIRST[:300]], primaryKeys=["id"])
    batch = rows_file(tmp_path, "batch.parquet", [("b", 1), ("a", 2)])
    found = advice(uri, "--keys", batch)
    assert found["index.type"] == "state"
    assert found["measures"]["move_share"] == pytest.approx(0.5)
    assert {c["type"] for c in found["candidates"] if not c["why_not"]} == {"state"}


def test_seconds_follow_the_store_and_the_cores(one_batch: tuple[Path, str], tmp_path: Path) -> None:
    batch = rows_file(tmp_path, "batch.parquet", FIRST[:50])

    def seconds(*more: object) -> dict[str, float]:
        found = advice(one_batch[1], "--keys", batch, *more)
        return {c["type"]: c["seconds"] for c in found["candidates"]}

    near, far = seconds(), seconds("--latency-ms", 50)
    assert far["simple"] > near["simple"] + 0.04
    assert far["bucket"] == near["bucket"]
    assert math.isclose(seconds("--cores", 1)["bucket"], near["bucket"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{uri}"], "no batch to measure"),
        (["{uri}", "--batch-rows", "9"], "--keys"),
        (["{uri}", "--key", "id"], "are for files"),
        (["{uri}", "{uri}"], "one table"),
        (["{tmp}/nothing"], "nothing"),
        (["{uri}", "--keys", "{tmp}/none.jsonl"], "does not exist"),
        (["{tmp}/b0.parquet"], "--key"),
        (["{tmp}/b0.parquet", "--key", "id"], "at least two files"),
        (["{tmp}/b0.parquet", "{tmp}/b0.parquet", "--key", "idd"], "no column idd"),
        (["{tmp}/b0.parquet", "{tmp}/none.csv", "--key", "id"], "none.csv"),
    ],
)
def test_bad_input_is_one_line_on_stderr(one_batch: tuple[Path, str], arguments: list[str], says: str) -> None:
    folder, uri = one_batch
    stderr = call("advise", *(a.format(uri=uri, tmp=folder) for a in arguments), code=2).stderr
    assert says in stderr
    assert len(stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"options": {"bucket": "4"}}, "follows from the key"), ({"primaryKeys": []}, "no primary key")],
)
def test_tables_that_need_no_index(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    uri = make(tmp_path, [], **changes)
    assert says in call("advise", uri, code=2).stderr
