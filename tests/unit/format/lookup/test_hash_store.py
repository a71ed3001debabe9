from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.lookup.hash_store import (
    HashContext,
    LengthSection,
    check_context,
    decode_context,
    describe_context,
    encode_context,
    slots_for,
)

# The worked file of the format sheet, 43 bytes, in pages of 16.
CONTEXT = HashContext(
    codec=BlockCodec.LZ4,
    page_size=16,
    image_size=43,
    bloom_entries=4,
    bloom_size=3,
    sections=(LengthSection(1, 1, 1, 2, 3, 33), LengthSection(6, 3, 4, 7, 5, 38)),
    page_sizes=np.array([30, 28, 24], np.int64),
    page_checksums=np.array([1, 0xFFFFFFFF, 3], np.uint32),
)


def same(a: HashContext, b: HashContext) -> bool:
    return describe_context(a) == describe_context(b) and a.page_sizes.tolist() == b.page_sizes.tolist()


def test_what_is_encoded_is_decoded() -> None:
    data = encode_context(CONTEXT)
    again = decode_context(data)
    assert same(again, CONTEXT)
    assert again.page_checksums.tolist() == [1, 0xFFFFFFFF, 3]
    assert encode_context(again) == data
    assert (again.entries, again.file_size) == (4, 82)


def test_the_byte_table() -> None:
    data = encode_context(CONTEXT)
    assert data[:8].hex() == "4c4b4843" + "0100" + "02" + "00"
    assert (
        data[8:44].hex()
        == "5200000000000000" + "2b00000000000000" + "10000000" + "0400000000000000" + "03000000" + "02000000"
    )
    assert data[44:76].hex() == "01000000" * 3 + "02000000" + "0300000000000000" + "2100000000000000"
    assert data[-32:-28].hex() == "03000000"[:8]
    assert data[-28:-4].hex() == "1e00000001000000" + "1c000000ffffffff" + "1800000003000000"
    assert int.from_bytes(data[-4:], "little") == crc32(data[:-4])


def test_a_newer_version_is_refused_as_such() -> None:
    data = bytearray(encode_context(CONTEXT)[:-4])
    data[4] = 2
    with pytest.raises(UnsupportedError, match="version 2"):
        decode_context(bytes(data) + crc32(data).to_bytes(4, "little"))


def section(**changes: int) -> tuple[LengthSection, ...]:
    return (CONTEXT.sections[0], replace(CONTEXT.sections[1], **changes))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"page_size": 12}, "page size of 12"),
        ({"page_size": 0}, "page size of 0"),
        ({"page_size": 32}, "3 pages of 32"),
        ({"bloom_entries": 0}, "filter of 3 bytes for 0"),
        ({"bloom_size": 0}, "filter of 0 bytes for 4"),
        ({"bloom_size": 4}, "slot table of length 1 at 3, expected 4"),
        ({"sections": CONTEXT.sections[::-1]}, "slot table of length 6 at 5, expected 3"),
        ({"sections": section(count=5)}, "section"),
        ({"sections": section(count=0)}, "section"),
        ({"sections": section(slot_size=6)}, "section"),
        ({"sections": section(index_offset=6)}, "slot table of length 6 at 6"),
        ({"sections": section(data_offset=34)}, "data of length 6 at 34"),
        ({"sections": section(data_offset=42)}, "parts of 44 bytes"),
        ({"sections": ()}, "parts of 3 bytes in an image of 43"),
    ],
)
def test_a_context_that_contradicts_itself_is_damaged(changes: dict[str, object], what: str) -> None:
    with pytest.raises(CorruptFileError, match=what):
        check_context(replace(CONTEXT, **changes), path="c")  # type: ignore[arg-type]


# From the format sheet, as Java gave them.
@pytest.mark.parametrize(
    ("count", "load", "slots"),
    [(1, 0.75, 1), (2, 0.8, 3), (10, 0.8, 13), (2, 0.800000011920929, 2), (10, 0.800000011920929, 12), (40, 0.99, 40)],
)
def test_slots_round_halves_up(count: int, load: float, slots: int) -> None:
    assert slots_for(count, load) == slots
