"""Merge engines as plain functions that say what a record does to the value of its key, and tables of keys, text and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.table.index_files import read_hash_index
from lakeidx.table.view import decode_partition_dict, load_view

Key = tuple[int, int]
#: Columns after the key: text, n, m, s.
Values = tuple[str | None, int | None, int | None, int | None]
State = dict[Key, Values]
#: Partition, key, values, kind ("+I", "+U" or "-D").
Record = tuple[int, int, Values, str]
Merge = Callable[[Values | None, Values, str], Values | None]

FIELDS = [
    {"name": "p", "type": "INT"},
    {"name": "k", "type": "BIGINT"},
    {"name": "text", "type": "STRING"},
    {"name": "n", "type": "BIGINT"},
    {"name": "m", "type": "INT"},
    {"name": "s", "type": "INT"},
]
#: Small files and low triggers, so that short histories reach every rule.
OPTIONS = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "8",
    "num-sorted-run.compaction-trigger": "3",
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "2 ms",
}


def _deduplicate(old: Values | None, new: Values, kind: str) -> Values | None:
    return None if kind == "-D" else new


def _by_sequence(old: Values | None, new: Values, kind: str) -> Values | None:
    # A null is the smallest sequence; of equal ones the later record wins.
    if old is None or old[3] is None or (new[3] is not None and new[3] >= old[3]):
        return new
    return old


def _first_row(old: Values | None, new: Values, kind: str) -> Values | None:
    return new if old is None else old


def _partial_update(old: Values | None, new: Values, kind: str) -> Values | None:
    if old is None:
        return new
    a, b, c, d = (o if n is None else n for o, n in zip(old, new, strict=True))
    return a, b, c, d  # type: ignore[return-value]


def _aggregate(old: Values | None, new: Values, kind: str) -> Values | None:
    if old is None:
        return new
    text = old[0] if new[0] is None else new[0]
    total = old[1] if new[1] is None else new[1] if old[1] is None else old[1] + new[1]
    greatest = old[2] if new[2] is None else new[2] if old[2] is None else max(old[2], new[2])
    return text, total, greatest, old[3] if new[3] is None else new[3]


@dataclass(frozen=True)
class Engine:
    """A merge engine: its options and what it does to a key's value, one record after another.

    deletes         the feed has deletes: their outcome does not depend on when someone compacts
    hides_level_0   readers see only what is compacted
    """

    name: str
    options: Mapping[str, str]
    merge: Merge
    deletes: bool = False
    hides_level_0: bool = False


ENGINES = {
    e.name: e
    for e in (
        Engine("deduplicate", {}, _deduplicate, deletes=True),
        Engine("fixed-buckets", {"bucket": "2"}, _deduplicate, deletes=True),
        Engine("sequence-field", {"sequence.field": "s"}, _by_sequence),
        Engine("first-row", {"merge-engine": "first-row"}, _first_row, hides_level_0=True),
        Engine("partial-update", {"merge-engine": "partial-update"}, _partial_update),
        Engine("aggregation", {"merge-engine": "aggregation", "fields.text.aggregate-function": "last_non_null_value",
                               "fields.n.aggregate-function": "sum", "fields.m.aggregate-function": "max",
                               "fields.s.aggregate-function": "last_non_null_value"}, _aggregate),
        Engine("deletion-vectors", {"deletion-vectors.enabled": "true"}, _deduplicate, deletes=True, hides_level_0=True),
    )
}  # fmt: skip


def index_hashes(table: Table) -> dict[int, set[int]]:
    """Return the hashes in the index by partition; AssertionError for one that is there twice."""
    out: dict[int, set[int]] = {}
    m = table.metadata
    view = load_view(m, m.latest_snapshot())
    for partition, buckets in view.hash_index().items():
        mine = out.setdefault(decode_partition_dict(partition, table.schema)["p"], set())
        for entry in buckets.values():
            found = read_hash_index(m, table.schema, entry).tolist()
            assert len(found) == len(set(found))
            assert not mine & set(found), "a hash in two buckets"
            mine |= set(found)
    return out


def key_hashes(table: Table, keys: Iterable[Key]) -> list[int]:
    """Return the hashes of the trimmed primary key, in order."""
    column = pa.array([k for _, k in keys], pa.int64())
    return [int(h) for h in hash_columns([column], table.schema.key_types)]


def as_arrow(records: Sequence[Record]) -> pa.Table:
    """Convert records to a batch."""
    texts, ns, ms, ss = (list(c) for c in zip(*(r[2] for r in records), strict=True)) if records else ([], [], [], [])
    return pa.table(
        {
            "p": pa.array([r[0] for r in records], pa.int32()),
            "k": pa.array([r[1] for r in records], pa.int64()),
            "text": pa.array(texts, pa.string()),
            "n": pa.array(ns, pa.int64()),
            "m": pa.array(ms, pa.int32()),
            "s": pa.array(ss, pa.int32()),
            "_kind": pa.array([r[3] for r in records], pa.string()),
        }
    )
