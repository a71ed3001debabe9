"""A batch for another number of buckets was written 21 times before it was refused; float keys at a file's end overlapped."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.codec.rows.binary_row import encode_row, with_arity
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.table.commit.compaction_conflicts import key_reader
from lakeidx.table.commit.manifest_write import partition_stats
from lakeidx.table.view import decode_row, split_arity  # type: ignore[attr-defined]
from lakeidx.types import parse_type
from tests.kit.small_tables import content, make_table, upsert


def test_another_number_of_buckets_is_refused_at_once(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "2"})
    upsert(table, [(1, k, "row") for k in range(8)])
    newer = replace(table.schema, id=1, options={**table.schema.options, "bucket": "4"})
    table.store.put(table.paths.schema_path(1), encode_schema(newer))
    sorted(p.name for p in Path(f"{table.uri}/manifest").iterdir())
    before = len(list(Path(table.uri).rglob("data-*")))
    with pytest.raises(
        InvalidInputError, match="has 2 buckets, the new files were written for 4: overwrite the partition"
    ):
        upsert(Table.open(table.uri), [(1, k, "new") for k in range(8)])
    assert len(list(Path(table.uri).rglob("data-*"))) - before <= 4
    assert not [
        p
        for p in Path(f"{table.uri}/manifest").iterdir()
        if p.stat().st_mtime > Path(table.paths.schema_path(1)).stat().st_mtime
    ]
    assert content(Table.open(table.uri)) == {(1, k): "row" for k in range(8)}


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_float_keys_are_ordered_as_they_are_sorted(kind: str) -> None:
    types = [parse_type(kind)]
    read = key_reader(types)
    ordered = [None, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]
    keys = [read(with_arity(encode_row([v], types), 1)) for v in ordered]
    assert all(a < b for a, b in itertools.pairwise(keys))


def test_partition_statistics_of_not_a_number(tmp_path: Path) -> None:
    types = [parse_type("DOUBLE")]
    partitions = [with_arity(encode_row([v], types), 1) for v in (math.nan, 1.0, -0.0, 0.0)]
    for order in (partitions, partitions[::-1]):
        stats = partition_stats(dict.fromkeys(order, 1), types)
        low, high = (decode_row(split_arity(b)[1], types)[0] for b in (stats.min_values, stats.max_values))
        assert math.copysign(1.0, low) == -1.0
        assert math.isnan(high)
