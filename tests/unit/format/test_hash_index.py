from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lakeidx.errors import CorruptFileError
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.hash_index import check_checksum, decode_hash_index, encode_hash_index, has_its_checksum


@given(hnp.arrays(np.int32, st.integers(0, 50)))
def test_as_struct_does(hashes: np.ndarray) -> None:
    data = encode_hash_index(hashes)
    assert data == struct.pack(f">{len(hashes)}i", *hashes.tolist())
    back = decode_hash_index(data)
    assert back.dtype == np.int32
    assert back.flags.writeable
    assert back.tolist() == hashes.tolist()


@given(st.binary(max_size=40))
def test_any_bytes_are_hashes_if_they_are_whole(data: bytes) -> None:
    if len(data) % 4 == 0:
        assert len(decode_hash_index(data)) == len(data) // 4
        return
    with pytest.raises(CorruptFileError) as caught:
        decode_hash_index(data, "index-1")
    assert (caught.value.path, caught.value.offset) == ("index-1", len(data) - len(data) % 4)


@given(hnp.arrays(np.int32, st.integers(1, 50)), st.integers(0))
def test_any_other_bit_differs_from_the_checksum_in_the_name(hashes: np.ndarray, bit: int) -> None:
    data = encode_hash_index(hashes)
    path = f"s3://bucket/t/index/{NewFileNames().index_name(zlib.crc32(data))}"
    check_checksum(data, path)
    at, inside = divmod(bit % (8 * len(data)), 8)
    damaged = data[:at] + bytes([data[at] ^ 1 << inside]) + data[at + 1 :]
    assert not has_its_checksum(damaged, path)
    with pytest.raises(CorruptFileError, match="lacks the checksum in its name: rebuild the hash index") as caught:
        check_checksum(damaged, path)
    assert caught.value.path == path


@pytest.mark.parametrize("name", ["index-902b92c1-8b86-410a-8703-fb53f45b4dfb-0", "other", "index-0"])
def test_names_of_other_writers_have_no_checksum(name: str) -> None:
    check_checksum(b"abcd", f"/t/index/{name}")
