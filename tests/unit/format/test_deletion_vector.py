from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest
from pyroaring import BitMap

from lakeidx.errors import CorruptFileError
from lakeidx.format.deletion_vector import (
    Positions,
    decode_vector,
    encode_deletion_vectors,
    scan_deletion_vectors,
    vector_range,
)
from lakeidx.format.index_manifest import DeletionVectorMeta


def read(data: bytes, metas: Sequence[DeletionVectorMeta]) -> dict[str, Positions]:
    """Each vector from the bytes of its own range."""
    found = {}
    for meta in metas:
        offset, size = vector_range(meta)
        found[meta.data_file_name] = decode_vector(data[max(offset, 0) : offset + size], meta, "index-1")
    return found


def test_no_vectors_is_one_byte() -> None:
    assert encode_deletion_vectors({}) == (b"\x01", ())
    assert scan_deletion_vectors(b"\x01") == []


def test_positions_beyond_32_bits() -> None:
    rows = {7, (1 << 32) + 3, (5 << 32) + 1}
    data, metas = encode_deletion_vectors({"d": rows}, bitmap64=True)
    assert set(read(data, metas)["d"]) == rows
    # Java also writes the empty bitmaps in between.
    body = bytes.fromhex("d1d33964") + struct.pack("<q", 2)
    body += struct.pack("<i", 0) + BitMap().serialize() + struct.pack("<i", 1) + BitMap([3]).serialize()
    vector = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert [list(v.positions) for v in scan_deletion_vectors(b"\x01" + vector)] == [[(1 << 32) + 3]]


def sample(bitmap64: bool) -> tuple[bytes, tuple[DeletionVectorMeta, ...]]:
    return encode_deletion_vectors({"a": [1, 5, 9], "b": range(100)}, bitmap64=bitmap64)


def test_a_file_of_another_version_is_named() -> None:
    with pytest.raises(CorruptFileError, match="expected 1, found 3"):
        scan_deletion_vectors(b"\x03" + sample(False)[0][1:])


def test_entries_that_do_not_fit() -> None:
    data, (a, b) = sample(False)
    for meta in (
        DeletionVectorMeta(data_file_name="a", offset=a.offset, length=a.length + 1),
        DeletionVectorMeta(data_file_name="a", offset=a.offset, length=a.length, cardinality=2),
        DeletionVectorMeta(data_file_name="a", offset=b.offset, length=a.length),
        DeletionVectorMeta(data_file_name="a", offset=-1, length=a.length),
        DeletionVectorMeta(data_file_name="a", offset=1 << 30, length=a.length),
    ):
        with pytest.raises(CorruptFileError):
            read(data, [meta])
    unsaid = DeletionVectorMeta(data_file_name="a", offset=a.offset, length=a.length, cardinality=None)
    assert len(read(data, [unsaid])["a"]) == 3
