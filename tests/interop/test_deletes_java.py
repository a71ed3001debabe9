"""Java reads what deletes by key left: their rows have only what a delete needs, other columns that may not be null are 0."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import pytest

import lakeidx
from tests.kit.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

TYPES = {
    "b": ("BOOLEAN NOT NULL", True), "i": ("INT NOT NULL", 7), "l": ("BIGINT NOT NULL", 7), "f": ("DOUBLE NOT NULL", 1.5),
    "s": ("STRING NOT NULL", "x"), "c": ("CHAR(3) NOT NULL", "abc"), "y": ("BYTES NOT NULL", b"z"),
    "d": ("DECIMAL(10, 2) NOT NULL", decimal.Decimal("1.50")), "e": ("DECIMAL(30, 2) NOT NULL", decimal.Decimal("1.50")),
    "day": ("DATE NOT NULL", datetime.date(2026, 11, 28)), "t": ("TIMESTAMP(6) NOT NULL", datetime.datetime(2026, 11, 28)),
    "r": ({"type": "ROW", "fields": [{"id": 90, "name": "x", "type": "INT"}]}, {"x": 1}),
    "n": ("STRING", "maybe"),
}  # fmt: skip


@pytest.mark.parametrize("options", [{"bucket": "-1"}, {"bucket": "2", "deletion-vectors.enabled": "true"}], ids=str)
def test_java_reads_what_is_left(tmp_path: Path, options: dict[str, str]) -> None:
    fields = [{"name": "k", "type": "INT"}, *({"name": n, "type": t} for n, (t, _) in TYPES.items())]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": options}
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    table.upsert([{"k": k, **{n: v for n, (_, v) in TYPES.items()}} for k in range(1_000)])
    table.compact(full=True)
    table.delete([{"k": k} for k in range(0, 1_000, 2)])  # by a scan of the keys
    table.delete([{"k": 1}])  # by point lookups
    java = JavaPaimon(str(tmp_path), "d.t")
    if "deletion-vectors.enabled" in options:
        table.compact(full=True)
    assert sorted(int(r["k"]) for r in java.json("read")) == list(range(3, 1_000, 2))
    java.run("compact")
    assert sorted(int(r["k"]) for r in java.json("read")) == list(range(3, 1_000, 2))
    found = lakeidx.Table.open(table.uri).scan().to_arrow()
    assert sorted(found["k"].to_pylist()) == list(range(3, 1_000, 2))
    assert set(found["n"].to_pylist()) == {"maybe"}
