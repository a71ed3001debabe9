from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import decode_body, encode_body
from lakeidx.lookup.sort_store.read_kernels import check_body

alike = st.lists(st.tuples(st.binary(min_size=2, max_size=2), st.binary(min_size=3, max_size=3)), max_size=6)
rows = st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), max_size=6)


def fault(body: bytes, *, whole: bool = True) -> int:
    """Position of the fault that the kernel finds in a body of plain keys, or -1."""
    # Exactly the body's bytes at the end of an array: what reads beyond would at least be found by a checking allocator.
    held = np.frombuffer(body, np.uint8).copy()
    return int(check_body(held.ctypes.data, len(held), 0, 0, 0, -1, 0, -1, whole)[0])


def is_sound(body: bytes, *, whole: bool = True) -> bool:
    """The same by the scalar decoder: it decodes, and its keys increase."""
    try:
        keys = [key for key, _ in decode_body(body)]
    except CorruptFileError:
        return False
    return not whole or all(a < b for a, b in itertools.pairwise(keys))


@settings(deadline=None)
@given(rows)
def test_bodies_in_order_are_sound_and_others_not(entries: list[tuple[bytes, bytes]]) -> None:
    in_order = sorted(dict(entries).items())
    assert fault(encode_body(in_order)) == -1
    body = encode_body(entries)
    assert (fault(body) == -1) == is_sound(body)
    assert fault(body, whole=False) == -1


@settings(deadline=None, max_examples=300)
@given(rows, st.data())
def test_changed_blocks_are_judged_as_by_the_plain_check(
    entries: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    body = bytearray(encode_body(sorted(dict(entries).items())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 6) | st.integers(0, 255))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body))) :]
    for whole in (True, False):
        assert (fault(bytes(body), whole=whole) == -1) == is_sound(bytes(body), whole=whole)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_judged_as_by_the_plain_check(body: bytes) -> None:
    for whole in (True, False):
        assert (fault(body, whole=whole) == -1) == is_sound(body, whole=whole)
