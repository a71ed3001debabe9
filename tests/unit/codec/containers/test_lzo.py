"""The streams are put together by hand from the description; streams of Java are in the golden tests."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.lzo import decompress_lzo
from lakeidx.errors import CorruptFileError

END = bytes.fromhex("110000")


def decode(stream: bytes, size: int) -> bytes:
    return decompress_lzo(np.frombuffer(stream, np.uint8), size, path="f", base=7).tobytes()


LITERALS = bytes(range(100, 140))
FAR = bytes(i % 251 for i in range(18 + 7 * 255 + 249))
CASES = {
    "first byte literals, state 4": (bytes([17 + 5]) + b"abcde" + END, b"abcde"),
    "first byte literals, state 2": (bytes([17 + 2]) + b"ab" + END, b"ab"),
    "literal run": (bytes([3]) + b"sixlet" + END, b"sixlet"),
    "long literal run": (bytes([0, 40 - 18]) + LITERALS + END, LITERALS),
    "very long literal run": (bytes([0, 0, 1]) + b"z" * 274 + END, b"z" * 274),
    # After four or more literals, 0000DDSS H copies 3 bytes from 2049 back.
    "three bytes from far": (bytes([0] + [0] * 7 + [249]) + FAR + bytes([0, 0]) + END, FAR + FAR[3:6]),
    # 1LLDDDSS: length 5 + 1, distance 1, no literals after.
    "repeat of one byte": (bytes([17 + 4]) + b"abcd" + bytes([0xA0, 0]) + END, b"abcd" + b"d" * 6),
    # 01LDDDSS: length 3, distance 1 + 3, two literals after, then two bytes from distance 1 + 1 (0000DDSS in state 2).
    "short copies": (
        bytes([17 + 4]) + b"abcd" + bytes([0x40 | 3 << 2 | 2, 0]) + b"XY" + bytes([1 << 2, 0]) + END,
        b"abcdabcXYXY",
    ),
    # 001LLLLL: length 2 + 3, u16 distance (5 - 1) << 2, one literal.
    "word distance": (bytes([17 + 5]) + b"abcde" + bytes([0x23, 4 << 2 | 1, 0]) + b"!" + END, b"abcdeabcde!"),
    # 001LLLLL with L = 0: 33 + run.
    "long copy": (bytes([17 + 4]) + b"abcd" + bytes([0x20, 7, 0, 0]) + END, b"abcd" + b"d" * 40),
}


@pytest.mark.parametrize("name", CASES)
def test_streams_by_hand(name: str) -> None:
    stream, expected = CASES[name]
    assert decode(stream, len(expected)) == expected


@pytest.mark.parametrize("name", CASES)
def test_another_size_and_every_cut_are_damage(name: str) -> None:
    stream, expected = CASES[name]
    for size in (len(expected) - 1, len(expected) + 1):
        with pytest.raises(CorruptFileError) as caught:
            decode(stream, size)
        assert caught.value.path == "f"
        assert caught.value.offset is not None
        assert 7 <= caught.value.offset <= 7 + len(stream)
    for end in range(max(0, len(stream) - 40), len(stream)):
        with pytest.raises(CorruptFileError):
            decode(stream[:end], len(expected))
    with pytest.raises(CorruptFileError):
        decode(stream + b"\0", len(expected))


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_bytes_give_the_size_or_damage(stream: bytes, size: int) -> None:
    with suppress(CorruptFileError):
        assert len(decode(stream, size)) == size
