"""Both directions, for many shapes of table: lakeidx and the released Java Paimon write the same tables in turn.

After every step both read the same rows as a plain dictionary holds, and no key sits in two buckets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.codec.values import arrow_to_internal
from lakeidx.landing.read import LandingOptions
from lakeidx.types import Field, parse_type
from tests.kit.java_paimon import JavaPaimon, from_java, to_text
from tests.kit.upserts import upsert_files

pytestmark = pytest.mark.interop

Make = Callable[[random.Random], Any]

_TEXTS = ("", "a", "paimon!", "a longer text than seven", "é", "日本語", "x y/z=1%", "😀")
MAKERS: dict[str, Make] = {
    "BOOLEAN": lambda r: r.random() < 0.5,
    "TINYINT": lambda r: r.randrange(-128, 128),
    "SMALLINT": lambda r: r.randrange(-30000, 30000),
    "INT": lambda r: r.randrange(-50, 50),
    "BIGINT": lambda r: r.choice((r.randrange(60), -(2**40) + r.randrange(5))),
    "FLOAT": lambda r: r.choice((0.0, 1.5, -2.25, 1024.0)),
    "DOUBLE": lambda r: r.choice((0.0, 0.1, -1e300, r.randrange(20) / 4)),
    "DECIMAL(9, 2)": lambda r: Decimal(r.randrange(-9999, 9999)).scaleb(-2),
    "DECIMAL(25, 3)": lambda r: Decimal(r.randrange(-(10**20), 10**20)).scaleb(-3),
    "DATE": lambda r: r.randrange(-400, 20000, 97),
    "TIMESTAMP(3)": lambda r: (r.randrange(10**12, 10**12 + 50) * 1, 0),
    "TIMESTAMP(6)": lambda r: (r.randrange(10**12, 10**12 + 20), r.randrange(1000) * 1000),
    "STRING": lambda r: r.choice(_TEXTS) + str(r.randrange(12)),
    "CHAR(5)": lambda r: f"c{r.randrange(1000):04d}",
}


@dataclass(frozen=True)
class Shape:
    """One shape of table; columns by name -> type."""

    name: str
    columns: dict[str, str]
    keys: list[str]
    partitions: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=lambda: {"bucket": "-1", "dynamic-bucket.target-row-num": "15"})
    seed: int = 1


SHAPES = [
    Shape("int-key", {"id": "INT", "v": "STRING", "w": "DOUBLE"}, ["id"]),
    Shape("string-key-partitioned", {"dt": "DATE", "k": "STRING", "v": "DECIMAL(25, 3)", "b": "SMALLINT"}, ["dt", "k"], ["dt"]),
    Shape(
        "two-partition-columns",
        {"region": "STRING", "p": "INT", "k": "BIGINT", "v": "TIMESTAMP(6)", "flag": "BOOLEAN"},
        ["region", "p", "k"],
        ["region", "p"],
    ),
    Shape("mixed-key", {"a": "STRING", "b": "DECIMAL(25, 3)", "c": "TIMESTAMP(6)", "v": "FLOAT"}, ["a", "b", "c"]),
    Shape("four-keys", {"a": "TINYINT", "b": "CHAR(5)", "c": "DATE", "d": "BOOLEAN", "v": "INT"}, ["a", "b", "c", "d"]),
    Shape("fixed", {"id": "BIGINT", "v": "STRING", "w": "SMALLINT"}, ["id"], [], {"bucket": "4"}),
    Shape(
        "fixed-partitioned",
        {"p": "STRING", "k": "DOUBLE", "v": "TIMESTAMP(3)"},
        ["p", "k"],
        ["p"],
        {"bucket": "2"},
    ),
    Shape("max-buckets", {"id": "BIGINT", "v": "INT"}, ["id"], [],
          {"bucket": "-1", "dynamic-bucket.target-row-num": "5", "dynamic-bucket.max-buckets": "3"}),
]  # fmt: skip


class Feed:
    """Random batches of rows of a shape, and the dictionary they leave."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.random = random.Random(shape.seed)
        self.model: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.fields = [
            Field(i, n, parse_type(t + (" NOT NULL" if n in shape.keys else "")))
            for i, (n, t) in enumerate(shape.columns.items())
        ]

    def batch(self, rows: int) -> list[dict[str, str | None]]:
        out = []
        for _ in range(rows):
            known = list(self.model)
            values: dict[str, Any] = {}
            pick = self.random.choice(known) if known and self.random.random() < 0.4 else None
            for name, t in self.shape.columns.items():
                if name in self.shape.keys:
                    # Partition columns take few values, so that partitions get several rows.
                    values[name] = pick[self.shape.keys.index(name)] if pick else self._key_value(name, t)
                else:
                    values[name] = None if self.random.random() < 0.2 else MAKERS[t](self.random)
            delete = self.random.random() < 0.15
            key = tuple(values[k] for k in self.shape.keys)
            if delete:
                self.model.pop(key, None)
            else:
                self.model[key] = tuple(values.values())
            row = {f.name: to_text(values[f.name], f.type) for f in self.fields}
            out.append({**row, "_kind": "-D" if delete else self.random.choice(("+I", "+U"))})
        return out

    def _key_value(self, name: str, t: str) -> Any:
        if name in self.shape.partitions:
            return MAKERS[t](random.Random(self.random.randrange(3) + 1000))
        return MAKERS[t](self.random)

    def expected(self) -> list[tuple[Any, ...]]:
        return sorted(self.model.values(), key=repr)


