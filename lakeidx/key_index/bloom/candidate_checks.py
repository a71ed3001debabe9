"""Sharing out the work of checking candidate pairs: Hudi's bucketized checking.

1.  A file with c comparisons gets ceil(c / keys per bucket) buckets; T = all buckets, P = min(parallelism, T) tasks.
2.  At least floor(T / P) buckets make a task full. First every file's buckets but one (at least one) fill task 0, 1,
    ... in turn, moving on from a full one; then the rest go round robin. A task may get several buckets of a file.
3.  A pair goes to the file's task number floorMod(low 32 bits of the key's MD5 hash, number of its buckets).

So a hot file is checked by several tasks and each key of it always by the same one.

source   org.apache.hudi.index.bloom.BucketizedBloomCheckPartitioner, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import numpy.typing as npt

from lakeidx.codec.hudi.hashes import md5_routing_hash_many
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.keys.ranges import Candidates

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CheckTask:
    """One file's share of a task.

    file   number of the file
    keys   int64[c] positions of the candidate keys to test, in key order within the slot order
    """

    file: int
    keys: Ints


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """tasks_of_file[f]: numbers of the tasks that check file f, one entry per bucket (repeats possible)."""

    tasks: int
    tasks_of_file: tuple[tuple[int, ...], ...]


def plan_checks(comparisons: Sequence[int], *, keys_per_bucket: int, parallelism: int) -> CheckPlan:
    """Plan the tasks of every file with comparisons.

    comparisons      candidate pairs per file; files with none get no task
    keys_per_bucket  > 0
    parallelism      wanted tasks, > 0
    """
    if keys_per_bucket < 1 or parallelism < 1:
        raise InvalidInputError("keys per bucket and parallelism must be at least 1")
    buckets = [-(-c // keys_per_bucket) for c in comparisons]
    total = sum(buckets)
    if not total:
        return CheckPlan(0, tuple(() for _ in buckets))
    tasks = min(parallelism, total)
    full = max(total // tasks, 1)
    held = [0] * tasks
    given: list[list[int]] = [[] for _ in buckets]
    at = 0
    for file, count in enumerate(buckets):
        for _ in range(max(1, count - 1) if count else 0):
            given[file].append(at)
            held[at] += 1
            if held[at] >= full:
                at = (at + 1) % tasks
    turn = cycle(range(tasks))
    for file, count in enumerate(buckets):
        for _ in range(count - len(given[file])):
            given[file].append(next(turn))
    return CheckPlan(tasks, tuple(tuple(g) for g in given))


def share_out(candidates: Candidates, plan: CheckPlan, record_keys: RowBytes) -> list[list[CheckTask]]:
    """Split the pairs among tasks, files in order.

    record_keys  of all keys, by position; only files with several buckets look at them
    """
    out: list[list[CheckTask]] = [[] for _ in range(plan.tasks)]
    for file, tasks in enumerate(plan.tasks_of_file):
        if not tasks:
            continue
        keys = candidates.keys_of(file)
        if len(set(tasks)) == 1:
            out[tasks[0]].append(CheckTask(file, keys))
            continue
        low = md5_routing_hash_many(record_keys, keys).astype(np.int32)
        # floorMod is NumPy's %.
        task = np.array(tasks, np.int64)[low.astype(np.int64) % len(tasks)]
        for number in sorted(set(tasks)):
            part = keys[task == number]
            if len(part):
                out[number].append(CheckTask(file, part))
    return [tasks for tasks in out if tasks]
