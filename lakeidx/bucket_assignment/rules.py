"""Rules of the assigners: limits, who owns which bucket, how a random bucket is drawn, and how tasks share the keys.

A key goes to a task by its partition and its own hash, and each task opens and fills only bucket ids of its own, so that tasks
never have to talk to each other.

source   org.apache.paimon.index.HashBucketAssigner, BucketAssigner.computeAssigner, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError

MAX_BUCKETS = 32767
"""Bucket ids are 0 to 32,766: Java keeps them as 16-bit numbers (PartitionIndex, release 1.4.2)."""

_TARGET_ROWS_OPTION = "dynamic-bucket.target-row-num"
_MAX_BUCKETS_OPTION = "dynamic-bucket.max-buckets"
_INITIAL_BUCKETS_OPTION = "dynamic-bucket.initial-buckets"
PARALLELISM_OPTION = "dynamic-bucket.assigner-parallelism"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignRules:
    """The numbers that decide where a new hash goes.

    target_rows    hashes in a bucket from which on it takes no new ones; at least 1
    max_buckets    buckets a partition may have (their ids are below this number), 1 to 32,767, or -1 for no limit. Java
                   1.4.2 compares it with the largest id that a task has given out in any partition, later releases as here
    num_assigners  assigners that share the bucket ids of a partition
    assign_id      which of them this one is; it owns the ids b with b % num_assigners == assign_id % num_assigners

    errors   InvalidInputError for a number out of range, naming its option
    """

    target_rows: int
    max_buckets: int = -1
    num_assigners: int = 1
    assign_id: int = 0

    def __post_init__(self) -> None:
        if self.target_rows < 1:
            raise InvalidInputError(f"must be at least 1, not {self.target_rows}", path=_TARGET_ROWS_OPTION)
        if self.max_buckets != -1 and not 1 <= self.max_buckets <= MAX_BUCKETS:
            raise InvalidInputError(
                f"must be -1 (no limit) or 1 to {MAX_BUCKETS}, not {self.max_buckets}", path=_MAX_BUCKETS_OPTION
            )
        if self.num_assigners < 1 or self.assign_id < 0:
            raise InvalidInputError(
                f"there is no assigner {self.assign_id} of {self.num_assigners}: at least one assigner, ids from 0"
            )

    @property
    def last_bucket(self) -> int:
        """The largest id a new bucket may have."""
        return (MAX_BUCKETS if self.max_buckets == -1 else self.max_buckets) - 1

    @property
    def first_own_bucket(self) -> int:
        """The smallest id this assigner owns; own ids follow in steps of num_assigners."""
        return self.assign_id % self.num_assigners

    def owns(self, bucket: int) -> bool:
        """Return whether a new hash may go to this bucket from here."""
        return bucket % self.num_assigners == self.first_own_bucket


#: Chooses buckets when no new one may be opened: draws so many, repeats allowed, out of those that are known (int32[k], k >= 1).
#: One draw for each new hash, in row order.
BucketPicker = Callable[[NDArray[np.int32], int], NDArray[np.int32]]


class RandomBuckets:
    """Draws every known bucket with the same chance, as Java does.

    seed     of the draws: the same gives the same buckets however a column is cut into calls
    source   org.apache.paimon.utils.ListUtils.pickRandomly, release 1.4.2
    """

    __slots__ = ("_rng", "_seed")

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._seed = seed
        # Made with the first draw: most batches find room, and NumPy's generators take longer to import than those to place.
        self._rng: np.random.Generator | None = None

    @classmethod
    def seeded(cls, text: str) -> RandomBuckets:
        """Return the draws that depend on nothing but `text` (a batch id), so that a stage that is run again decides the same."""
        return cls(list(sha256(text.encode()).digest()))

    def __call__(self, known: NDArray[np.int32], count: int) -> NDArray[np.int32]:
        """Draw `count` of the known buckets."""
        if self._rng is None:
            self._rng = np.random.default_rng(self._seed)
        return known[self._rng.integers(0, len(known), size=count)]


def too_many_buckets(rules: AssignRules) -> InvalidInputError:
    """Make the error of an assigner that has used up all its bucket ids and has no max-buckets to fall back on."""
    return InvalidInputError(
        f"no bucket id up to {rules.last_bucket} is left for assigner {rules.assign_id} of {rules.num_assigners} "
        f"and all its buckets hold {rules.target_rows} keys: raise {_TARGET_ROWS_OPTION}, or use fewer assigners",
        path=_TARGET_ROWS_OPTION,
    )


def no_own_bucket(rules: AssignRules) -> InvalidInputError:
    """Make the error of a max-buckets that leaves an assigner without a single bucket id."""
    return InvalidInputError(
        f"{rules.max_buckets} leaves assigner {rules.assign_id} of {rules.num_assigners} without a bucket: use at most "
        f"{rules.max_buckets} assigners ({_INITIAL_BUCKETS_OPTION}, {PARALLELISM_OPTION}), or allow more buckets",
        path=_MAX_BUCKETS_OPTION,
    )


def assigner_of(
    partition_hash: int | NDArray[np.int32], key_hashes: NDArray[np.int32], *, num_channels: int, num_assigners: int
) -> NDArray[np.int32]:
    """Compute the assigner task of each row.

    partition_hash  hash of the partition's BinaryRow: one number for all rows, or int32[n]
    key_hashes      int32[n], hashes of the trimmed primary key's BinaryRow
    num_channels    assigner tasks there are; a partition's keys start at task abs(partition_hash % num_channels)
    num_assigners   tasks that share one partition
    returns         int32[n], 0 to num_channels - 1
    """
    # Java: abs(h % n) with a truncated remainder, which is abs(h) % n; 64 bits, because abs(-2**31) has no 32-bit form.
    start = np.abs(np.asarray(partition_hash, np.int64)) % num_channels
    ids = np.abs(key_hashes.astype(np.int64)) % num_assigners
    found: NDArray[np.int32] = ((start + ids) % num_channels).astype(np.int32)
    return found
