"""The plan of a batch: the batch itself, run in a copy of the table that is in memory, and what it changed there. What a batch did
that has been run is told in the same form.

All that a run writes stays in memory (`lakeidx.storage.overlay`), so a plan says what the run would do, file by file, for every
merge engine, bucket mode and index type, and there is nothing to delete when it fails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BatchFiles, CommitReport
from lakeidx.batch.committed_batch import BatchResult, batch_commits, read_reports
from lakeidx.batch.context import BatchContext
from lakeidx.data.json_values import json_rows
from lakeidx.errors import BatchHeldError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.results import Listing
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.handle import TableHandle
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.layout import ROW_KIND
from lakeidx.table.scan.plan import skips_level_0
from lakeidx.tasks.limits import peak_bytes
from lakeidx.tasks.logs import logged

#: Rows of the sample, of each kind of change.
_SAMPLE = 3
_WORDS = {"+I": "inserts", "+U": "updates", "-D": "deletes"}


@dataclass(frozen=True, slots=True, repr=False)
class BatchPlan(BatchResult):
    """Plan of a batch: the result it would have, and what readers would see of it; of a finished one, what it has, and they see.

    changes      inserts, updates, deletes and moves (keys that change their partition) that readers would see: a row that stays
                 as it is is none; None for a table without a primary key, where the rows are counted as they come
    partitions   the same by partition, for a partitioned table: a move leaves one, and comes into another
    sample       some rows of each kind of change: ``before`` and ``after``; a move is a delete and an insert
    beyond       limits that would hold it before its commit, in words
    memory       bytes that this process had at most until it was done; None for a finished batch of another process
    dry_run      nothing was written
    """

    changes: Mapping[str, int] | None = None
    partitions: tuple[Mapping[str, Any], ...] = ()
    sample: tuple[Mapping[str, Any], ...] = ()
    beyond: tuple[str, ...] = ()
    memory: int | None = None
    dry_run: bool = True

    @property
    def inserts(self) -> int:
        """Rows that would be new."""
        return self.assign.inserts if self.changes is None else self.changes["inserts"]

    @property
    def updates(self) -> int:
        """Rows that would have other values."""
        return self.assign.updates if self.changes is None else self.changes["updates"]

    @property
    def upserts(self) -> int:
        """Rows of which nobody knows whether they would be new: none, but in a table without a primary key."""
        return self.assign.upserts if self.changes is None else 0

    @property
    def deletes(self) -> int:
        """Rows that would be gone."""
        return self.assign.deletes if self.changes is None else self.changes["deletes"]

    @property
    def moved(self) -> int:
        """Rows that would be in another partition."""
        return self.assign.moved if self.changes is None else self.changes["moved"]

    @property
    def seconds(self) -> float:
        """How long the stages took: of a dry run in memory, about what the run takes, but for the store it writes to."""
        return self.ingest.seconds + self.assign.seconds + self.write.seconds + self.commit.seconds

    def note(self) -> str:
        """Return that nothing was written, and what would keep the batch from its commit."""
        if self.already or not self.dry_run:
            # By its own name: a class with slots is made anew by its decorator, and `super()` has the old one.
            return BatchResult.note(self)
        held = f"; it would be held: {'; '.join(self.beyond)}" if self.beyond else ""
        return f"a dry run: nothing was written{held}"

    def as_dict(self) -> dict[str, object]:
        """Return the metrics of the result, those of the files, and the changes, for scripts."""
        return {
            "dryRun": self.dry_run,
            **{k: v for k, v in BatchResult.as_dict(self).items() if k not in ("snapshots", "replans")},
            **({} if self.dry_run else {"snapshots": list(self.snapshots)}),
            **{name: getattr(self, name) for name in ("inserts", "updates", "upserts", "deletes", "moved")},
            "dataBytes": self.write.data_bytes,
            "indexFiles": self.write.index_files,
            "indexBytes": self.write.index_bytes,
            "seconds": round(self.seconds, 6),
            "memoryBytes": self.memory,
            "beyond": list(self.beyond),
            "partitions": [dict(p) for p in self.partitions],
            "sample": [dict(s) for s in self.sample],
        }

    def _shown(self) -> dict[str, Any]:
        hidden = ("dryRun", "batch", "beyond", "partitions", "sample")
        return {k: v for k, v in BatchResult._shown(self).items() if k not in hidden}

    def __str__(self) -> str:
        tables = [repr(Listing(rows)) for rows in (self.partitions, self.sample) if rows]
        return "\n\n".join([BatchResult.__str__(self), *tables])

    def _repr_html_(self) -> str:
        tables = (Listing(rows)._repr_html_() for rows in (self.partitions, self.sample) if rows)
        return BatchResult._repr_html_(self) + "".join(tables)


class _Trial(Table):
    """A table in memory. What its options require after a commit is left out: it changes no row, and the plan is the batch's."""

    def _finished(self, result: BatchResult, context: BatchContext) -> BatchResult:
        return result


def plan_of(verb: Callable[..., BatchResult | None], holder: Any, *args: Any, **given: Any) -> BatchPlan | None:
    """Run a verb of a table, or of a merge into it, in a copy of the table in memory; again when its state expired meanwhile.

    runner    is not used: tasks run in this process
    returns   None where the verb would write nothing
    errors    those of the verb
    memory    the files that the batch writes
    """
    table = holder if isinstance(holder, TableHandle) else holder.table

    def plan() -> BatchPlan | None:
        trial = _Trial(OverlayStore(table.store), table.paths)
        run = partial(verb, trial if holder is table else replace(holder, table=trial))
        with logged(dry_run=True):
            return _planned(trial, lambda: run(*args, **{**given, "runner": None}))

    return on_newest(table.metadata, lambda _: plan())


