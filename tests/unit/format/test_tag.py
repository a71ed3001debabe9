from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError
from lakeidx.format.snapshot import CommitKind, Snapshot, encode_snapshot
from lakeidx.format.tag import Tag, decode_tag, encode_tag, now_local_ns

SNAPSHOT = Snapshot(
    id=7, schema_id=0, base_manifest_list="b", delta_manifest_list="d", commit_user="u", commit_identifier=1,
    commit_kind=CommitKind.APPEND, time_millis=3, total_record_count=4, delta_record_count=5,
)  # fmt: skip
DAY_NS = 86_400 * 10**9
# 2026-11-21 17:33:09.612109132 as if UTC
CREATED = 1_795_282_389_612_109_132


def test_without_retention_it_is_the_snapshot() -> None:
    assert encode_tag(Tag(snapshot=SNAPSHOT)) == encode_snapshot(SNAPSHOT)
    assert decode_tag(encode_snapshot(SNAPSHOT)) == Tag(snapshot=SNAPSHOT)


def test_with_retention_as_paimon_writes_it() -> None:
    tag = Tag(snapshot=SNAPSHOT, create_time_ns=CREATED, time_retained_ns=129_600 * 10**9)
    text = encode_tag(tag).decode()
    assert text.endswith(
        ',\n  "tagCreateTime" : [ 2026, 11, 21, 17, 33, 9, 612109132 ],\n  "tagTimeRetained" : 129600.000000000\n}'
    )
    assert decode_tag(text.encode()) == tag


@given(created=st.integers(-(10**18), 4 * 10**18), retained=st.integers(0, 10**18))
def test_round_trip(created: int, retained: int) -> None:
    tag = Tag(snapshot=SNAPSHOT, create_time_ns=created, time_retained_ns=retained)
    assert decode_tag(encode_tag(tag)) == tag


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ([2026, 11, 21, 17, 33, 9, 612109132], CREATED),
        ([2026, 11, 21, 17, 33, 9], CREATED - 612_109_132),
        ([2026, 11, 21, 17, 33], CREATED - 9_612_109_132),
        ([1970, 1, 1], 0),
        ("2026-11-21T17:33:09.612109132", CREATED),
        ("2026-11-21T17:33:09", CREATED - 612_109_132),
        ("2026-11-21T17:33", CREATED - 9_612_109_132),
    ],
)
def test_create_time_forms(value: Any, ns: int) -> None:
    text = json.dumps({**json.loads(encode_snapshot(SNAPSHOT)), "tagCreateTime": value, "tagTimeRetained": 60})
    tag = decode_tag(text.encode())
    assert (tag.create_time_ns, tag.time_retained_ns) == (ns, 60 * 10**9)


@pytest.mark.parametrize("key", ["tagCreateTime", "tagTimeRetained"])
@pytest.mark.parametrize(
    "value",
    [
        [2026, 13, 1],
        [1],
        [],
        {},
        True,
        "soon",
        [2026, 1, 1, 1, 1, 1, 10**9],
        "2026-11-21T17:33:09+01:00",
        [1, 1, 1.5],
        -1,
        1e30,
    ],
)
def test_values_that_cannot_be(key: str, value: Any) -> None:
    text = json.dumps({**json.loads(encode_snapshot(SNAPSHOT)), key: value})
    with pytest.raises(CorruptFileError, match=key):
        decode_tag(text.encode(), "tag-x")


def test_a_tag_expires_after_its_retention() -> None:
    tag = Tag(snapshot=SNAPSHOT, create_time_ns=CREATED, time_retained_ns=DAY_NS)
    assert not tag.is_expired(CREATED + DAY_NS)
    assert tag.is_expired(CREATED + DAY_NS + 1)
    assert not Tag(snapshot=SNAPSHOT).is_expired(1 << 62)
    assert not Tag(snapshot=SNAPSHOT, create_time_ns=0).is_expired(1 << 62)


@pytest.mark.usefixtures("shanghai")
def test_now_is_the_wall_clock() -> None:
    before = time.time_ns()
    there = now_local_ns() - 8 * 3600 * 10**9
    assert before <= there <= time.time_ns()
