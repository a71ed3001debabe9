"""The walk over loaded buckets, against orders printed by java.util.HashMap (OpenJDK 17) filled as PartitionIndex does."""

from __future__ import annotations

import pytest

from lakeidx.bucket_assignment.partition_index import loaded_walk_order

# (bucket, hashes) of each file in scan order, HashMap.keySet() afterwards.
FROM_JAVA = [
    ([(36, 2), (34, 2), (4, 1), (20, 3)], [34, 20, 4, 36]),
    # 13 entries of which the last has one hash: nothing calls compute again, 16 bins stay.
    (
        [(10, 2), (37, 2), (51, 1), (0, 3), (7, 1), (23, 2), (12, 1), (17, 2), (25, 2), (58, 1), (60, 2), (14, 1), (8, 1)],
        [0, 17, 51, 37, 23, 7, 8, 25, 58, 10, 60, 12, 14],
    ),
    # 13 entries, the last with two hashes: its second compute doubles the bins.
    (
        [(12, 2), (33, 2), (18, 1), (27, 1), (3, 1), (93, 3), (141, 1), (114, 2), (78, 1), (75, 1), (21, 3), (207, 3), (84, 2)],
        [33, 3, 75, 12, 141, 78, 207, 114, 18, 84, 21, 27, 93],
    ),
    # The eighth bucket of one bin doubles a small table: 16 + multiples of 16.
    ([(16 * k, 1) for k in range(1, 10)], [128, 96, 64, 32, 144, 112, 80, 48, 16]),
    (
        [(383, 1), (351, 1), (2207, 1), (287, 2), (415, 2), (191, 1), (1983, 1), (927, 1), (31, 1), (767, 3), (319, 3),
         (1119, 3), (959, 2)],
        [1119, 31, 927, 415, 287, 2207, 351, 959, 319, 767, 1983, 191, 383],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "order"), FROM_JAVA)
def test_order_is_that_of_java(files: list[tuple[int, int]], order: list[int]) -> None:
    assert loaded_walk_order(files) == order


def test_a_file_without_hashes_leaves_no_bucket() -> None:
    assert loaded_walk_order([(5, 0), (3, 1), (4, 0)]) == [3]
    assert loaded_walk_order([]) == []


def test_ids_below_the_table_size_come_ascending() -> None:
    assert loaded_walk_order((b, 2) for b in reversed(range(3000))) == list(range(3000))


def test_bins_that_java_makes_trees_are_walked_ascending() -> None:
    buckets = [1024 * k for k in range(30)]
    assert loaded_walk_order((b, 2) for b in reversed(buckets)) == buckets
