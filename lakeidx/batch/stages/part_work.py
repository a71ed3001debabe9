"""What a task of the stage `index_write` is given of a staged part: the part, where its rows go, and how both are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate, count, pairwise
from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport, SourceFile, StagedPart, Target
from lakeidx.batch.parts import STAGED_GROUP_ROWS, read_part, text_columns
from lakeidx.batch.target_files import (
    PlacedRows,
    read_part_targets,
    read_share,
    read_shares,
    stray_rows,
    tasks_of_part,
)
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.routed_rows import Block, RoutedRows
from lakeidx.tasks.runner import Runner

#: Rows that the tasks of targets may read for one row of the batch: reading more costs as much as sending rows does.
_MOST_READ = 2.5


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of one share of a part that stand together and go to one target, but for strays.

    order    of the stretch in the batch
    share    which of the tasks that placed rows of the part; 0 where one process did
    rows     numbers of the rows in the share
    """

    order: int
    target: int
    share: int
    rows: range


@dataclass(frozen=True, slots=True)
class PartWork:
    """One staged part.

    source         the landing file it is taken from by reference
    targets_path   the targets of its rows
    tasks          that placed its rows; None: one process did
    stretches      of its shares, all rows, where the tasks of their targets read them; (): they are sent
    """

    number: int
    part: StagedPart
    source: SourceFile | None
    targets_path: str
    tasks: tuple[int, ...] | None
    stretches: tuple[Stretch, ...] = ()

    def sent_rows(self, store: ObjectStore, schema: TableSchema) -> Iterator[RoutedRows]:
        """Read what has to be sent: all rows, or the strays of each stretch."""
        if not self.stretches:
            targets = read_part_targets(store, self.targets_path, self.tasks, self.part.rows)
            yield RoutedRows(self.number, self._read(store, schema, None), targets)
            return
        shares = read_shares(store, self.targets_path, self.tasks, self.part.rows)
        strays = [(s.order, *_strays(shares[s.share], s)) for s in self.stretches]
        strays = [(order, at, targets) for order, at, targets in strays if len(at)]
        if strays:
            span = range(min(int(at[0]) for _, at, _ in strays), max(int(at[-1]) for _, at, _ in strays) + 1)
            rows = self._read(store, schema, span)
            for order, at, targets in strays:
                # Copied: they are few, and the rows around them are not kept for their sake.
                yield RoutedRows(order, rows.take(pa.array(at - span.start)), targets)

    def read_stretch(self, store: ObjectStore, schema: TableSchema, stretch: Stretch) -> pa.Table:
        """Read the rows of a stretch that go to its target."""
        if self.tasks is None:
            (share,) = read_shares(store, self.targets_path, None, self.part.rows)
        else:
            share = read_share(store, self.targets_path, self.tasks[stretch.share], self.part.rows)
        first, last = stretch.rows.start, stretch.rows.stop
        at = share.positions(first + np.flatnonzero(share.targets[first:last] == stretch.target))
        span = range(int(at[0]), int(at[-1]) + 1)
        rows = self._read(store, schema, span)
        if len(span) == len(at):
            return rows
        own = np.zeros(len(span), np.bool_)
        own[at - span.start] = True
        return rows.filter(pa.array(own))

    def _read(self, store: ObjectStore, schema: TableSchema, span: range | None) -> pa.Table:
        """Read rows, texts that repeat much as dictionaries where the merge engine allows it; see `read_part`."""
        columns = _dictionary_columns(schema)
        return read_part(store, self.source, self.part, schema, schema.field_names, dictionaries=columns, span=span)


def _strays(share: PlacedRows, stretch: Stretch) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return which rows of the part that lie in a stretch go to another target, and to which."""
    first = stretch.rows.start
    found = first + stray_rows(share.targets[first : stretch.rows.stop], stretch.target)
    return share.positions(found), share.targets[found]


@dataclass(frozen=True, slots=True)
class TargetWork:
    """What the task of a target writes: rows that are sent to it, and those that it reads from the parts.

    stretches   of the parts, in the order of the batch
    """

    number: int
    target: Target
    stretches: tuple[tuple[PartWork, Stretch], ...] = ()

    def blocks(self, store: ObjectStore, schema: TableSchema, sent: Iterator[Block]) -> Iterator[Block]:
        """Return all blocks of the target in the order of the batch, read one after another."""
        if not self.stretches:
            return sent
        read = (Block(self.number, s.order, part.read_stretch(store, schema, s)) for part, s in self.stretches)
        return merge(read, sent, key=attrgetter("order"))


def plan_work(
    ingest: IngestReport, assign: BucketAssignmentReport, runner: Runner
) -> tuple[list[PartWork], list[TargetWork]]:
    """Plan what is done with each part and each target of a batch.

    Where the rows of a target stand together, its task reads them from the parts, and only strays are sent. A row group in which
    one stretch ends and the next begins is read for both, and one that two tasks placed, for the targets of both: where that is
    so for too many rows, or fewer tasks would read than could, all rows are sent; and where that costs nothing.
    """
    stretches = _number_stretches(assign) if _reads_pay(ingest, assign, runner) else [()] * len(ingest.parts)
    parts = [
        PartWork(n, part, ingest.source_of(part), path, tasks_of_part(assign.placing_tasks, n), found)
        for n, (part, path, found) in enumerate(zip(ingest.parts, assign.targets_paths, stretches, strict=True))
    ]
    of_target: list[list[tuple[PartWork, Stretch]]] = [[] for _ in assign.targets]
    for part in parts:
        for stretch in part.stretches:
            of_target[stretch.target].append((replace(part, stretches=()), stretch))
    return parts, [TargetWork(n, target, tuple(of_target[n])) for n, target in enumerate(assign.targets)]


def _number_stretches(assign: BucketAssignmentReport) -> list[tuple[Stretch, ...]]:
    order, out = count(), []
    for shares in assign.stretches:
        of_part: list[Stretch] = []
        for share, found in enumerate(shares):
            ends = pairwise(accumulate((rows for _, rows in found), initial=0))
            of_part += [Stretch(next(order), t, share, range(a, b)) for (t, _), (a, b) in zip(found, ends, strict=True)]
        out.append(tuple(of_part))
    return out


def _reads_pay(ingest: IngestReport, assign: BucketAssignmentReport, runner: Runner) -> bool:
    parts = ingest.parts
    if not assign.stretches or runner.in_memory or len(assign.targets) < min(runner.parallelism, len(parts)):
        return False
    read = sum(_rows_read(part, len(found)) for part, of in zip(parts, assign.stretches, strict=True) for found in of)
    return read <= _MOST_READ * ingest.rows_staged


def _rows_read(part: StagedPart, stretches: int) -> float:
    """Return about how many rows tasks read of a part for the stretches of a share: a row group more for each border."""
    if part.row_groups is not None:
        groups = len(part.row_groups)
    else:
        # The number of row groups of a whole landing file is not known here.
        groups = 1 if part.by_reference else -(-part.rows // STAGED_GROUP_ROWS)
    return part.rows * (groups + stretches - 1) / max(groups, 1)


def _dictionary_columns(schema: TableSchema) -> frozenset[str]:
    """Return the columns that may be sent as dictionaries: if the merge engine only picks rows and does not read these values."""
    options = schema.table_options
    if options.merge_engine != "deduplicate" or options.sequence_field:
        return frozenset()
    return text_columns(schema)
