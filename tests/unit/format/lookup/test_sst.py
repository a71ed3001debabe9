from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.compress import BlockCodec, BlockCompressor
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.sst import (
    BlockHandle,
    decode_body,
    decode_footer,
    decode_index_value,
    describe_sst,
    encode_body,
    encode_index_value,
    read_block,
    stored_block,
)

# The worked file of the format sheet: INT keys 1 and 2, values 11 and 12, no compression, no filter.
WORKED = bytes.fromhex(
    "06 000001000000 01 11  06 000002000000 01 12  09000000 00  00 7ee9ea96"
    "06 000002000000 02 0017  0a000000 00  00 5a3e62f2"
    "0000000000000000 00000000 0000000000000000 1c00000000000000 0f000000 61fd4e58"
)
entries = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=8)


def test_an_empty_block_is_unaligned() -> None:
    assert encode_body([]).hex() == "0000000001"
    assert decode_body(encode_body([])) == []


@given(st.sampled_from([BlockCodec.NONE, BlockCodec.ZSTD, BlockCodec.LZ4]), entries, st.integers(1, 40))
def test_stored_blocks_round_trip(codec: BlockCodec, rows: list[tuple[bytes, bytes]], repeats: int) -> None:
    body = encode_body(rows * repeats)
    stored, trailer = stored_block(body, BlockCompressor(codec))
    assert bytes(read_block(memoryview(bytes(stored) + trailer), BlockHandle(0, len(stored)))) == body
    assert len(stored) == len(body) or len(stored) < len(body) - len(body) // 8
    assert struct.unpack("<I", trailer[1:])[0] == zlib.crc32(bytes(stored) + trailer[:1])


@given(st.binary(max_size=60))
def test_any_bytes_as_a_body(data: bytes) -> None:
    try:
        rows = decode_body(data, path="f")
    except CorruptFileError as e:
        assert e.path == "f"  # noqa: PT017
    else:
        # Only what the encoder writes is accepted, up to the form: equal sizes may be written unaligned.
        assert sorted(decode_body(encode_body(rows))) == sorted(rows)


@settings(deadline=None)
@given(st.binary(min_size=36, max_size=36), st.integers(0, 200))
def test_any_bytes_as_a_footer(data: bytes, size: int) -> None:
    data = data[:32] + struct.pack("<i", 1481571681)
    try:
        footer = decode_footer(data, size)
    except CorruptFileError as e:
        assert e.offset is not None  # noqa: PT017
    else:
        assert footer.index.offset + footer.index.size + 5 + 36 == size


@pytest.mark.parametrize("at", range(len(WORKED)))
@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_found(at: int, change: int) -> None:
    data = bytearray(WORKED)
    data[at] ^= change
    with pytest.raises(CorruptFileError) as caught:
        describe_sst(memoryview(bytes(data)), path="f")
    assert caught.value.path == "f"
    assert caught.value.offset is not None
    # The part that is named is the part that was changed, or one that it points to.
    assert (caught.value.offset >= 28) == (at >= 28)


def test_places_of_blocks_are_encoded_and_decoded() -> None:
    for offset in (0, 127, 128, 1 << 40):
        handle = BlockHandle(offset, 65536)
        assert decode_index_value(encode_index_value(handle)) == handle
    for data in (b"", b"\x00", b"\x80", b"\x00\x00\x00"):
        with pytest.raises(CorruptFileError):
            decode_index_value(data)
