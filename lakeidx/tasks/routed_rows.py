"""Rows on their way to targets: grouped targets, one block of rows per (item, group).

A target is a bucket or an assigner. Where a batch touches many small targets, one block per target would cost more than its
rows: 100,000 rows to 10,000 targets are 10,000 blocks of ten rows. So targets of one reduce task form groups of up to
`_GROUP_WEIGHT` rows, and a block holds all rows of one item for one group, target by target. A target that is heavier is a group
of its own, whose blocks a reduce task reads one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.bucket_assignment.routing import stable_order

#: Rows of one group of targets: what a reduce task holds of targets that are not alone in their group.
_GROUP_WEIGHT = 500_000

#: Rows of a batch that a task holds which has its share of the keys.
_SHARE_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows of one item and the target of each.

    order     position of these rows in the batch; a target gets its blocks in ascending order
    rows      n rows
    targets   int32[n]: number of the target, 0 .. targets-1
    """

    order: int
    rows: pa.Table
    targets: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one item that have reached their target.

    target   number of the target
    order    of the item
    rows     the rows, in the item's order
    """

    target: int
    order: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """Rows of one item for the targets of one group.

    group     number of the group
    order     of the item
    rows      rows of a target together, in the item's order
    targets   int32[k]: the targets, ascending
    lengths   int64[k]: rows of each
    """

    group: int
    order: int
    rows: pa.Table
    targets: NDArray[np.int32]
    lengths: NDArray[np.int64]

    def blocks(self) -> Iterator[Block]:
        """Yield one block per target; slices that share memory."""
        start = 0
        for target, length in zip(self.targets.tolist(), self.lengths.tolist(), strict=True):
            yield Block(target, self.order, self.rows.slice(start, length))
            start += length


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """Targets in groups, groups in tasks.

    group_of   int32[targets]: group of each target; within a group targets ascend
    task_of    int32[groups]: task of each group
    sizes      int32[groups]: targets in each group
    """

    group_of: NDArray[np.int32]
    task_of: NDArray[np.int32]
    sizes: NDArray[np.int32]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.task_of.max()) + 1


def group_targets(weights: Sequence[int], tasks: int, *, most: int = _GROUP_WEIGHT) -> TargetGroups:
    """Pack targets into tasks, and the targets of a task into groups of at most `most` rows.

    weights   rows of each target; at least one target
    """
    packed = pack_targets(weights, tasks)
    group_of, task_of, sizes = [0] * len(weights), list[int](), list[int]()
    held, last = 0, -1
    for target in sorted(range(len(weights)), key=packed.__getitem__):
        held += weights[target]
        if packed[target] != last or held > most:
            task_of.append(packed[target])
            sizes.append(0)
            held, last = weights[target], packed[target]
        group_of[target] = len(task_of) - 1
        sizes[-1] += 1
    return TargetGroups(np.array(group_of, np.int32), np.array(task_of, np.int32), np.array(sizes, np.int32))


def count_shares(rows: int, parallelism: int) -> int:
    """Return how many tasks share the keys of a batch, by the rows of each: one for each that runs at a time at least."""
    return max(parallelism, rows // _SHARE_ROWS)


def pack_targets(weights: Sequence[int], tasks: int) -> list[int]:
    """Assign every target to a task, balancing their weights: largest first, each to the lightest task.

    returns  one task number per target, 0 .. min(tasks, targets)-1
    """
    loads = [(0, task) for task in range(max(1, min(tasks, len(weights))))]
    heapify(loads)
    out = [0] * len(weights)
    for target in sorted(range(len(weights)), key=lambda t: -weights[t]):
        load, task = loads[0]
        out[target] = task
        heapreplace(loads, (load + weights[target] + 1, task))
    return out


def cut_rows(routed: RoutedRows, groups: TargetGroups) -> Iterator[GroupBlock]:
    """Cut rows into one block per group, rows of a target together and in their order.

    Rows that already stand target by target, one target to a group, are sliced; mixed rows are gathered once.
    """
    n = routed.rows.num_rows
    if n == 0:
        return
    if len(groups.group_of) == 1:
        # There is nothing to cut.
        yield GroupBlock(0, routed.order, routed.rows, _one(0), np.array([n]))
        return
    targets = routed.targets
    starts = _run_starts(targets)
    found = targets[starts]
    alone = bool((groups.sizes[groups.group_of[found]] == 1).all())
    if alone and len(np.unique(found)) == len(starts):
        lengths = np.diff(starts, append=n)
        for target, start, length in zip(found.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            rows = routed.rows.slice(start, length)
            yield GroupBlock(int(groups.group_of[target]), routed.order, rows, _one(target), np.array([length]))
        return
    rank = _ranks(groups)
    keys = rank[targets]
    permutation = stable_order(keys, len(rank))
    from lakeidx.codec.gather import gather_rows

    ordered = targets[permutation]
    rows = routed.rows.combine_chunks()
    starts = _run_starts(ordered)
    lengths = np.diff(starts, append=n)
    found = ordered[starts]
    of_group = groups.group_of[found]
    firsts = _run_starts(of_group)
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(found)], strict=True):
        start, end = int(starts[first]), int(starts[last - 1] + lengths[last - 1])
        # Mostly long stretches of a target with few strays among them: stretches are copied, only mixed rows gathered.
        cut = gather_rows([rows], permutation[start:end]).combine_chunks()
        yield GroupBlock(int(of_group[first]), routed.order, cut, found[first:last], lengths[first:last])


def blocks_by_target(blocks: Iterable[GroupBlock], targets: Sequence[int]) -> Iterator[tuple[int, Iterator[Block]]]:
    """Return all blocks of one group, target by target; within a target as they came.

    targets   of the group; one that no rows went to has no blocks. Blocks of one that is alone are taken one after another.
    """
    if len(targets) == 1:
        return iter([(targets[0], (b for block in blocks for b in block.blocks()))])
    return _gathered(blocks, targets)


def _gathered(blocks: Iterable[GroupBlock], targets: Sequence[int]) -> Iterator[tuple[int, Iterator[Block]]]:
    received: dict[int, list[Block]] = {target: [] for target in targets}
    for group_block in blocks:
        for block in group_block.blocks():
            received[block.target].append(block)
    for target in list(received):
        yield target, iter(received.pop(target))


def _run_starts(values: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1))


def _ranks(groups: TargetGroups) -> NDArray[np.int32]:
    """Return int32[targets]: position of each target in the order (group, target)."""
    out = np.empty(len(groups.group_of), np.int32)
    out[np.argsort(groups.group_of, kind="stable")] = np.arange(len(out), dtype=np.int32)
    return out


def _one(target: int) -> NDArray[np.int32]:
    return np.array([target], np.int32)
