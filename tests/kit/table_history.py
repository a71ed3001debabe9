"""Histories of a small table: everything that may happen to one, and the plain dictionary that says what it must hold.

Driven by a stateful property test, and with a seeded random generator where Java confirms the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.context import BatchContext, make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.given_rows import stage_table
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.upsert import commit_batch
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.maintenance.compaction import CompactionReport, run_compaction
from lakeidx.maintenance.staging_cleanup import clean_orphans
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.table.index_files import read_hash_index
from lakeidx.table.view import decode_partition_dict, load_view
from lakeidx.tasks.runner import LocalRunner

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


@dataclass
class Staged:
    """A batch between its stages and its commit."""

    context: BatchContext
    records: list[Record]
    overwrite: str | None


@dataclass
class History:
    """A table, and what it must hold.

    rows      every committed record merged, key by key
    visible   what readers see; differs from `rows` where level 0 is hidden
    at        snapshot id -> what readers of it see; tags likewise
    """

    folder: Path
    engine: Engine
    table: Table = field(init=False)
    rows: State = field(default_factory=dict)
    visible: State = field(default_factory=dict)
    at: dict[int, State] = field(default_factory=dict)
    rows_at: dict[int, State] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    tag_states: dict[str, tuple[State, State]] = field(default_factory=dict)
    staged: list[Staged] = field(default_factory=list)
    ever: set[Key] = field(default_factory=set)
    _batches: int = 0

    def __post_init__(self) -> None:
        self.table = Table.create(f"{self.folder}/wh/d.db/t", self.spec)

    @property
    def spec(self) -> dict[str, Any]:
        """What the table is created from."""
        return {
            "fields": FIELDS,
            "primaryKeys": ["p", "k"],
            "partitionKeys": ["p"],
            "options": {**OPTIONS, **self.engine.options},
        }

    def reopen(self) -> None:
        """Drop cached metadata."""
        self.table = Table.open(self.table.uri)

    def compacted_elsewhere(self) -> None:
        """Record that another writer compacted everything: rows hidden in level 0 are visible now."""
        self.reopen()
        self.visible = dict(self.rows)
        self._remember([i for i in self.live_snapshots() if i not in self.at])

    def stage(self, records: Sequence[Record], *, overwrite: str | None = None) -> Staged:
        """Run a batch up to its commit."""
        self._batches += 1
        context = make_context(self.table.metadata, f"b{self._batches}", runner=LocalRunner(1), overwrite=overwrite)
        stage_table(context.files, self.table.schema, as_arrow(records))
        run_bucket_assignment(context, 1)
        run_index_write(context, 1)
        batch = Staged(context, list(records), overwrite)
        self.staged.append(batch)
        return batch

    def commit(self, batch: Staged) -> None:
        """Commit a staged batch; only now it counts."""
        self.staged.remove(batch)
        report = commit_batch(batch.context, sleep=lambda _: None)
        assert not report.already
        if batch.overwrite == "partitions":
            touched = {r[0] for r in batch.records}
            self.rows = {k: v for k, v in self.rows.items() if k[0] not in touched}
            self.visible = {k: v for k, v in self.visible.items() if k[0] not in touched}
        for p, k, values, kind in batch.records:
            merged = self.engine.merge(self.rows.get((p, k)), values, kind)
            self.ever.add((p, k))
            if merged is None:
                self.rows.pop((p, k), None)
            else:
                self.rows[(p, k)] = merged
        if not self.engine.hides_level_0:
            self.visible = dict(self.rows)
        elif batch.overwrite == "partitions" and not any(r[3] == "-D" for r in batch.records):
            self.visible |= {k: v for k, v in self.rows.items() if k[0] in touched}
        self._remember(report.snapshot_ids)

    def upsert(self, records: Sequence[Record], *, overwrite: str | None = None) -> None:
        """Run a whole batch."""
        self.commit(self.stage(records, overwrite=overwrite))

    def compact(
        self, *, full: bool = False, shrink: bool = False, partitions: Iterable[int] | None = None
    ) -> CompactionReport:
        """Compact; partitions not in `partitions` are unchanged."""
        wanted = None if partitions is None else set(partitions)
        chosen = (
            None
            if wanted is None
            else {with_arity(encode_row([p], self.table.schema.partition_types), 1) for p in wanted}
        )
        report = run_compaction(self.table.metadata, LocalRunner(1), full=full, shrink=shrink, partitions=chosen)
        if self.engine.hides_level_0:
            kept = {k: v for k, v in self.visible.items() if wanted is not None and k[0] not in wanted}
            self.visible = kept | {k: v for k, v in self.rows.items() if wanted is None or k[0] in wanted}
        self._remember(report.snapshot_ids)
        return report

    def expire(self, retain: int) -> None:
        """Keep the newest snapshots only."""
        retention = Retention(num_min=1, num_max=retain, time_ms=0, limit=1000)
        expire_table(self.table.metadata, self.table.schema, now_ms=int(time.time() * 1000) + 1000, retention=retention)
        live = self.live_snapshots()
        assert len(live) <= max(retain, 1)
        self.at = {i: s for i, s in self.at.items() if i in live}

    def tag(self, name: str) -> None:
        """Name the newest snapshot."""
        create_tag(self.table.metadata, name)
        latest = max(self.live_snapshots())
        self.tags[name] = latest
        self.tag_states[name] = (self.at[latest], self.rows_at[latest])

    def drop_tag(self, name: str) -> None:
        """Delete a tag."""
        delete_tag(self.table.metadata, self.table.schema, name)
        del self.tags[name], self.tag_states[name]

    def roll_back(self, *, snapshot_id: int | None = None, tag: str | None = None) -> None:
        """Roll back; nothing may be staged."""
        assert not self.staged
        if tag is not None:
            target, (self.visible, self.rows) = self.tags[tag], self.tag_states[tag]
        else:
            assert snapshot_id is not None
            target, self.visible, self.rows = snapshot_id, self.at[snapshot_id], self.rows_at[snapshot_id]
        self.visible, self.rows = dict(self.visible), dict(self.rows)
        roll_back(self.table.metadata, self.table.schema, snapshot_id=snapshot_id, tag=tag)
        self.at = {i: s for i, s in self.at.items() if i <= target} | {target: dict(self.visible)}
        self.rows_at = {i: s for i, s in self.rows_at.items() if i <= target} | {target: dict(self.rows)}
        gone = [n for n, i in self.tags.items() if i > target]
        for name in gone:
            del self.tags[name], self.tag_states[name]
        self.reopen()

    def clean(self) -> None:
        """Remove orphans of any age."""
        later = int(time.time() * 1000) + 60_000
        clean_orphans(self.table.metadata, now_ms=later, older_than_ms=0, dry_run=False)

    def live_snapshots(self) -> list[int]:
        """Return the ids of existing snapshots."""
        return list(self.table.metadata.snapshot_ids())

    def content(self, **state: Any) -> State:
        """Scan into a dictionary."""
        found = self.table.scan(**state).to_arrow().to_pylist()
        out: State = {(r["p"], r["k"]): (r["text"], r["n"], r["m"], r["s"]) for r in found}
        assert len(out) == len(found), "a key came twice"
        return out

    def check_newest(self) -> None:
        """Assert that the newest state is the model's."""
        assert self.content() == self.visible

    def check_all(self) -> None:
        """Check that every readable state is the model's, and that the hash index is complete."""
        self.reopen()
        self.check_newest()
        assert set(self.live_snapshots()) == set(self.at)
        for snapshot_id, state in self.at.items():
            assert self.content(snapshot=snapshot_id) == state, f"snapshot {snapshot_id}"
        for name, (state, _) in self.tag_states.items():
            assert self.content(tag=name) == state, f"tag {name}"
        self.check_index()

    def check_index(self) -> None:
        """Check that every live key's hash is in the index of its partition, and no hash in two buckets of one."""
        hashes = self.index_hashes()
        if self.table.schema.bucket == -1:
            for (p, _), h in zip(self.rows, key_hashes(self.table, self.rows), strict=True):
                assert h in hashes[p]

    def index_hashes(self) -> dict[int, set[int]]:
        """Return the hashes by partition."""
        out: dict[int, set[int]] = {}
        m = self.table.metadata
        view = load_view(m, m.latest_snapshot())
        for partition, buckets in view.hash_index().items():
            values = decode_partition_dict(partition, self.table.schema)
            mine = out.setdefault(values["p"], set())
            for entry in buckets.values():
                found = read_hash_index(m, self.table.schema, entry).tolist()
                assert len(found) == len(set(found))
                assert not mine & set(found), "a hash in two buckets"
                mine |= set(found)
        return out

    def _remember(self, snapshot_ids: Iterable[int]) -> None:
        for i in snapshot_ids:
            self.at[i], self.rows_at[i] = dict(self.visible), dict(self.rows)


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
