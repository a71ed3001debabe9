"""Bitmap payloads: worked bytes of the released Java, blocks, several containers of rows, damage that has no
checksum.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakeidx.errors import CorruptFileError
from lakeidx.file_index.kinds.bitmap import BitmapIndexer, BitmapIndexReader
from lakeidx.predicate import Leaf, col
from lakeidx.types import parse_type
from tests.unit.file_index.kinds import payloads

INDEXER = BitmapIndexer()
build = partial(payloads.build, INDEXER)
ask = partial(payloads.ask, INDEXER)
c = col("c")
R = "3a30000001000000" + "00000100" + "10000000" + "00000200"
SEVEN_NULL_SEVEN_NINE = {
    "1": "01 00000004 00000002 01 fffffffe 00000007 00000000 00000009 fffffffc" + R,
    "2": "02 00000004 00000002 01 fffffffe 00000012 00000001 00000007 00000000 0000001c 00000002"
    "00000007 00000000 00000014 00000009 fffffffc ffffffff" + R,
}


@pytest.mark.parametrize("options", [{}, {"version": "1"}, {"index_block_size": "64 b"}])
@pytest.mark.parametrize("text", [False, True])
def test_rows_of_many_containers_and_blocks(options: dict[str, str], text: bool) -> None:
    rng = np.random.default_rng(5)
    numbers = np.concatenate([rng.integers(0, 300, 100_000), np.full(70_000, 77), np.arange(1000, 2000)])
    valid = rng.random(len(numbers)) > 0.1
    column: Any = pa.array(numbers, pa.int32(), mask=~valid)
    column = column.cast(pa.string()) if text else column
    payload = build("STRING" if text else "INT", column, **options)
    reader = INDEXER.create_reader(parse_type("STRING" if text else "INT"), payload, rows=len(numbers))
    for value in (0, 77, 299, 1500, 300):
        pred = c == (str(value) if text else value)
        assert isinstance(pred, Leaf)
        assert reader.select(pred) == BitMap(np.flatnonzero((numbers == value) & valid).astype(np.uint32))
    null = c.is_null()
    assert isinstance(null, Leaf)
    assert reader.select(null) == BitMap(np.flatnonzero(~valid).astype(np.uint32))


def test_block_directory_follows_the_limit() -> None:
    payload = build("INT", pa.array(range(10), pa.int32()), index_block_size="40 b")
    # u8, rows, values, flag, then blocks of at most (40 - 4) / 12 = 3 entries
    assert struct.unpack(">BiiBi", payload[:14]) == (2, 10, 10, 0, 4)
    firsts = [struct.unpack(">ii", payload[14 + 8 * i : 22 + 8 * i]) for i in range(4)]
    assert firsts == [(0, 0), (3, 40), (6, 80), (9, 120)]


def test_a_key_longer_than_a_block_cannot_be_kept() -> None:
    writer = INDEXER.create_writer(parse_type("STRING"), {"index-block-size": "40 b"})
    writer.add(pa.array(["x" * 25]))
    assert writer.finish() is None
    writer = INDEXER.create_writer(parse_type("STRING"), {"index-block-size": "40 b"})
    writer.add(pa.array(["x" * 24]))
    assert writer.finish() is not None


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, "03", "version 1 or 2"),
        (1, "ffffffff", "values in"),
        (5, "00000009", "values in"),
        (9, "02", "null flag"),
        (18, "00000007", "blocks for"),
        (18, "ffffffff", "blocks for"),
        (26, "00000004", "out of order"),
        (34, "00000003", "does not match its directory|entries|more bytes"),
        (38, "00000006", "does not match its directory"),
        (50, "00000001", "out of order"),
        (54, "ffffff00", "row 255 of a bitmap"),
        (46, "ffffffff", "a bitmap of -1 bytes"),
        (42, "7fffffff", "more bytes"),
    ],
)
def test_damage_without_a_checksum(at: int, value: str, message: str) -> None:
    data = bytearray(bytes.fromhex(SEVEN_NULL_SEVEN_NINE["2"]))
    data[at : at + len(value) // 2] = bytes.fromhex(value)
    with pytest.raises(CorruptFileError, match=message):
        ask("INT", bytes(data), c.is_in([7, 9]))


def test_another_number_of_rows() -> None:
    with pytest.raises(CorruptFileError, match="for a file of 5"):
        BitmapIndexReader(parse_type("INT"), bytes.fromhex(SEVEN_NULL_SEVEN_NINE["2"]), rows=5)
