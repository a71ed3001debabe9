"""Tables that the released Java Paimon wrote: every index type finds every row's bucket, and nothing for keys that never were."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.key_index.locations import KeyBatch
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import make_locator
from lakeidx.key_index.table_view import key_batch, make_tag_context
from lakeidx.storage import open_store
from lakeidx.table.metadata import TableMetadata
from tests.conftest import GOLDEN
from tests.kit.json_forms import json_to_internal

pytestmark = pytest.mark.golden
TABLES = Path(GOLDEN) / "tables"
CASES = {p.parent.name: json.loads(p.read_text(encoding="utf-8")) for p in sorted(TABLES.glob("*/case.json"))}
MODES = (BucketMode.HASH_DYNAMIC, BucketMode.HASH_FIXED)
KEYED = [n for n, c in CASES.items() if c["primary_keys"] and c["bucket_mode"] in MODES]
FILE_TYPES = ["simple", "bloom", "state"]


def _rows(case: str, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    path = TABLES / case / snapshot["expect"]
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _metadata(case: str) -> TableMetadata:
    root = str(TABLES / case / "table")
    store = open_store(root)
    schema = TableMetadata(store, TablePaths(root)).latest_schema()
    return TableMetadata(store, TablePaths.of(root, schema))


def _batch(schema: TableSchema, rows: list[dict[str, Any]]) -> KeyBatch:
    """Keys of expected rows, partitions spelled from their JSON values."""
    columns = {}
    for name in schema.trimmed_primary_keys:
        t = schema.field(name).type
        columns[name] = internal_to_arrow([json_to_internal(r["row"][name], t) for r in rows], t)
    types = schema.partition_types
    raw = []
    for row in rows:
        values = [json_to_internal(row["row"][k], t) for k, t in zip(schema.partition_keys, types, strict=True)]
        raw.append(with_arity(encode_row(values, types), len(types)))
    partitions = tuple(dict.fromkeys(raw))
    number = {p: i for i, p in enumerate(partitions)}
    codes = np.array([number[p] for p in raw], np.int32)
    return key_batch(pa.table(columns), schema, (partitions, codes))


def _check(case: str, kind: str, tmp_path: Path) -> None:
    metadata = _metadata(case)
    checked = 0
    key_index = make_locator(IndexOptions({"index.type": kind, "index.global.enabled": "false"}))
    assert key_index is not None
    # The first states and the last: a state index comes to the later ones by catching up.
    described_ones = [s for s in CASES[case]["snapshots"] if "expect" in s]
    for described in [*described_ones[:2], *described_ones[2:][-1:]]:
        rows = _rows(case, described)
        snapshot = metadata.load_snapshot(described["id"])
        context = make_tag_context(metadata, snapshot, index_dir=str(tmp_path / "index"))
        schema = metadata.load_schema(snapshot.schema_id)
        if any(k not in r["row"] for r in rows for k in schema.primary_keys):
            continue
        options = {**schema.options}
        context = dataclasses.replace(context, options=IndexOptions(options))
        found = key_index.tag(_batch(schema, rows), context)
        assert found.bucket.tolist() == [r["bucket"] for r in rows], (case, described["id"])
        checked += len(rows)
    assert checked or not any(s.get("rows") for s in described_ones)
    if isinstance(key_index, StateKeyIndex):
        key_index.close()


@pytest.mark.parametrize("kind", FILE_TYPES)
@pytest.mark.parametrize("case", KEYED)
def test_every_row_is_found(case: str, kind: str, tmp_path: Path) -> None:
    _check(case, kind, tmp_path)


@pytest.mark.parametrize("case", [n for n in KEYED if CASES[n]["bucket_mode"] == BucketMode.HASH_DYNAMIC])
def test_every_row_is_found_by_the_hash_index(case: str, tmp_path: Path) -> None:
    _check(case, "bucket", tmp_path)


@pytest.mark.parametrize("kind", ["global-simple", "global-bloom"])
@pytest.mark.parametrize("case", [n for n in KEYED if not CASES[n]["partition_keys"]])
def test_global_types_where_a_key_is_one_row(case: str, kind: str, tmp_path: Path) -> None:
    """Without partitions the live rows are exactly the keys that a global index must find; deleted ones are not looked at."""
    _check(case, kind, tmp_path)


@pytest.mark.parametrize("kind", ["simple", "bloom", "state"])
@pytest.mark.parametrize("case", [n for n in KEYED if CASES[n]["partition_keys"]])
def test_keys_of_other_partitions_are_not_found(case: str, kind: str, tmp_path: Path) -> None:
    """Rows' keys asked for in a partition that no row of theirs was ever written to."""
    metadata = _metadata(case)
    described = CASES[case]["snapshots"][-1]
    rows = _rows(case, described)
    snapshot = metadata.load_snapshot(described["id"])
    schema = metadata.load_schema(snapshot.schema_id)
    context = make_tag_context(metadata, snapshot, index_dir=str(tmp_path / "index"))
    options = {**schema.options}
    context = dataclasses.replace(context, options=IndexOptions(options))
    batch = _batch(schema, rows)
    nowhere = tuple(p + b"\0" * 8 for p in batch.partitions)
    key_index = make_locator(IndexOptions({"index.type": kind, "index.global.enabled": "false"}))
    assert key_index is not None
    if kind == "state":
        found = key_index.tag(dataclasses.replace(batch, partitions=nowhere), context)
        assert not found.known.any()
        assert isinstance(key_index, StateKeyIndex)
        key_index.close()
        return
    # A partition value that is not in the table.
    changed = [{"row": dict(r["row"])} for r in rows]
    name = schema.partition_keys[0]
    t = schema.field(name).type
    if t.root.name in ("INT", "BIGINT", "SMALLINT", "DATE"):
        for r in changed:
            r["row"][name] = 12345
        found = key_index.tag(_batch(schema, changed), context)
        assert not found.known.any()
