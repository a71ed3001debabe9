"""Bit-sliced payloads: worked structure of the released Java, extreme values, damage that has no checksum."""

from __future__ import annotations

import struct
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakeidx.codec.roaring import serialize
from lakeidx.errors import CorruptFileError
from lakeidx.file_index.kinds.bsi import BsiIndexer
from lakeidx.predicate import col
from lakeidx.types import parse_type
from tests.unit.file_index.kinds import payloads

INDEXER = BsiIndexer()
ask = partial(payloads.ask, INDEXER)
c = col("c")


def build(type_text: str, column: pa.Array) -> bytes | None:
    writer = INDEXER.create_writer(parse_type(type_text), {})
    writer.add(column)
    return writer.finish()


def bitmap(*rows: int) -> bytes:
    return serialize(BitMap(rows))


def slices(greatest: int, present: bytes, *bits: bytes) -> bytes:
    return b"\x01" + struct.pack(">qq", 0, greatest) + present + struct.pack(">i", len(bits)) + b"".join(bits)


POSITIVE = slices(3, bitmap(0, 1), bitmap(0, 1), bitmap(1))
NEGATIVE = slices(2, bitmap(3), bitmap(), bitmap(3))
SAMPLE = struct.pack(">Bi", 1, 4) + b"\x01" + POSITIVE + b"\x01" + NEGATIVE


def test_rows_of_many_containers() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-1000, 1000, 200_000)
    payload = build("BIGINT", pa.array(values))
    assert payload is not None
    for pred, mask in ((c > 10, values > 10), (c <= -999, values <= -999), (c == 0, values == 0)):
        assert ask("BIGINT", payload, pred) == BitMap(np.flatnonzero(mask).astype(np.uint32))


@pytest.mark.parametrize(
    "broken",
    [
        b"\x02" + SAMPLE[1:],
        SAMPLE[:1] + struct.pack(">i", -1) + SAMPLE[5:],
        SAMPLE[:1] + struct.pack(">i", 2) + SAMPLE[5:],
        SAMPLE[:5] + b"\x02" + SAMPLE[6:],
        SAMPLE + b"\x00",
        struct.pack(">Bi", 1, 4) + b"\x01" + slices(7, bitmap(0, 1), bitmap(0, 1), bitmap(1)) + b"\x00",
        struct.pack(">Bi", 1, 4) + b"\x01" + slices(3, bitmap(0, 1), bitmap(0, 2), bitmap(1)) + b"\x00",
        struct.pack(">Bi", 1, 4) + b"\x01" + slices(3, bitmap(0, 1), bitmap(0), bitmap(1)) + b"\x00",
        struct.pack(">Bi", 1, 4) + b"\x01" + slices(0, bitmap()) + b"\x00",
        struct.pack(">Bi", 1, 4) + b"\x01" + POSITIVE + b"\x01" + POSITIVE,
    ],
)
def test_a_payload_that_contradicts_itself_is_damaged(broken: bytes) -> None:
    with pytest.raises(CorruptFileError):
        INDEXER.create_reader(parse_type("INT"), broken, path="f")
