"""The container: worked bytes, reads in parts, and every kind of damage."""

from __future__ import annotations

import struct

import pytest

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError
from lakeidx.file_index.container import FileIndexContainer, decode_index_container, encode_index_container

INDEXES: dict[str, dict[str, bytes | None]] = {
    "a": {"bloom-filter": b"0123456789", "bitmap": b"abc"},
    "größe": {"bsi": b""},
    "m[k\0]": {"bloom-filter": None},
    "z": {"range-bitmap": b"\xff" * 20},
}


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("indexes", [INDEXES, {}, {"c": {}}, {"c": {"x": None}}])
def test_what_is_encoded_is_decoded(indexes: dict[str, dict[str, bytes | None]], checksums: bool) -> None:
    data = encode_index_container(indexes, checksums=checksums)
    assert decode_index_container(data) == {c: by for c, by in indexes.items() if by}


def test_checksums_lie_where_the_table_says() -> None:
    data = encode_index_container({"c": {"bitmap": b"\xaa\xbb"}})
    plain = encode_index_container({"c": {"bitmap": b"\xaa\xbb"}}, checksums=False)
    head_length = struct.unpack(">i", data[12:16])[0]
    assert head_length == len(plain) - 2 + 12
    trailer = data[head_length - 16 : head_length]
    assert trailer[:8] == struct.pack(">i", 12) + b"LXC1"
    assert trailer[8:12] == struct.pack(">I", crc32(b"\xaa\xbb"))
    assert trailer[12:] == struct.pack(">I", crc32(data[: head_length - 4]))
    assert data[head_length:] == b"\xaa\xbb"


@pytest.mark.slow
def test_a_head_longer_than_the_first_read() -> None:
    many = {f"column {i:05}": {"bitmap": b"x"} for i in range(4000)}
    data = encode_index_container(many)
    assert struct.unpack(">i", data[12:16])[0] > 1 << 16
    assert decode_index_container(data) == many


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"\x01", "magic"),
        (8, b"\xff\xff\xff\xff", "expected version 1"),
        (12, b"\x7f\xff\xff\xff", "a head of"),
        (16, b"\xff\xff\xff\xff", "columns"),
    ],
)
def test_what_is_said(at: int, value: bytes, message: str) -> None:
    data = bytearray(encode_index_container(INDEXES))
    data[at : at + len(value)] = value
    with pytest.raises(CorruptFileError, match=message) as caught:
        decode_index_container(bytes(data), "f.index")
    assert caught.value.path == "f.index"


def test_newer_versions_and_other_trailers() -> None:
    data = bytearray(encode_index_container(INDEXES, checksums=False))
    data[11] = 2
    with pytest.raises(UnsupportedError, match="version 2"):
        decode_index_container(bytes(data))
    foreign = bytearray(encode_index_container({}))
    foreign[24:28] = b"WHAT"
    with pytest.raises(CorruptFileError, match="other bytes"):
        decode_index_container(bytes(foreign))


def test_one_index_twice() -> None:
    data = encode_index_container({"c": {"ab": b"1", "cd": b"2"}}, checksums=False).replace(b"cd", b"ab")
    with pytest.raises(CorruptFileError, match="two ab indexes"):
        decode_index_container(data)


def test_a_source_that_gives_less() -> None:
    data = encode_index_container(INDEXES)
    container = FileIndexContainer(lambda o, n: data[o : o + n] if o == 0 else b"", len(data))
    assert container.payload(container.indexes_of("z")[0]) == b"\xff" * 20  # small: came with the head
    big = encode_index_container({"a": {"b": bytes(1 << 17)}})
    container = FileIndexContainer(lambda o, n: big[o : o + n] if o == 0 else b"", len(big))
    with pytest.raises(CorruptFileError, match="expected 131072 bytes, found 0"):
        container.payload(container.entries[0])


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="65535"):
        encode_index_container({"x" * 70000: {"bitmap": b""}})
