"""Kernels against plain models where no codec test reaches: the edges of buffers."""

from __future__ import annotations

import numpy as np
import pytest

from lakeidx.codec.arrays import frozen
from lakeidx.codec.kernels import put_fixed, take_fixed, take_varints


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