def _planned(trial: _Trial, run: Callable[[], BatchResult | None]) -> BatchPlan | None:
    hidden, beyond = skips_level_0(trial.schema), tuple[str, ...]()
    if hidden:
        # So that what other batches have left for a compaction counts as there.
        trial.compact()
    try:
        result = run()
    except BatchHeldError as error:
        beyond = tuple(error.reasons)
        result = trial.release_batch(error.batch_id)
    if result is None:
        return None
    memory = peak_bytes()
    if hidden and result.snapshots and not result.already:
        trial.compact()
    return replace(_with_changes(trial, result), beyond=beyond, memory=memory)


def explain_batch(table: Table, batch: BatchResult | str) -> BatchPlan:
    """Return what a finished batch did, in the form of its plan.

    batch    its result, or the id of one whose reports are still staged
    errors   NotFoundError for a batch that is not there or not finished, and when a snapshot it is compared with has expired
    """
    if isinstance(batch, str):
        files = BatchFiles(table.store, table.paths, batch)
        if files.read(CommitReport) is None:
            raise NotFoundError(f"batch {batch!r} is not staged here as held or finished", path=table.uri)
        reports = read_reports(files)
        result, memory = BatchResult(reports.ingest, reports.assign, reports.write, reports.commit), None
    else:
        result, memory = batch, peak_bytes()
    return replace(_with_changes(table, result), memory=memory, dry_run=False)


def _with_changes(table: Table, result: BatchResult) -> BatchPlan:
    """Return the result of a batch with what readers see of it."""
    plan = BatchPlan(result.ingest, result.assign, result.write, result.commit)
    if not table.schema.primary_keys:
        return plan
    seen = _Changes(table.schema)
    commits = None if result.already else batch_commits(table.metadata, result.snapshots)
    if commits is not None:
        for rows in table.diff(*commits).batches():
            seen.add(rows)
    places = seen.by_partition()
    total = {name: sum(p[name] for p in places) for name in ("inserts", "updates", "deletes", "moved_in")}
    total["moved"] = total.pop("moved_in")
    partitions = places if table.schema.partition_keys else ()
    return replace(plan, changes=total, partitions=partitions, sample=tuple(seen.sample))


class _Changes:
    """Counts of changes by partition and kind, and a sample, made while they are read.

    memory   of a cross-partition table the keys of new and deleted rows, which may be moves
    """

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._counts: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        self._may_move: list[pa.Table] = []
        self.sample: list[dict[str, Any]] = []

    def add(self, rows: pa.Table) -> None:
        """Count some changes."""
        self._count(rows)
        kinds = rows.column(ROW_KIND)
        if self._schema.is_cross_partition:
            columns = [ROW_KIND, *dict.fromkeys((*self._schema.primary_keys, *self._schema.partition_keys))]
            self._may_move.append(rows.filter(pc.is_in(kinds, pa.array(["+I", "-D"]))).select(columns))
        plain = rows.drop_columns([ROW_KIND])
        of = {k: plain.filter(pc.equal(kinds, k)).slice(0, _SAMPLE) for k in ("+I", "-U", "+U", "-D")}
        self._show("insert", after=of["+I"])
        self._show("update", before=of["-U"], after=of["+U"])
        self._show("delete", before=of["-D"])

    def _count(self, rows: pa.Table) -> None:
        names = [*self._schema.partition_keys, ROW_KIND]
        for group in json_rows(rows.group_by(names, use_threads=False).aggregate([([], "count_all")])):
            word = _WORDS.get(group[ROW_KIND])
            if word is not None:
                self._counts[tuple(group[n] for n in self._schema.partition_keys)][word] += group["count_all"]

    def _show(self, change: str, **sides: pa.Table) -> None:
        left = _SAMPLE - sum(row["change"] == change for row in self.sample)
        for rows in zip(*(json_rows(t.slice(0, left)) for t in sides.values()), strict=True):
            self.sample.append({"change": change, "before": None, "after": None, **dict(zip(sides, rows, strict=True))})

    def _moves(self) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
        """Count by partition the keys that leave it, and those that come into it."""
        gone: Counter[tuple[Any, ...]] = Counter()
        come: Counter[tuple[Any, ...]] = Counter()
        if not self._may_move:
            return gone, come
        keys, parts = list(self._schema.primary_keys), self._schema.partition_keys
        rows = pa.concat_tables(self._may_move)
        sides = []
        for kind, prefix in (("-D", "from."), ("+I", "to.")):
            some = rows.filter(pc.equal(rows.column(ROW_KIND), kind)).select(
                [n for n in rows.column_names if n != ROW_KIND]
            )
            sides.append(some.rename_columns([n if n in keys else prefix + n for n in some.column_names]))
        for row in json_rows(sides[0].join(sides[1], keys, join_type="inner")):
            gone[tuple(row[p if p in keys else "from." + p] for p in parts)] += 1
            come[tuple(row[p if p in keys else "to." + p] for p in parts)] += 1
        return gone, come

    def by_partition(self) -> tuple[dict[str, Any], ...]:
        """Return the counts of each partition; a move is no insert and no delete."""
        gone, come = self._moves()
        names, out = self._schema.partition_keys, []
        for place in sorted(self._counts, key=str):
            counts = self._counts[place]
            out.append({
                "partition": ",".join(f"{n}={v}" for n, v in zip(names, place, strict=True)),
                "inserts": counts["inserts"] - come[place],
                "updates": counts["updates"],
                "deletes": counts["deletes"] - gone[place],
                "moved_in": come[place],
                "moved_out": gone[place],
            })  # fmt: skip
        return tuple(out)
