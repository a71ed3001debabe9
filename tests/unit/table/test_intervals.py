"""Interval partition against a plain model, and the order of keys of every type."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.table import intervals
from lakeidx.table.intervals import RankedFile, key_order, partition_intervals, rank_files, sections_of
from lakeidx.types import parse_type
from tests.kit.compaction_files import INT_KEY, a_file

FILE = dataclasses.replace(a_file("f"), delete_row_count=0)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=25))
def test_sections_do_not_overlap_and_hold_as_few_runs_as_possible(bounds: list[tuple[int, int]]) -> None:
    ranked = [RankedFile(a_file(f"f{i}"), low, low + more) for i, (low, more) in enumerate(bounds)]
    sections = partition_intervals(ranked)
    flat = [f for section in sections for run in section for f in run]
    assert sorted(f.file.file_name for f in flat) == sorted(f.file.file_name for f in ranked)
    ends = [(min(f.low for r in s for f in r), max(f.high for r in s for f in r)) for s in sections]
    assert all(left[1] < right[0] for left, right in pairwise(ends))
    for section in sections:
        files = [f for run in section for f in run]
        for run in section:
            assert all(a.high < b.low for a, b in pairwise(run))
        # As many runs as files cover one point, and no fewer are possible.
        depth = max(sum(f.low <= p <= f.high for f in files) for p in range(80))
        assert len(section) == depth
        reach = min(f.low for f in files)
        for f in sorted(files, key=lambda f: f.low):
            assert f.low <= reach, "a section without the file that holds it together"
            reach = max(reach, f.high)


@pytest.mark.parametrize(
    ("type_name", "ascending"),
    [
        ("BOOLEAN", [None, False, True]),
        ("INT", [None, -(2**31), -1, 0, 2**31 - 1]),
        ("STRING", [None, "", "Z", "a", "aa", "é", "\uffff", "😀"]),
        ("BYTES", [None, b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
        ("DOUBLE", [None, float("-inf"), -1.5, -5e-324, -0.0, 0.0, 5e-324, 2.0, float("inf"), float("nan")]),
        ("FLOAT", [None, -1.5, -0.0, 0.0, 2.0, float("nan")]),
        (
            "DECIMAL(20, 2)",
            [None, Decimal("-10.00"), Decimal("-2.50"), Decimal("0.00"), Decimal("9.99"), Decimal("10.00")],
        ),
        ("TIMESTAMP(9)", [None, (-1, 999999), (0, 0), (0, 1), (1, 0)]),
        ("DATE", [None, -400, 0, 20000]),
    ],
)
def test_key_order_is_the_order_of_the_type(type_name: str, ascending: list[Any]) -> None:
    t = parse_type(type_name)
    keys = [key_order(v, t) for v in ascending]
    assert all(a < b for a, b in pairwise(keys))
    files = [a_file(str(i)) for i in range(len(ascending))]
    made = [
        dataclasses.replace(f, min_key=(k := with_arity(encode_row([v], [t]), 1)), max_key=k)
        for f, v in zip(files, ascending, strict=True)
    ]
    assert [r.low for r in rank_files(made[::-1], [t])] == list(range(len(made)))[::-1]
    assert [[[f.file_name for f in run] for run in s] for s in sections_of(made[::-1], [t])] == [
        [[str(i)]] for i in range(len(made))
    ]


@pytest.mark.slow
def test_thousands_of_files_are_looked_at_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[int] = []
    poll = intervals._poll

    def counted(heap: list[list[RankedFile]]) -> list[RankedFile]:
        polls.append(len(heap))
        return poll(heap)

    monkeypatch.setattr(intervals, "_poll", counted)
    files = [a_file(f"f{i}", 0, (i * 7919) % 50_000, (i * 7919) % 50_000 + 40) for i in range(5_000)]
    sections = sections_of(files, INT_KEY)
    assert len(polls) < len(files)
    assert sum(len(run) for s in sections for run in s) == 5_000
