from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.codec.varint import decode_varint
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import BODY_TAIL_SIZE, POSITION_SIZE, decode_body, encode_body
from lakeidx.lookup.sort_store.check_kernels import add_tails, check_body, tail_sizes

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


def with_tails(contents: list[bytes], counts: list[int]) -> tuple[list[bytes], int, int]:
    """Bodies that the kernels make of entries without tails; which of these is damaged or -1, and where."""
    held = [np.frombuffer(content, np.uint8).copy() for content in contents]
    sizes, numbers = np.array([len(c) for c in contents], np.int64), np.array(counts, np.int64)
    entries, tails = np.array([h.ctypes.data for h in held], np.int64), np.empty(len(held), np.int64)
    tail_sizes(entries, sizes, numbers, tails)
    bodies = [np.empty(size, np.uint8) for size in (sizes + tails).tolist()]
    addresses = np.array([b.ctypes.data for b in bodies], np.int64)
    damaged, at = add_tails(entries, sizes, numbers, addresses, tails)
    return [b.tobytes() for b in bodies], int(damaged), int(at)


@settings(deadline=None)
@given(st.lists((alike | rows).filter(len), max_size=4))
def test_tails_are_those_of_the_scalar_encoder(blocks: list[list[tuple[bytes, bytes]]]) -> None:
    bodies = [encode_body(entries) for entries in blocks]
    sizes = [sum(2 + len(k) + len(v) for k, v in entries) for entries in blocks]
    contents = [body[:size] for body, size in zip(bodies, sizes, strict=True)]
    assert with_tails(contents, [len(entries) for entries in blocks]) == (bodies, -1, 0)


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=12), st.integers(1, 5))
@example(b"\x80\x00\x00", 1)
@example(b"\x00\x00\x80\x00\x00", 2)
@example(b"\x80", 1)
def test_bytes_that_are_not_so_many_entries_are_damaged(content: bytes, count: int) -> None:
    bodies, damaged, at_fault = with_tails([encode_body([(b"k", b"v")])[:4], content], [1, count])
    entries, start = 0, 0
    try:
        while entries < count:
            at = start
            for _part in range(2):
                size, at = decode_varint(content, at)
                at += size
                if at > len(content):
                    raise CorruptFileError("leaves the bytes")
            entries, start = entries + 1, at
    except CorruptFileError:
        pass
    if entries == count and start == len(content):
        assert damaged == -1
        assert bodies[1].startswith(content)
        assert len(decode_body(bodies[1])) == count
    else:
        assert (damaged, at_fault) == (1, start)
        assert len(bodies[1]) == len(content) + POSITION_SIZE * count + BODY_TAIL_SIZE
