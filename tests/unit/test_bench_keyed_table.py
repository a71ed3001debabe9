"""The check of benchmarks of key indexes: a key is taken for another only where the type cannot distinguish them."""

from __future__ import annotations

import numpy as np
import pytest

from bench.keyed_table import count_wrong

#: Hashes of the keys of two buckets.
HELD = (np.array([1, 5, 9], np.int32), np.array([2, 5], np.int32))
#: Known in bucket 0, known in bucket 1, known in 0 with a hash of both, new with a hash of bucket 1, new with one of none.
HASHES = np.array([1, 2, 5, 2, 7], np.int32)
TRUE = np.array([0, 1, 0, -1, -1], np.int32)


@pytest.mark.parametrize("kind", ["hash", "state", "state build", "inmemory", "simple", "bloom"])
def test_the_truth_is_right_for_every_type(kind: str) -> None:
    assert count_wrong(TRUE, TRUE, HASHES, HELD, kind) == 0


@pytest.mark.parametrize(
    ("row", "bucket", "allowed"),
    [
        (3, 1, ("hash", "state", "inmemory")),  # a new key that looks like one of bucket 1
        (3, 0, ()),  # no key of bucket 0 has that hash
        (4, 0, ()),  # no key has it
        (2, 1, ("hash",)),  # a known key that looks like one of another bucket
        (0, 1, ()),
        (0, -1, ()),  # a known key is found
    ],
)
def test_a_look_alike_is_one_by_its_hash(row: int, bucket: int, allowed: tuple[str, ...]) -> None:
    found = TRUE.copy()
    found[row] = bucket
    for kind in ("hash", "state", "inmemory", "simple", "bloom"):
        assert count_wrong(found, TRUE, HASHES, HELD, kind) == (kind not in allowed), kind
