"""Figures of what a batch would do to its table, as limits measure it.

The counts of a bucket assignment come first: they are never too low. Only where they are beyond a limit the batch's keys are
looked up in the table, once: a key counts once, by its last row, and a delete of a key that is not there deletes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.parts import read_part
from lakeidx.batch.schema_drift import staged_schema
from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.options.limits import BatchLimits, Limit
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import load_newest
from lakeidx.table.scan.table_scan import scan_committed
from lakeidx.table.view import HASH_INDEX, SnapshotView

#: Batches that ``x`` compares with, and snapshots among which they are looked for.
_RECENT = 10
_MOST_STEPS = 40
#: Rows of a batch whose keys are looked up; of a larger one the counts of the assignment stand.
_MOST_KEYS = 20_000_000
_LOOKUP_ROWS = 1 << 20
_WORDS = {
    "deletes": "deletes",
    "updates": "updates",
    "inserts": "inserts",
    "rejected": "rejected rows",
    "new_partitions": "new partitions",
}


@dataclass
class BatchFigures:
    """Figures of one attempt of a batch."""

    context: BatchContext
    ingest: IngestReport
    assign: BucketAssignmentReport

    def beyond(self, limits: BatchLimits) -> tuple[list[str], dict[str, int]]:
        """Return what is beyond which limit, in words, and the counts; nothing when the batch is within all of them."""
        counts = self._at_most
        found = limits.exceeded(counts, self._base_at_most)
        if found:
            counts = {**counts, **self._exact}
            found = limits.exceeded(counts, self._base)
        return [self._say(limit, counts[limit.kind], base) for limit, base in found], counts

    def _say(self, limit: Limit, count: int, base: float) -> str:
        name = f"limit {limit.kind} {limit.text}"
        if not limit.unit:
            return f"{count:,} {_WORDS[limit.kind]} are beyond the {name}"
        if limit.unit == "x":
            return f"{count:,} {_WORDS[limit.kind]} where recent batches have {base:,.1f} are beyond the {name}"
        of = f"batch's {int(base):,}" if limit.kind == "rejected" else f"table's {int(base):,}"
        return f"{count:,} {_WORDS[limit.kind]} are {count / base:.1%} of the {of} rows, beyond the {name}"

    @cached_property
    def _view(self) -> SnapshotView:
        return load_newest(self.context.metadata)

    @cached_property
    def _at_most(self) -> dict[str, int]:
        assign, before = self.assign, self._view.entries.partition_counts()
        counts = {
            "inserts": assign.inserts + assign.upserts,
            "updates": assign.updates + assign.upserts,
            "deletes": assign.deletes,
        }
        if self.context.overwrite is not None:
            counts = self._replaced
        new = {t.partition for t in assign.targets} - {p.hex() for p in before}
        return {**counts, "rejected": self.ingest.rows_rejected, "new_partitions": len(new) if before else 0}

    @property
    def _replaced(self) -> dict[str, int]:
        """What an overwrite does: a partition that has fewer rows than before has lost them, one that has more got them."""
        after: dict[str, int] = defaultdict(int)
        for target in self.assign.targets:
            after[target.partition] += target.rows
        rows = {p.hex(): n for p, (_, n) in self._rows_of_partitions.items()}
        if self.context.overwrite == "partitions" and self.context.replaces is None:
            rows = {p: n for p, n in rows.items() if p in after}
        elif self.context.replaces is not None:
            from lakeidx.table.scan.plan import partition_matcher

            wanted = partition_matcher(self.context.replaces, self._view.schema)
            rows = {p: n for p, n in rows.items() if p in after or wanted(bytes.fromhex(p))}
        return _compared(rows, after)

    @cached_property
    def _rows_of_partitions(self) -> dict[bytes, tuple[int, int]]:
        return self._view.row_bounds()

    @cached_property
    def _recent(self) -> list[dict[str, int]]:
        """Counts of the batches that were committed last, the newest first, as their snapshots tell them, whoever wrote them."""
        metadata, found = self.context.metadata, list[dict[str, int]]()
        snapshot, steps = self._view.snapshot, _MOST_STEPS
        while snapshot is not None and steps and len(found) < _RECENT:
            before = None
            if snapshot.id > 1:
                with suppress(NotFoundError):
                    before = metadata.earlier_snapshot(snapshot.id - 1)
            counts = self._committed(snapshot, before)
            found += [counts] if counts else []
            snapshot, steps = before, steps - 1
        return found

    def _committed(self, snapshot: Snapshot, before: Snapshot | None) -> dict[str, int] | None:
        """Return what a commit did, by its files and hash indexes; None when it is of no batch, or has expired."""
        if snapshot.commit_kind not in (CommitKind.APPEND, CommitKind.OVERWRITE):
            return None
        metadata = self.context.metadata
        try:
            metas = metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
            entries = metadata.load_manifests(metas)
            new = [0 if s is None else self._hashes(s) for s in (before, snapshot)]
        except NotFoundError:
            return None
        added, of = entries.rows["kind"] == FileKind.ADD, entries.rows["partition"]
        if not added.any():
            return None
        gone = np.where(added, np.maximum(entries.rows["delete_row_count"], 0), 0)
        rows = entries.rows["row_count"] - gone
        counts = _compared(*(
            dict(zip(entries.known, np.bincount(of[n], rows[n], len(entries.known)), strict=True)) for n in (~added, added)
        ))  # fmt: skip
        if snapshot.commit_kind is CommitKind.APPEND:
            # An index that keeps all hashes knows the new ones among them; without one a row may be either.
            puts = counts["inserts"]
            fresh = min(puts, max(0, new[1] - new[0])) if new[1] else puts
            counts |= {"inserts": fresh, "updates": puts - fresh if new[1] else puts}
        return {**counts, "deletes": counts["deletes"] + int(gone.sum())}

    def _hashes(self, snapshot: Snapshot) -> int:
        index = self.context.metadata.load_index_manifest(snapshot.index_manifest)
        return sum(e.row_count for e in index if e.index_type == HASH_INDEX)

    def _mean(self, kind: str) -> float | None:
        recent = self._recent
        return sum(r[kind] for r in recent) / len(recent) if recent else None

    def _base_at_most(self, limit: Limit) -> float | None:
        """Return what a limit is measured by, never too much: who is within it by that is within it."""
        if limit.unit == "%" and limit.kind != "rejected":
            return sum(low for low, _ in self._rows_of_partitions.values()) if self._rows_of_partitions else None
        return self._base(limit)

    def _base(self, limit: Limit) -> float | None:
        if limit.unit == "x":
            return self._mean(limit.kind)
        if not limit.unit:
            return 0
        if limit.kind == "rejected":
            return self.ingest.rows_in or None
        return self._table_rows or None

    @cached_property
    def _table_rows(self) -> int:
        """Rows of the table, counted where manifests do not tell."""
        low, high = (
            (sum(n) for n in zip(*self._rows_of_partitions.values(), strict=True))
            if self._rows_of_partitions
            else (0, 0)
        )
        if low == high:
            return low
        table = TableHandle(self.context.store, self.context.paths, self.context.metadata)
        scan = scan_committed(table, columns=self._view.schema.primary_keys)
        return int(sum(rows.num_rows for rows in scan.batches()))

    @cached_property
    def _exact(self) -> Mapping[str, int]:
        """Inserts, updates and deletes by the keys of the batch and the table; nothing where they are not looked up."""
        schema = staged_schema(self.context.metadata, self.context.files)
        keys = list(schema.primary_keys)
        partitioned_by_key = set(schema.partition_keys) <= set(keys)
        if not keys or not partitioned_by_key or self.context.overwrite or self.ingest.rows_staged > _MOST_KEYS:
            return {}
        if self._view.snapshot is None:
            return {"updates": 0, "deletes": 0}
        from lakeidx.lookup.point.table_lookup import TableLookup

        lookup, last = TableLookup(self.context.metadata, unseen=True), self._last_rows(keys)
        out = {"inserts": 0, "updates": 0, "deletes": 0}
        for start in range(0, last.num_rows, _LOOKUP_ROWS):
            rows = last.slice(start, _LOOKUP_ROWS)
            found = lookup.lookup(rows.select(keys)).found
            gone = rows.column(_GONE).to_numpy(zero_copy_only=False)
            out["inserts"] += int(np.count_nonzero(~found & ~gone))
            out["updates"] += int(np.count_nonzero(found & ~gone))
            out["deletes"] += int(np.count_nonzero(found & gone))
        return out

    def _last_rows(self, keys: list[str]) -> pa.Table:
        """Return each key of the batch once, with whether its last row deletes it."""
        schema = staged_schema(self.context.metadata, self.context.files)
        pieces = []
        for part in self.ingest.parts:
            rows = read_part(self.context.files.store, self.ingest.source_of(part), part, schema, keys)
            gone = (
                is_retract(rows.column(VALUE_KIND).to_numpy())
                if VALUE_KIND in rows.column_names
                else np.zeros(rows.num_rows, bool)
            )
            pieces.append(rows.select(keys).append_column(_GONE, pa.array(gone)))
        if not pieces:
            raise InvalidInputError(f"the rows of batch {self.ingest.batch_id!r} are not staged any more")
        whole = pa.concat_tables(pieces, promote_options="permissive")
        return whole.group_by(keys, use_threads=False).aggregate([(_GONE, "last")]).rename_columns([*keys, _GONE])


def _compared(before: Mapping[Any, float], after: Mapping[Any, float]) -> dict[str, int]:
    """Return what replacing rows does, by their numbers in each partition."""
    places = [(before.get(p, 0), after.get(p, 0)) for p in before.keys() | after.keys()]
    return {
        "inserts": int(sum(max(0, a - b) for b, a in places)),
        "updates": int(sum(min(a, b) for b, a in places)),
        "deletes": int(sum(max(0, b - a) for b, a in places)),
    }


_GONE = "lakeidx.gone"
