"""Every index type leaves a table that Java reads and goes on with: its updates meet lakeidx's rows, and the other way round."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.table.view import decode_partition_dict, load_view
from tests.kit.java_paimon import JavaPaimon
from tests.kit.small_tables import make_table, upsert

pytestmark = pytest.mark.interop

#: Name -> options; HBase has a lane of its own.
TYPES: dict[str, dict[str, str]] = {
    "bloom": {"index.type": "bloom", "hoodie.index.bloom.num_entries": "200"},
    "global-bloom": {"index.type": "global-bloom", "hoodie.index.bloom.num_entries": "200"},
    "simple": {"index.type": "simple"},
    "global-simple": {"index.type": "global-simple"},
    "inmemory": {"index.type": "inmemory"},
    "state": {"index.type": "state"},
    "state by partition": {"index.type": "state", "index.global.enabled": "false"},
    "bucket": {"index.type": "bucket", "hoodie.bucket.index.num.buckets": "4"},
    "bucket ring": {"index.type": "bucket", "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
                    "hoodie.bucket.index.num.buckets": "4"},
    "fixed buckets": {"index.type": "bucket", "bucket": "3"},
}  # fmt: skip
GLOBAL = {"global-bloom", "global-simple", "inmemory", "state"}

Model = dict[tuple[int, int], str]


def _batch(r: random.Random, model: Model, *, moves: bool, step: int) -> tuple[list[tuple[int, int, str]], list[str]]:
    """Rows and kinds of a batch, applied to the model. moves = a key is one over all partitions and may change its own."""
    rows, kinds = [], []
    for i in range(40):
        p, k, v = r.randrange(3), r.randrange(70), f"{step}-{i}"
        kind = "-D" if r.random() < 0.15 else r.choice(("+I", "+U"))
        if moves:
            for old in [key for key in model if key[1] == k]:
                del model[old]
        if kind == "-D":
            model.pop((p, k), None)
        else:
            model[p, k] = v
        rows.append((p, k, v))
        kinds.append(kind)
    return rows, kinds


def _content(table: Table) -> Model:
    found = Table.open(table.uri).scan().to_arrow().to_pylist()
    assert len({(r["p"], r["k"]) for r in found}) == len(found)
    return {(r["p"], r["k"]): r["v"] for r in found}


def _check_hashes(table: Table) -> None:
    """No hash in two buckets of a partition."""
    metadata = Table.open(table.uri).metadata
    for partition, buckets in load_view(metadata, metadata.latest_snapshot()).hash_index().items():
        values = decode_partition_dict(partition, table.schema)
        seen: set[int] = set()
        for bucket, entry in buckets.items():
            path = metadata.paths.index_file(values, bucket, entry.file_name)
            found = set(decode_hash_index(metadata.store.get(path), path).tolist())
            assert not seen & found
            seen |= found


@pytest.mark.parametrize("name", TYPES)
def test_java_reads_and_continues(tmp_path: Path, name: str) -> None:
    table = make_table(tmp_path, options=TYPES[name])
    java = JavaPaimon(f"{tmp_path}/wh", "d.t")
    r = random.Random(name)
    model: Model = {}
    for step in range(2):
        upsert(table, *_batch(r, model, moves=name in GLOBAL, step=step))
        assert _content(table) == model
    # Java knows nothing of keys over partitions: it updates keys where they are, and inserts and deletes others.
    rows: list[Mapping[str, Any]] = []
    for (p, k), _ in list(model.items())[::2]:
        kind = "-D" if k % 5 == 0 else "+U"
        rows.append({"p": str(p), "k": str(k), "v": "java", "_kind": kind})
        if kind == "-D":
            del model[p, k]
        else:
            model[p, k] = "java"
    for k in range(100, 130):
        rows.append({"p": str(k % 3), "k": str(k), "v": "java new", "_kind": "+I"})
        model[k % 3, k] = "java new"
    java.write(rows, tmp_path / "rows.jsonl")
    assert _content(table) == model
    table = Table.open(table.uri)
    more, kinds = _batch(r, model, moves=name in GLOBAL, step=9)
    # Keys that Java wrote are found by the index, too.
    more += [(k % 3, k, "after java") for k in range(100, 115)]
    kinds += ["+U"] * 15
    model.update({(k % 3, k): "after java" for k in range(100, 115)})
    upsert(table, more, kinds)
    assert _content(table) == model
    _check_hashes(table)
    assert {(r["p"], r["k"]): r["v"] for r in java.json("read")} == model
