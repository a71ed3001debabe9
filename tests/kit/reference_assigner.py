"""The assigning rules one row at a time, with dictionaries: what `PartitionIndex` must equal.

Written for reading and for tests and benchmarks to compare with, not for speed. A picker is asked for one bucket at a
time.

source   the fact sheet's sections 6.3, 6.4 and 18, of org.apache.paimon.index.PartitionIndex
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakeidx.bucket_assignment.rules import AssignRules, BucketPicker, no_own_bucket, too_many_buckets


class ReferenceIndex:
    """Row-by-row twin of an `PartitionIndex`.

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

    def assign(self, key_hash: int) -> int:
        """Assign one key hash to a bucket."""
        if key_hash not in self.bucket_of:
            self.bucket_of[key_hash] = self._place()
        return self.bucket_of[key_hash]

    def _place(self) -> int:
        for bucket, rows in list(self.non_full.items()):
            if rows < self.rules.target_rows:
                self.non_full[bucket] = rows + 1
                return bucket
            del self.non_full[bucket]
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
