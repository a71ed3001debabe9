"""Results: JSON form, putting pieces together, edges that damage does not reach."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.quality.batch_rules import check_staged_rows_committed
from lakeidx.quality.file_rules import check_orphans, check_referenced_files
from lakeidx.quality.hash_rules import (
    check_live_keys_indexed,
    check_one_bucket_per_hash,
    check_stale_hashes,
    find_duplicate_hashes,
)
from lakeidx.quality.index_file_rules import check_bucket_rows, check_bucket_skew, check_index_files
from lakeidx.quality.key_rules import BucketKeys, check_keys_unique
from lakeidx.quality.result import SAMPLE_LIMIT, BucketId, RuleResult, Severity, combine
from lakeidx.quality.snapshot_rules import check_snapshot_chain


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_nothing_to_check_passes() -> None:
    for result in (
        check_one_bucket_per_hash({}),
        check_live_keys_indexed({}, {}),
        check_stale_hashes({}, {}),
        check_index_files([]),
        check_keys_unique([]),
        check_bucket_rows({}, target_rows=1),
        check_bucket_skew({}),
        check_staged_rows_committed(None),
        check_snapshot_chain({}),
        check_referenced_files({}, {}),
        check_orphans({}, max_files=0),
    ):
        assert result.passed, result
        assert json.loads(json.dumps(result.to_json()))["metrics"] == dict(result.metrics)


def test_json_form_holds_plain_values_only() -> None:
    index = {(b"\x01", 0): column(1, 5), (b"\x01", 3): column(5)}
    result = check_one_bucket_per_hash(index)
    assert json.loads(json.dumps(result.to_json())) == {
        "name": "hash_in_one_bucket",
        "passed": False,
        "severity": "error",
        "metrics": {"partitions": 1, "buckets": 2, "hashes": 3, "hashes_in_several_buckets": 1},
        "sample": [{"partition": "01", "hash": 5, "buckets": [0, 3]}],
        "description": "Every hash of the index is in exactly one bucket of its partition.",
    }


def test_pieces_give_what_the_whole_gives() -> None:
    index: dict[BucketId, np.ndarray] = {
        (bytes([p]), b): column(*range(10 * b, 10 * b + 11 + p)) for p in range(4) for b in range(3)
    }
    live = {bucket_id: hashes[::2] for bucket_id, hashes in index.items()}
    live[bytes([2]), 1] = column(10, 4000)
    rows = {bucket_id: len(hashes) for bucket_id, hashes in index.items()}
    pieces = [
        ({k: v for k, v in index.items() if k[0][0] == p}, {k: v for k, v in live.items() if k[0][0] == p})
        for p in range(4)
    ]
    for whole, parts in (
        (check_one_bucket_per_hash(index), [check_one_bucket_per_hash(i) for i, _ in pieces]),
        (check_live_keys_indexed(live, index), [check_live_keys_indexed(v, i) for i, v in pieces]),
        (check_bucket_skew(rows), [check_bucket_skew({k: rows[k] for k in i}) for i, _ in pieces]),
    ):  # fmt: skip
        together = combine(parts)
        assert (together.passed, dict(together.metrics)) == (whole.passed, dict(whole.metrics))
        assert [dict(o) for o in together.sample] == [dict(o) for o in whole.sample][:SAMPLE_LIMIT]


def test_combining_takes_extremes_and_the_worse_severity() -> None:
    def result(passed: bool, severity: Severity, **metrics: int) -> RuleResult:
        return RuleResult(name="r", passed=passed, severity=severity, metrics=metrics, description="d.")

    together = combine([
        result(True, Severity.WARN, rows=2, largest_x=5, smallest_x=5),
        result(False, Severity.ERROR, rows=3, largest_x=4, smallest_x=1, more=7),
    ])  # fmt: skip
    assert dict(together.metrics) == {"rows": 5, "largest_x": 5, "smallest_x": 1, "more": 7}
    assert (together.passed, together.severity) == (False, Severity.ERROR)


def test_results_of_different_rules_are_not_combined() -> None:
    with pytest.raises(InvalidInputError, match="results of one rule"):
        combine([check_one_bucket_per_hash({}), check_bucket_skew({})])
    with pytest.raises(InvalidInputError, match="results of one rule"):
        combine([])


def test_keys_with_equal_hashes_but_other_bytes_are_different_keys() -> None:
    keys = RowBytes.from_list([b"a", b"b", b"c", b"b"])
    parts = [
        BucketKeys(partition=b"", bucket=0, keys=keys, hashes=column(7, 7, 7, 7)),
        BucketKeys(partition=b"", bucket=1, keys=RowBytes.from_list([b"d", b""]), hashes=column(7, 7)),
    ]
    result = check_keys_unique(parts)
    assert [dict(o) for o in result.sample] == [{"partition": "", "key": b"b".hex(), "buckets": [0], "times": [2]}]
    assert result.metrics["keys_twice_in_a_bucket"] == 1


def test_keys_and_hashes_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="bucket 3: 1 keys, 2 hashes"):
        check_keys_unique([BucketKeys(partition=b"", bucket=3, keys=RowBytes.from_list([b"a"]), hashes=column(1, 2))])


def test_stale_share_is_a_threshold() -> None:
    index, live = {(b"", 0): column(*range(10))}, {(b"", 0): column(*range(1, 10))}
    assert not check_stale_hashes(live, index).passed
    assert check_stale_hashes(live, index, max_stale_share=0.1).passed
    assert not check_stale_hashes(live, index, max_stale_share=0.09).passed


def test_skew_of_buckets_filled_one_after_another_is_no_skew() -> None:
    for full in range(1, 6):
        rows = {(b"", b): 100 for b in range(full)} | {(b"", full): 1}
        assert check_bucket_skew(rows).passed
    assert not check_bucket_skew({(b"", 0): 700, (b"", 1): 100, (b"", 2): 100}).passed


# ---- hashes in two buckets -------------------------------------------------------------------------------------------


def as_dict(buckets: dict[int, list[int]]) -> dict[int, list[int]]:
    count, found = find_duplicate_hashes({b: np.array(h, np.int32) for b, h in buckets.items()})
    assert count == len(found)
    return {each["hash"]: each["buckets"] for each in found}


def test_sample_is_bounded() -> None:
    buckets = {b: np.arange(100, dtype=np.int32) for b in (4, 7)}
    assert find_duplicate_hashes(buckets, 2) == (
        100, [{"hash": 0, "buckets": [4, 7]}, {"hash": 1, "buckets": [4, 7]}],
    )  # fmt: skip
    assert len(find_duplicate_hashes(buckets, 1000)[1]) == 100


#: A few, so that they meet, and the ends of their range.
HASHES = (-(2**31), *range(-4, 5), 2**31 - 1)


@given(st.dictionaries(st.integers(0, 5), st.lists(st.sampled_from(HASHES), max_size=8)))
def test_equals_counting_with_sets(buckets: dict[int, list[int]]) -> None:
    expected = {}
    for h in HASHES:
        owners = [b for b in sorted(buckets) if h in buckets[b]]
        if len(owners) > 1:
            expected[h] = owners
    assert as_dict(buckets) == expected
