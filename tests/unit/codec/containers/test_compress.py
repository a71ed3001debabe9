from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.compress import (
    BlockCodec,
    BlockCompressor,
    decompress_block,
    parse_codec,
)
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError

WRITTEN = [BlockCodec.NONE, BlockCodec.ZSTD, BlockCodec.LZ4]
blocks = st.binary(max_size=300) | st.binary(max_size=20).map(lambda part: part * 50)


@settings(deadline=None)
@given(st.sampled_from(WRITTEN), blocks)
def test_what_is_compressed_is_decompressed(codec: BlockCodec, block: bytes) -> None:
    payload = BlockCompressor(codec).compress(block)
    assert decompress_block(codec, memoryview(payload), len(block)).tobytes() == block


def test_type_bytes_and_names_are_those_of_paimon() -> None:
    assert [(codec.value, codec.option_name) for codec in BlockCodec] == [
        (0, "none"), (1, "zstd"), (2, "lz4"), (3, "lzo"),
    ]  # fmt: skip
    assert parse_codec(" ZSTD ") is BlockCodec.ZSTD
    with pytest.raises(InvalidInputError, match="'gzip'"):
        parse_codec("gzip")


def test_zstd_frames_carry_no_size_and_no_checksum() -> None:
    frame = BlockCompressor(BlockCodec.ZSTD).compress(b"abcdef" * 20)
    # Magic number, frame header descriptor 0, window byte of level 1: as in the sheet of the hash store.
    assert frame[:6].hex() == "28b52ffd0048"


def test_what_cannot_be_written() -> None:
    with pytest.raises(UnsupportedError, match="read but not written"):
        BlockCompressor(BlockCodec.LZO)
    for level in (0, 23):
        with pytest.raises(InvalidInputError, match="zstd-level': a level is 1 to 22"):
            BlockCompressor(BlockCodec.ZSTD, level)


@pytest.mark.parametrize("codec", [BlockCodec.ZSTD, BlockCodec.LZ4])
@pytest.mark.parametrize("difference", [-5, -1, 1, 5])
def test_another_size_is_damage(codec: BlockCodec, difference: int) -> None:
    block = b"some words " * 30
    payload = bytearray(BlockCompressor(codec).compress(block))
    size = len(block) + difference
    if codec is BlockCodec.LZ4:
        struct.pack_into("<i", payload, 4, size)
    with pytest.raises(CorruptFileError) as caught:
        decompress_block(codec, memoryview(bytes(payload)), size, path="f", base=40)
    assert caught.value.path == "f"
    assert caught.value.offset is not None
    assert caught.value.offset >= 40


@settings(deadline=None)
@given(st.integers(0, 255), st.binary(max_size=80), st.integers(0, 1000))
def test_any_bytes_give_a_block_of_the_size_or_damage(codec: int, payload: bytes, size: int) -> None:
    with suppress(CorruptFileError):
        assert len(decompress_block(codec, memoryview(payload), size)) == size


@pytest.mark.parametrize("codec", [BlockCodec.ZSTD, BlockCodec.LZ4])
def test_every_cut_is_damage(codec: BlockCodec) -> None:
    block = bytes(range(200)) + b"x" * 100
    payload = BlockCompressor(codec).compress(block)
    for end in range(len(payload)):
        with pytest.raises(CorruptFileError):
            decompress_block(codec, memoryview(payload[:end]), len(block))


def test_frames_that_follow_one_another_are_one_block() -> None:
    blocks = [b"first" * 50, b"", b"second" * 70]
    payload = b"".join(BlockCompressor(BlockCodec.ZSTD).compress(block) for block in blocks)
    whole = b"".join(blocks)
    assert decompress_block(BlockCodec.ZSTD, memoryview(payload), len(whole)).tobytes() == whole
    for size in (len(whole) - 1, len(whole) + 1):
        with pytest.raises(CorruptFileError, match=f"holds 670 bytes, expected {size}"):
            decompress_block(BlockCodec.ZSTD, memoryview(payload), size)
    for end in range(len(payload)):
        with pytest.raises(CorruptFileError):
            decompress_block(BlockCodec.ZSTD, memoryview(payload[:end]), len(whole))


# An LZO1X stream by hand: four literals, a copy of 3 bytes from 4 back and two literals, one of 2 from 2 back, the end mark.
LZO_STREAM, LZO_BLOCK = (
    bytes([17 + 4]) + b"abcd" + bytes([0x40 | 3 << 2 | 2, 0]) + b"XY\x04\x00\x11\x00\x00",
    b"abcdabcXYXY",
)


def lzo(stream: bytes, size: int) -> bytes:
    payload = struct.pack("<ii", len(stream), size) + stream
    return decompress_block(BlockCodec.LZO, memoryview(payload), size, path="f", base=7).tobytes()


def test_lzo_is_read_and_its_damage_named() -> None:
    assert lzo(LZO_STREAM, len(LZO_BLOCK)) == LZO_BLOCK
    for size in (len(LZO_BLOCK) - 1, len(LZO_BLOCK) + 1):
        with pytest.raises(CorruptFileError, match=f"holds 11 bytes, expected {size}"):
            lzo(LZO_STREAM, size)
    for stream in [*(LZO_STREAM[:end] for end in range(len(LZO_STREAM))), LZO_STREAM + b"\0"]:
        with pytest.raises(CorruptFileError, match="f at byte 15: LZO block is damaged") as caught:
            lzo(stream, len(LZO_BLOCK))
        assert caught.value.offset == 15
