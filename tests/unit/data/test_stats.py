"""Statistics: modes, truncation, merging of chunks."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.data.parquet.chunks import NO_STATS, ChunkStats, FloatMarks, FooterStats, merge_chunk_stats
from lakeidx.data.stats import apply_mode, float_marks, truncate_upper
from lakeidx.data.stats_modes import ModeKind, StatsMode, parse_stats_mode, stats_modes
from lakeidx.errors import InvalidInputError
from lakeidx.types import parse_type

INT, STRING, DOUBLE = parse_type("INT"), parse_type("STRING"), parse_type("DOUBLE")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", StatsMode(ModeKind.NONE)),
        ("COUNTS", StatsMode(ModeKind.COUNTS)),
        (" Full ", StatsMode(ModeKind.FULL)),
        ("truncate(16)", StatsMode(ModeKind.TRUNCATE, 16)),
    ],
)
def test_modes_are_read_in_any_case(text: str, mode: StatsMode) -> None:
    assert parse_stats_mode(text) == mode


@pytest.mark.parametrize("text", ["", "truncate", "truncate(0)", "truncate(-1)", "all"])
def test_unknown_modes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="stats mode"):
        parse_stats_mode(text)


def test_a_columns_own_mode_beats_system_and_thin_rules_and_the_first_n() -> None:
    counts, full, system = StatsMode(ModeKind.COUNTS), StatsMode(ModeKind.FULL), StatsMode(ModeKind.TRUNCATE, 128)
    none = StatsMode(ModeKind.NONE)
    options = {"fields.c.stats-mode": "counts", "fields._KEY_k.stats-mode": "full"}
    names = ["_KEY_k", "_KEY_j", "_SEQUENCE_NUMBER", "_VALUE_KIND", "a", "b", "c", "d"]
    found = stats_modes(names, default=full, options=options, keep_first_columns=2)
    # _KEY_k has a mode of its own, so it counts as an ordinary column: a is the second and last one kept.
    assert found == {
        "_KEY_k": full, "_KEY_j": system, "_SEQUENCE_NUMBER": system, "_VALUE_KIND": system,
        "a": full, "b": none, "c": counts, "d": none,
    }  # fmt: skip
    thin = stats_modes(["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"], default=none, options={}, thin_keys=["k"])
    assert thin == {"_SEQUENCE_NUMBER": system, "_VALUE_KIND": system, "k": system, "v": none}
    with pytest.raises(InvalidInputError, match=r"fields\.c\.stats-mode"):
        stats_modes(["c"], default=none, options={"fields.c.stats-mode": "much"})


@given(st.text(), st.integers(1, 5))
def test_truncated_bounds_enclose_the_text(text: str, length: int) -> None:
    upper = truncate_upper(text, length)
    assert text[:length] <= text
    if upper is None:
        assert set(text[:length]) == {"\U0010ffff"}
    else:
        assert len(upper) <= length
        assert upper.encode() >= text.encode()
        assert (upper == text) == (len(text) <= length)


def test_truncation_examples_from_java() -> None:
    assert truncate_upper("two-is-a-rather-long-string", 16) == "two-is-a-rather."
    assert truncate_upper("ab\U0010ffff\U0010ffffz", 4) == "ac"
    assert truncate_upper("\ud7ffx", 1) == "\ue000"


def test_what_each_mode_keeps() -> None:
    full = FooterStats(b"abcdef", b"xyzxyz", 3)
    assert apply_mode(full, StatsMode(ModeKind.FULL), STRING) == FooterStats("abcdef", "xyzxyz", 3)
    assert apply_mode(full, StatsMode(ModeKind.TRUNCATE, 2), STRING) == FooterStats("ab", "xz", 3)
    assert apply_mode(full, StatsMode(ModeKind.COUNTS), STRING) == FooterStats(null_count=3)
    assert apply_mode(full, StatsMode(ModeKind.NONE), STRING) is NO_STATS
    assert apply_mode(FooterStats(1, 5, 0), StatsMode(ModeKind.TRUNCATE, 2), INT) == FooterStats(1, 5, 0)
    top = FooterStats(b"a", "\U0010ffff\U0010ffff".encode(), 0)
    assert apply_mode(top, StatsMode(ModeKind.TRUNCATE, 1), STRING) == FooterStats(null_count=0)


def test_chunks_merge_and_one_without_bounds_leaves_the_column_without() -> None:
    chunks = [ChunkStats(10, 1, 5, 9), ChunkStats(4, 4, None, None), ChunkStats(10, 0, -3, 6)]
    assert merge_chunk_stats(chunks, INT) == FooterStats(-3, 9, 5)
    assert merge_chunk_stats([*chunks, ChunkStats(2, 0, None, None)], INT) == FooterStats(null_count=5)
    assert merge_chunk_stats([ChunkStats(4, 4, None, None)], INT) == FooterStats(null_count=4)
    assert merge_chunk_stats([ChunkStats(4, None, 1, 2)], INT) is NO_STATS
    assert merge_chunk_stats([ChunkStats(4, 1, b"a", b"b")], parse_type("BYTES")) == FooterStats(null_count=1)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0, 2.0], 1.0, 2.0),
        ([0.0, 1.0], 0.0, 1.0),
        ([-0.0, 1.0], -0.0, 1.0),
        ([-1.0, -0.0], -1.0, -0.0),
        ([-0.0, 0.0], -0.0, 0.0),
        ([1.0, math.nan], 1.0, math.nan),
        ([math.nan, math.nan], math.nan, math.nan),
        ([-math.inf, None], -math.inf, -math.inf),
    ],
)
def test_floats_are_bounded_in_javas_order(values: list[float | None], low: float, high: float) -> None:
    numbers = [v for v in values if v is not None and not math.isnan(v)]
    # Arrow leaves NaN out and spreads zeros.
    arrow_low = (-0.0 if min(numbers) == 0 else min(numbers)) if numbers else None
    arrow_high = (0.0 if max(numbers) == 0 else max(numbers)) if numbers else None
    chunk = ChunkStats(len(values), values.count(None), arrow_low, arrow_high)
    marks = float_marks(pa.chunked_array([pa.array(values, pa.float64())]))
    found = merge_chunk_stats([chunk], DOUBLE, marks)
    assert [repr(found.minimum), repr(found.maximum)] == [repr(low), repr(high)]


def test_float_marks_look_past_nulls_and_over_chunks() -> None:
    column = pa.chunked_array([pa.array([None, 1.0], pa.float32()), pa.array([-0.0, math.nan], pa.float32())])
    assert float_marks(column) == FloatMarks(nan=True, negative_zero=True, positive_zero=False)
    assert float_marks(pa.chunked_array([], pa.float64())) == FloatMarks()
