"""Tables that the released Java Paimon wrote: every index type finds every row's bucket, and nothing for keys that never were."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.key_state.index import StateKeyIndex
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.codec.values import internal_to_arrow
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.key_index.locations import KeyBatch
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext, Locator
from lakeidx.key_index.registry import make_locator
from lakeidx.key_index.table_view import key_batch, make_tag_context
from tests.kit.golden_tables import TABLES, GoldenTable
from tests.kit.json_forms import json_to_internal

pytestmark = pytest.mark.golden
MODES = (BucketMode.HASH_DYNAMIC, BucketMode.HASH_FIXED)
KEYED = [t for t in TABLES if t.info["primary_keys"] and t.info["bucket_mode"] in MODES]


def _ways() -> Iterator[Any]:
    for case in KEYED:
        kinds = ["simple", "bloom", "state"]
        kinds += ["bucket"] if case.info["bucket_mode"] == BucketMode.HASH_DYNAMIC else []
        # Without partitions the live rows are exactly the keys that a global index must find; deleted ones are not looked at.
        kinds += [] if case.info["partition_keys"] else ["global-simple", "global-bloom"]
        yield from (pytest.param(case, kind, id=f"{case.name}-{kind}") for kind in kinds)


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


def _state(case: GoldenTable, snapshot_id: int, folder: Path) -> tuple[TableSchema, IndexContext]:
    metadata = Table.open(str(case.path)).metadata
    snapshot = metadata.load_snapshot(snapshot_id)
    schema = metadata.load_schema(snapshot.schema_id)
    context = make_tag_context(metadata, snapshot, index_dir=str(folder / "index"))
    return schema, dataclasses.replace(context, options=IndexOptions(dict(schema.options)))


@contextmanager
def _locator(kind: str) -> Iterator[Locator]:
    key_index = make_locator(IndexOptions({"index.type": kind, "index.global.enabled": "false"}))
    assert key_index is not None
    yield key_index
    if isinstance(key_index, StateKeyIndex):
        key_index.close()


@pytest.mark.parametrize(("case", "kind"), list(_ways()))
def test_every_row_is_found(case: GoldenTable, kind: str, tmp_path: Path) -> None:
    checked = 0
    # The first states and the last: a state index comes to the later ones by catching up.
    described_ones = [s for s in case.info["snapshots"] if "expect" in s]
    with _locator(kind) as key_index:
        for described in [*described_ones[:2], *described_ones[2:][-1:]]:
            rows = case.lines(described["expect"])
            schema, context = _state(case, described["id"], tmp_path)
            if any(k not in r["row"] for r in rows for k in schema.primary_keys):
                continue
            found = key_index.tag(_batch(schema, rows), context)
            assert found.bucket.tolist() == [r["bucket"] for r in rows], described["id"]
            checked += len(rows)
    assert checked or not any(s.get("rows") for s in described_ones)


@pytest.mark.parametrize("kind", ["simple", "bloom", "state"])
@pytest.mark.parametrize("case", [t for t in KEYED if t.info["partition_keys"]], ids=attrgetter("name"))
def test_keys_of_other_partitions_are_not_found(case: GoldenTable, kind: str, tmp_path: Path) -> None:
    """Rows' keys asked for in a partition that no row of theirs was ever written to."""
    described = case.info["snapshots"][-1]
    rows = case.lines(described["expect"])
    schema, context = _state(case, described["id"], tmp_path)
    name = schema.partition_keys[0]
    with _locator(kind) as key_index:
        batch = _batch(schema, rows)
        if kind == "state":
            batch = dataclasses.replace(batch, partitions=tuple(p + b"\0" * 8 for p in batch.partitions))
        elif schema.field(name).type.root.name in ("INT", "BIGINT", "SMALLINT", "DATE"):
            batch = _batch(schema, [{"row": r["row"] | {name: 12345}} for r in rows])
        else:
            return
        assert not key_index.tag(batch, context).known.any()
