"""Range-bitmap payloads: worked bytes of the released Java, chunks, many rows, damage that has no checksum."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakeidx.codec.roaring import serialize
from lakeidx.errors import CorruptFileError
from lakeidx.file_index.kinds import range_bitmap
from lakeidx.file_index.kinds.range_bitmap import RangeBitmapIndexer
from lakeidx.predicate import Leaf, col
from lakeidx.types import parse_type
from tests.unit.file_index.kinds import payloads

INDEXER = RangeBitmapIndexer()
build = partial(payloads.build, INDEXER)
ask = partial(payloads.ask, INDEXER)
c = col("c")


def slices(present: BitMap, *bits: BitMap) -> bytes:
    bodies = [serialize(b) for b in bits]
    starts = np.cumsum([0, *[len(b) for b in bodies]])
    table = b"".join(struct.pack(">ii", start, len(body)) for start, body in zip(starts, bodies, strict=False))
    head = struct.pack(">BBii", 1, len(bits), len(serialize(present)), len(table)) + table
    return struct.pack(">i", len(head)) + head + serialize(present) + b"".join(bodies)


# INT [10, 20, null, 10]: the head is the fact sheet's; one chunk, key 10 in its head and 20 in its body
HEAD = bytes.fromhex("00000015 01 00000004 00000002 0000000a 00000014 00000032")
DICTIONARY = bytes.fromhex(
    "0000000d 01 00000001 00000004 00000019 00000000 01 0000000a 00000000 00000000 00000001 00000004 00000004 00000014"
)
SAMPLE = HEAD + DICTIONARY + slices(BitMap([0, 1, 3]), BitMap([1]))


@pytest.mark.slow
@pytest.mark.parametrize("chunk_size", ["0", "10 b", "100 b", "16 kb"])
@pytest.mark.parametrize("text", [False, True])
def test_many_rows_and_chunks(chunk_size: str, text: bool) -> None:
    rng = np.random.default_rng(11)
    numbers = rng.integers(0, 3000, 150_000) * 2
    names = np.char.mod("%05d", numbers) if text else numbers
    payload = build("STRING" if text else "BIGINT", pa.array(names), chunk_size=chunk_size)
    reader = INDEXER.create_reader(parse_type("STRING" if text else "BIGINT"), payload, rows=len(numbers))
    for value in (0, 1, 2, 777, 778, 5998, 5999, 9999):
        key: Any = f"{value:05}" if text else value
        below, at = numbers < value, numbers == value
        for pred, mask in ((c == key, at), (c < key, below), (c >= key, ~below), (c > key, ~below & ~at)):
            assert isinstance(pred, Leaf)
            assert reader.select(pred) == BitMap(np.flatnonzero(mask).astype(np.uint32)), pred


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (4, "02", "version 1"),
        (5, "ffffffff", "range bitmap of 2 values"),
        (9, "00000009", "range bitmap of 9 values"),
        (0, "00000016", "contradicts itself"),
        (13, "0000001e", "contradicts itself"),
        (25 + 3, "0e", "a dictionary of"),
        (25 + 8, "03", "a dictionary of"),
        (25 + 17, "00000019", "out of order|more bytes"),
        (25 + 21, "02", "head of a dictionary's chunk"),
        (25 + 26, "00000001", "from rank 1"),
        (25 + 34, "00000002", "head of a dictionary's chunk"),
        (25 + 46, "00000005", "out of order"),
        (75 + 4, "02", "bit slices for"),
        (75 + 5, "02", "bit slices for"),
        (75 + 14, "00000001", "bit slices out of order|more bytes"),
    ],
)
def test_damage_without_a_checksum(at: int, value: str, message: str) -> None:
    data = bytearray(SAMPLE)
    data[at : at + len(value) // 2] = bytes.fromhex(value)
    assert bytes(data) != SAMPLE
    with pytest.raises(CorruptFileError, match=message):
        ask("INT", bytes(data), c == 15)


def test_a_slice_with_rows_that_have_no_value() -> None:
    broken = HEAD + DICTIONARY + slices(BitMap([0, 1, 3]), BitMap([1, 2]))
    with pytest.raises(CorruptFileError, match="rows without a value"):
        ask("INT", broken, c == 20)


@pytest.mark.parametrize("most", [60, 120])
def test_what_positions_cannot_reach_is_not_indexed(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the dictionary alone, and by the bitmaps beside it."""
    monkeypatch.setattr(range_bitmap, "_MOST_BYTES", most)
    writer = INDEXER.create_writer(parse_type("STRING"), {})
    writer.add(pa.array(["first", "second", "third", "fourth"]))
    assert writer.finish() is None