def lake_rows(table: Table) -> list[tuple[Any, ...]]:
    rows = table.scan().to_arrow()
    columns = [arrow_to_internal(rows.column(f.name), f.type) for f in table.schema.fields]
    return sorted(zip(*columns, strict=True), key=repr)


def java_rows(java: JavaPaimon, fields: list[Field]) -> list[tuple[Any, ...]]:
    return sorted((tuple(from_java(r[f.name], f.type) for f in fields) for r in java.json("read")), key=repr)


def check_one_bucket(table: Table) -> None:
    """No key in two buckets, by the rows themselves, deletes included."""
    seen: dict[tuple[Any, ...], int] = {}
    scan = table.scan(columns=list(table.schema.primary_keys))
    scan.keep_deletes = True
    types = [table.schema.field(k).type for k in table.schema.primary_keys]
    for bucket in scan.plan.buckets:
        for rows in scan.read_bucket(bucket):
            columns = [
                arrow_to_internal(rows.column(k), t) for k, t in zip(table.schema.primary_keys, types, strict=True)
            ]
            for key in zip(*columns, strict=True):
                assert seen.setdefault(key, bucket.bucket) == bucket.bucket, f"{key} in two buckets"


def check_index(table: Table, java: JavaPaimon) -> None:
    """Java reads the same index entries and hashes as lakeidx, and no hash is in two buckets of a partition."""
    if table.schema.bucket != -1:
        return
    hashes: dict[tuple[str, int], int] = {}
    for entry in java.json("index"):
        assert entry["type"] == "HASH"
        assert len(entry["hashes"]) == entry["rows"] == entry["size"] // 4 == len(set(entry["hashes"]))
        for h in entry["hashes"]:
            place = (json.dumps(entry["partition"], sort_keys=True), h)
            assert hashes.setdefault(place, entry["bucket"]) == entry["bucket"]


def upsert(table: Table, rows: list[dict[str, Any]], file: Path) -> None:
    file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    result = upsert_files(make_context(table.metadata, file.stem), [str(file)], LandingOptions("jsonl"))
    assert result.ingest.rows_rejected == 0, result.ingest.reject_reasons


def spec_of(shape: Shape) -> dict[str, Any]:
    return {
        "fields": [{"name": n, "type": t} for n, t in shape.columns.items()],
        "primaryKeys": shape.keys,
        "partitionKeys": shape.partitions,
        "options": shape.options,
    }


@pytest.fixture(params=SHAPES, ids=lambda s: s.name)
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


def test_lakeidx_begins_java_continues(shape: Shape, tmp_path: Path) -> None:
    warehouse = tmp_path / "ware house é"
    table = Table.create(f"{warehouse}/my db.db/{shape.name}", spec_of(shape))
    java = JavaPaimon(str(warehouse), f"my db.{shape.name}")
    feed = Feed(shape)
    upsert(table, feed.batch(60), tmp_path / "b1.jsonl")
    upsert(table, feed.batch(40), tmp_path / "b2.jsonl")
    assert lake_rows(table) == feed.expected()
    assert java_rows(java, feed.fields) == feed.expected()
    check_index(table, java)
    java.write(
        feed.batch(50), tmp_path / "b3.jsonl", assigners=2 if shape.options["bucket"] == "-1" else 1, compact=True
    )
    table = Table.open(table.uri)
    assert lake_rows(table) == feed.expected()
    check_one_bucket(table)
    upsert(table, feed.batch(50), tmp_path / "b4.jsonl")
    assert lake_rows(table) == feed.expected()
    assert java_rows(java, feed.fields) == feed.expected()
    check_index(table, java)
    check_one_bucket(table)


def test_java_begins_lakeidx_continues(shape: Shape, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(spec_of(shape)))
    java = JavaPaimon(str(tmp_path / "wh"), f"d.{shape.name}")
    java.run("create", str(spec))
    feed = Feed(shape)
    java.write(feed.batch(70), tmp_path / "b1.jsonl", compact=True)
    table = Table.open(f"{tmp_path}/wh/d.db/{shape.name}")
    assert lake_rows(table) == feed.expected()
    upsert(table, feed.batch(60), tmp_path / "b2.jsonl")
    assert lake_rows(table) == feed.expected()
    java.run("compact")
    assert java_rows(java, feed.fields) == feed.expected()
    assert lake_rows(Table.open(table.uri)) == feed.expected()
    check_index(table, java)
    check_one_bucket(table)
