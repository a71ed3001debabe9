"""Kernels against plain models where no codec test reaches: the edges of buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.arrays import frozen
from lakeidx.codec.kernels import gather, join_decimals, put_fixed, split_decimals, take_fixed, take_varints
from lakeidx.codec.rows.binary_row_write import minimal_twos_complement


@given(st.lists(st.integers(-(2**127), 2**127 - 1) | st.integers(-300, 300), max_size=20))
@settings(deadline=None)
def test_decimals_of_any_128_bits(values: list[int]) -> None:
    n = len(values)
    low = frozen(np.array([v % 2**64 for v in values], np.uint64))
    high = frozen(np.array([v >> 64 & 2**64 - 1 for v in values], np.uint64))
    lengths, tails = np.empty(n, np.int64), np.empty((2, n), np.uint64)
    split_decimals(low, high, lengths, tails)
    pieces = [minimal_twos_complement(v) for v in values]
    assert lengths.tolist() == [len(p) for p in pieces]
    data = tails.T.copy().view(np.uint8).reshape(-1)
    assert data.tobytes() == b"".join(p.ljust(16, b"\0") for p in pieces)
    back = np.empty((n, 2), np.uint64)
    assert join_decimals(frozen(data), frozen(np.arange(n) * 16), frozen(lengths), back) == -1
    assert back[:, 0].tolist() == low.tolist()
    assert back[:, 1].tolist() == high.tolist()


@pytest.mark.parametrize("width", range(1, 9))
def test_fixed_values_up_to_the_last_byte(width: int) -> None:
    """Two rows packed without a spare byte after them; the first is null and takes no place."""
    word = 0x8182838485868788
    out = np.zeros(2 * width, np.uint8)
    cursor, valid = np.array([0, 0, width]), frozen(np.array([False, True, True]))
    put_fixed(out, cursor, frozen(np.full(3, word, np.uint64)), valid, width)
    assert out.tobytes() == word.to_bytes(8, "little")[:width] * 2
    assert cursor.tolist() == [0, width, 2 * width]
    words = np.empty(3, np.uint64)
    start, ends = np.array([0, 0, width]), frozen(np.array([0, width, 2 * width]))
    assert take_fixed(frozen(out), start, ends, valid, width, words) == -1
    assert words.tolist() == [0] + [word & (1 << 8 * width) - 1] * 2
    assert take_fixed(frozen(out), np.array([0, 1, width]), ends, valid, width, words) == 1


def test_varints_stop_at_the_end_of_their_row() -> None:
    data = frozen(np.frombuffer(b"\x80\x01\xff", np.uint8))
    valid, values = frozen(np.ones(1, np.bool_)), np.empty(1, np.int64)
    assert take_varints(data, np.array([0]), frozen(np.array([2])), valid, values) == -1
    assert values[0] == 128
    assert take_varints(data, np.array([0]), frozen(np.array([1])), valid, values) == 0
    assert take_varints(data, np.array([2]), frozen(np.array([3])), valid, values) == 0


@given(st.lists(st.binary(max_size=20), max_size=9))
@settings(deadline=None)
def test_pieces_are_gathered_in_order(pieces: list[bytes]) -> None:
    data = frozen(np.frombuffer(b"".join(reversed(pieces)), np.uint8))
    lengths = np.array([len(p) for p in pieces], np.int64)
    starts = len(data) - np.cumsum(lengths)
    out = np.zeros(len(data), np.uint8)
    gather(out, frozen(np.cumsum(lengths) - lengths), data, frozen(starts), frozen(lengths))
    assert out.tobytes() == b"".join(pieces)
