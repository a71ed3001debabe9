"""A zstd frame whose damaged header says that it holds terabytes was given as much memory, or ended in MemoryError."""

from __future__ import annotations

import pytest

from lakeidx.codec.containers.compress import (
    BlockCodec,
    decompress_block,
    decompress_zstd_ranges,
)
from lakeidx.errors import CorruptFileError

# Magic number; one segment, content size of 8 bytes; the content size; an empty last block.
FRAME = bytes.fromhex("28b52ffd e0") + (1 << 42).to_bytes(8, "little") + bytes.fromhex("010000")


def test_the_expected_size_is_the_limit() -> None:
    with pytest.raises(CorruptFileError, match="holds 4398046511104 bytes, expected 100") as error:
        decompress_block(BlockCodec.ZSTD, memoryview(FRAME), 100, path="x", base=7)
    assert (error.value.path, error.value.offset) == ("x", 7)
    with pytest.raises(CorruptFileError, match="holds 4398046511104 bytes, expected 100"):
        decompress_zstd_ranges(memoryview(b"-" + FRAME), [1], [1 + len(FRAME)], [100])
