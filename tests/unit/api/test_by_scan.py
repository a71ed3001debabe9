"""Rows of many keys by a scan are those of point lookups; what holds none of the keys is not opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.api.verbs import WantedKeys, rows_of_keys, scan_keys

KINDS: dict[str, dict[str, Any]] = {
    "dynamic": {"primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": {"bucket": "-1"}},
    "cross-partition": {"primaryKeys": ["k"], "partitionKeys": ["p"], "options": {"bucket": "-1"}},
    "vectors": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "2", "deletion-vectors.enabled": "true", "lookup-wait": "true"},
    },
}


def make(folder: Path, kind: str) -> Table:
    fields = [("p", "INT"), ("k", "STRING"), ("v", "BIGINT NOT NULL"), ("w", "STRING NOT NULL")]
    spec = {"fields": [{"name": n, "type": t} for n, t in fields], **KINDS[kind]}
    return Table.create(f"{folder}/wh/d.db/t", spec)


def row(k: int, v: int) -> dict[str, Any]:
    return {"p": k // 10, "k": f"{k:03}", "v": v, "w": f"w{v}"}


def keys_of(table: Table, *numbers: int) -> pa.Table:
    names = list(table.schema.primary_keys)
    return pa.Table.from_pylist([row(k, 0) for k in numbers], schema=table.schema.arrow_schema).select(names)


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_rows_of_the_keys_that_are_there(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    table.upsert([row(k, k) for k in range(40)])
    table.upsert([row(k, 100 + k) for k in range(0, 40, 3)])
    table.delete(keys_of(table, 6, 7))
    wanted = WantedKeys(table.schema, keys_of(table, 5, 6, 7, 9, 33, 77))
    assert scan_keys(table, wanted.once, wanted.choice, ["k", "v"]) is not None
    found = rows_of_keys(table, wanted, ["k", "v"])
    assert sorted(found.to_pylist(), key=str) == [
        {"k": "005", "v": 5}, {"k": "009", "v": 109}, {"k": "033", "v": 133}
    ]  # fmt: skip


def test_a_scan_is_for_many_keys(tmp_path: Path) -> None:
    table = make(tmp_path, "dynamic")
    table.upsert([row(k, k) for k in range(10)] + [{**row(k, k), "p": 0} for k in range(1000, 1400)])
    wanted = WantedKeys(table.schema, keys_of(table, 3))
    assert scan_keys(table, wanted.once, wanted.choice, ["v"]) is None


def test_rows_of_kind_delete_hold_no_values(tmp_path: Path) -> None:
    """What may not be null is zero there: to know better, all columns would be read."""
    table = make(tmp_path, "dynamic")
    table.upsert([row(1, 5)])
    table.delete(keys_of(table, 1))
    gone = table.changes(1, mode="delta").to_arrow().to_pylist()
    assert [(r["k"], r["v"], r["w"]) for r in gone] == [("001", 0, "")]


def test_keys_find_their_rows_with_repeats_and_nulls_among_them(tmp_path: Path) -> None:
    table = make(tmp_path, "dynamic")
    keys = keys_of(table, 5, 6, 5, 7)
    nulls = pa.table({n: pa.nulls(1, keys.schema.field(n).type) for n in keys.column_names})
    given = pa.concat_tables([keys.slice(0, 1), nulls, keys.slice(1)], promote_options="permissive")
    wanted = WantedKeys(table.schema, given)
    assert wanted.once.num_rows == 3
    assert wanted.places(keys_of(table, 8, 7, 5)).tolist() == [2, -1, -1, 2, 1]
    assert WantedKeys(table.schema, nulls).places(keys_of(table, 8)).tolist() == [-1]


def test_a_lone_key_that_is_null_is_nowhere(tmp_path: Path) -> None:
    spec = {"fields": [{"name": "k", "type": "BIGINT NOT NULL"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    schema = Table.create(f"{tmp_path}/b.db/t", spec).schema
    assert WantedKeys(schema, pa.table({"k": pa.array([None], pa.int64())})).places(pa.table({"k": [4]})).tolist() == [
        -1
    ]
