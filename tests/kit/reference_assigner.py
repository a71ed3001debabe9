"""The assigning rules one row at a time, with dictionaries: what `PartitionIndex` must equal.

Written for reading and for tests and benchmarks to compare with, not for speed. A picker is asked for one bucket at a
time.

source   the fact sheet's sections 6.3, 6.4 and 18, of org.apache.paimon.index.{PartitionIndex,SimpleHashBucketAssigner}
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakeidx.bucket_assignment.rules import AssignRules, BucketPicker, LimitScope, no_own_bucket, too_many_buckets


class ReferenceIndex:
    """Row-by-row twin of an index made with `PartitionIndex.with_buckets` or `load`.

    known   (hash, bucket) pairs
    counts  (bucket, rows) of the own buckets, in the order they are walked
    """

    def __init__(
        self,
        rules: AssignRules,
        pick: BucketPicker,
        known: Iterable[tuple[int, int]] = (),
        counts: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.rules = rules
        self.pick = pick
        self.bucket_of = dict(known)
        self.non_full = dict(counts)
        self.total = list(self.non_full)

    def assign(self, key_hash: int, *, task_max: int = 0) -> int:
        """Assign one key hash to a bucket."""
        if key_hash not in self.bucket_of:
            self.bucket_of[key_hash] = self._place(task_max)
        return self.bucket_of[key_hash]

    def _place(self, task_max: int) -> int:
        for bucket, rows in list(self.non_full.items()):
            if rows < self.rules.target_rows:
                self.non_full[bucket] = rows + 1
                return bucket
            del self.non_full[bucket]
        may_open = self.rules.limit_scope is LimitScope.PARTITION or task_max < self.rules.last_bucket
        if may_open or not self.total:
            for bucket in range(self.rules.last_bucket + 1):
                if self.rules.owns(bucket) and bucket not in self.total:
                    self.non_full[bucket] = 1
                    self.total.append(bucket)
                    return bucket
            if self.rules.max_buckets == -1:
                raise too_many_buckets(self.rules)
        if not self.total:
            raise no_own_bucket(self.rules)
        return int(self.pick(np.array(self.total, np.int32), 1)[0])


class ReferenceOverwrite:
    """Row-by-row twin of an index made with `PartitionIndex.for_overwrite`."""

    def __init__(self, rules: AssignRules, pick: BucketPicker) -> None:
        self.rules = rules
        self.pick = pick
        self.bucket_of: dict[int, int] = {}
        self.rows: dict[int, int] = {}
        self.current = -1

    def assign(self, key_hash: int, *, task_max: int = 0) -> int:
        """Assign one key hash to a bucket."""
        if key_hash not in self.bucket_of:
            bucket = self._place(task_max)
            self.rows[bucket] = self.rows.get(bucket, 0) + 1
            self.bucket_of[key_hash] = bucket
        return self.bucket_of[key_hash]

    def _place(self, task_max: int) -> int:
        rules, task_scope = self.rules, self.rules.limit_scope is LimitScope.TASK
        if self.current >= 0 and self.rows[self.current] < rules.target_rows:
            return self.current
        drawn = int(rules.max_buckets != -1 and task_scope and task_max >= rules.last_bucket)
        if not self.rows or not drawn:
            for bucket in range(rules.last_bucket + 1):
                if rules.owns(bucket) and bucket not in self.rows:
                    self.current = bucket
                    return bucket
            if rules.max_buckets == -1:
                raise too_many_buckets(rules)
            if task_scope:
                self.current = max(self.current, 0)
                return self.current
        if not self.rows:
            raise no_own_bucket(rules)
        choices = list(self.rows)[:1] if task_scope else list(self.rows)
        return int(self.pick(np.array(choices, np.int32), 1)[0])
