"""PartitionIndex: the situations by name. That every mix of them is right is a property test's business."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeidx.bucket_assignment.partition_index import PartitionIndex
from lakeidx.bucket_assignment.rules import AssignRules, RandomBuckets
from lakeidx.errors import InvalidInputError
from tests.kit.reference_assigner import ReferenceIndex


def column(values: object) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def no_draw(known: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    raise AssertionError("nothing is to be drawn")


def largest(known: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    return np.full(count, known.max(), np.int32)


def empty(**rules: int) -> PartitionIndex:
    return PartitionIndex.load([], rules=AssignRules(**rules), pick=no_draw)


def test_hashes_of_other_assigners_count_but_are_not_known() -> None:
    # Bucket 0 is ours, bucket 1 is not; even hashes are routed here.
    files = [(0, column([1, 2, 3])), (1, column([4, 5, 6, 8]))]
    rules = AssignRules(target_rows=4, num_assigners=2, assign_id=0)
    index = PartitionIndex.load([(b, h[h % 2 == 0], len(h)) for b, h in files], rules=rules, pick=no_draw)
    assert index.counts == {0: 3}
    assert index.lookup(column([2, 4, 1, 5])).tolist() == [0, 1, -1, -1]
    assert index.assign_rows(column([10, 12, 8])).buckets.tolist() == [0, 2, 1]


def test_running_out_of_bucket_ids_is_an_error_and_keeps_what_was_assigned() -> None:
    # Ids 32,000 and then 64,000, which is beyond 32,766.
    index = empty(target_rows=2, num_assigners=32_000, assign_id=0)
    assert index.assign_rows(column([1, 2])).buckets.tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket.target-row-num: no bucket id up to 32766 is left"):
        index.assign_rows(column([3, 1, 4, 5]))
    assert index.lookup(column([1, 2, 3, 4, 5])).tolist() == [0, 0, 32_000, 32_000, -1]


@pytest.mark.slow
def test_all_32767_bucket_ids_can_be_used() -> None:
    index = empty(target_rows=1)
    hashes = np.arange(32_767, dtype=np.int32)
    assert index.assign_rows(hashes).buckets.tolist() == list(range(32_767))
    assert index.assign_rows(hashes[::-1]).buckets.tolist() == list(range(32_766, -1, -1))
    with pytest.raises(InvalidInputError, match="no bucket id up to 32766 is left"):
        index.assign_rows(column([-1]))


def test_an_assigner_without_a_bucket_below_max_buckets_is_an_error() -> None:
    index = empty(target_rows=1, max_buckets=2, num_assigners=5, assign_id=3)
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket.max-buckets: 2 leaves assigner 3 of 5 without"):
        index.assign_rows(column([1]))


@pytest.mark.parametrize(
    "wrong",
    [np.array([1], np.int64), np.array([1], ">i4"), np.array([[1]], np.int32), [1], np.array([1.0], np.float32)],
    ids=["int64", "big endian", "two dimensions", "list", "float"],
)
def test_anything_but_an_int32_column_is_refused(wrong: NDArray[np.int32]) -> None:
    with pytest.raises(InvalidInputError, match="one column of native int32"):
        empty(target_rows=1).assign_rows(wrong)


def test_read_only_and_strided_columns_are_taken() -> None:
    hashes = np.arange(10, dtype=np.int32)
    hashes.flags.writeable = False
    assert empty(target_rows=4).assign_rows(hashes).buckets.tolist() == [0] * 4 + [1] * 4 + [2] * 2
    assert empty(target_rows=4).assign_rows(hashes[::2]).buckets.tolist() == [0, 0, 0, 0, 1]


def test_bucket_ids_a_file_cannot_have_are_refused() -> None:
    for bucket in (-1, 32_767):
        with pytest.raises(InvalidInputError, match=f"bucket {bucket} of a hash index"):
            PartitionIndex.load([(bucket, column([1]))], rules=AssignRules(target_rows=1), pick=no_draw)


@pytest.mark.slow
def test_large_columns_with_repeats_follow_the_rules_row_by_row() -> None:
    # Beyond what hypothesis draws: many growths, hundreds of buckets, draws at the end.
    rng = np.random.default_rng(11)
    rules = AssignRules(target_rows=37, max_buckets=250)
    files = [(int(b), rng.integers(-(2**31), 2**31, 20).astype(np.int32)) for b in rng.permutation(40)]
    index = PartitionIndex.load(files, rules=rules, pick=RandomBuckets.seeded("x"))
    known = [(int(h), b) for b, hashes in files for h in hashes]
    twin = ReferenceIndex(rules, RandomBuckets.seeded("x"), known, [(b, index.counts[b]) for b in index.counts])
    for values in (
        rng.integers(-4000, 4000, 9000),
        np.sort(rng.integers(-(2**31), 2**31, 4000)),
        np.repeat(rng.integers(-(2**31), 2**31, 50), 60),
        np.array([h for h, _ in known]),
    ):
        hashes = values.astype(np.int32)
        assert index.assign_rows(hashes).buckets.tolist() == [twin.assign(h) for h in hashes.tolist()]
    assert list(index.counts) == twin.total
    assert len(twin.total) == 250
