"""Bucket numbers: the kernels against the scalar rules, over keys that look composite and are not."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.bucket.ids import bucket_ids, bucket_of_file_id, joined_values, new_file_id_prefix
from tests.kit.scalar_twins import bucket_of, extract_values

PIECE = st.sampled_from(["a", "id", "b:", ":", ",", "é", "😀", "x,y", "__null__", "__empty__", "10:20", ""])
KEY = st.lists(PIECE, max_size=9).map("".join)
FIELDS = st.sampled_from([["id"], ["id", "b"], ["a", "id"], [""], [], ["zz"]])


@settings(deadline=None, max_examples=300)
@given(st.lists(KEY, max_size=12), FIELDS, st.integers(1, 300))
@example(["id:1,ts:2014-10-22 13:50:42,name:b"], ["ts"], 7)
def test_kernel_equals_the_scalar_rule(keys: list[str], fields: list[str], count: int) -> None:
    rows = RowBytes.from_list([k.encode() for k in keys])
    expected = [bucket_of(k, fields, count) for k in keys]
    assert bucket_ids(rows, fields, count).tolist() == expected


@settings(deadline=None)
@given(st.lists(KEY, max_size=12), FIELDS)
def test_joined_values_equal_the_scalar_rule(keys: list[str], fields: list[str]) -> None:
    rows = RowBytes.from_list([k.encode() for k in keys])
    expected = ["".join("null" if v is None else v for v in extract_values(k, fields)).encode() for k in keys]
    assert joined_values(rows, fields).to_list() == expected


@pytest.mark.parametrize(
    ("key", "fields", "values"),
    [
        ("", ["k"], [""]),
        ("a,b", ["k"], ["a,b"]),
        ("id:1", ["id"], ["id:1"]),
        ("id:a,b,c,name:x", ["id"], ["a,b,c"]),
        ("id:1,t:10:20:30,n:b", ["t"], ["10:20:30"]),
        ("id:1,t:10:20:30", ["t"], ["10:20:30"]),
        ("id:__null__,n:__empty__", ["id", "n"], [None, ""]),
        ("id:1,,", ["id"], ["1,,"]),
    ],
)
def test_record_keys_have_their_values(key: str, fields: list[str], values: list[str | None]) -> None:
    assert extract_values(key, fields) == values


def test_a_file_id_begins_with_its_bucket() -> None:
    assert bucket_of_file_id(new_file_id_prefix(42) + "-0") == 42
    assert new_file_id_prefix(42) != new_file_id_prefix(42)
    for foreign in ("6fa459ea-ee8a-3ca4-894e-db77e160355e-0", "123", "", "١٢٣٤٥٦٧٨-x"):
        with pytest.raises(InvalidInputError, match="another index"):
            bucket_of_file_id(foreign)


def test_no_buckets_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 1"):
        bucket_ids(RowBytes.empty(), ["k"], 0)
    assert bucket_ids(RowBytes.empty(), ["k"], 4).tolist() == []
