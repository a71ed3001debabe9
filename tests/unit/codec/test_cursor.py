from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.codec.cursor import Cursor, write_java_utf
from lakeidx.errors import CorruptFileError

READERS: list[tuple[Callable[[Cursor], int], str]] = [
    (Cursor.u8, ">B"),
    (Cursor.i8, ">b"),
    (Cursor.i16be, ">h"),
    (Cursor.i32be, ">i"),
    (Cursor.i32le, "<i"),
    (Cursor.i64be, ">q"),
]


@pytest.mark.parametrize(("read", "form"), READERS)
@given(data=st.binary(max_size=24))
def test_numbers_of_fixed_width_are_read_to_the_end(read: Callable[[Cursor], int], form: str, data: bytes) -> None:
    cursor, width = Cursor(data, "f"), struct.calcsize(form)
    for at in range(0, len(data) - width + 1, width):
        assert read(cursor) == struct.unpack_from(form, data, at)[0]
    left = len(data) % width
    assert cursor.remaining == left
    with pytest.raises(CorruptFileError) as caught:
        read(cursor)
    assert (caught.value.path, caught.value.offset) == ("f", len(data) - left)


def leb128(n: int) -> bytes:
    out = []
    while True:
        out.append(n & 0x7F | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(out)


@given(st.integers(0, (1 << 64) - 1))
def test_varints_are_read_and_cut_ones_are_damaged(n: int) -> None:
    data = leb128(n)
    cursor = Cursor(data + b"x")
    assert cursor.varint() == n
    assert cursor.remaining == 1
    for cut in range(len(data)):
        with pytest.raises(CorruptFileError):
            Cursor(data[:cut]).varint()


@pytest.mark.parametrize("data", [b"\xff" * 10, b"\x80" * 9 + b"\x02", b"\x80" * 20])
def test_varint_beyond_64_bits(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        Cursor(data).varint()
    assert caught.value.offset == 0


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_varints_are_read(n: int) -> None:
    assert Cursor(leb128(n * 2 if n >= 0 else -n * 2 - 1)).zigzag() == n


def test_bytes_views_and_positions() -> None:
    cursor = Cursor(memoryview(b"abcdef"), "f", base=100)
    assert len(cursor) == 6
    assert cursor.bytes(2) == b"ab"
    view = cursor.view(2)
    assert isinstance(view, memoryview)
    assert bytes(view) == b"cd"
    cursor.skip(1)
    assert (cursor.pos, cursor.remaining) == (5, 1)
    cursor.seek(0)
    assert cursor.bytes(0) == b""
    for bad in (lambda: cursor.bytes(7), lambda: cursor.bytes(-1), lambda: cursor.view(7), lambda: cursor.skip(7)):
        with pytest.raises(CorruptFileError) as caught:
            bad()
        assert caught.value.offset == 100
        assert cursor.pos == 0
    for at in (-1, 7):
        with pytest.raises(CorruptFileError):
            cursor.seek(at)


def java_write_utf(text: str) -> bytes:
    """DataOutput.writeUTF by its documentation, char by char."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    out = io.BytesIO()
    for c in units:
        if 1 <= c <= 0x7F:
            out.write(bytes([c]))
        elif c <= 0x7FF:
            out.write(bytes([0xC0 | c >> 6, 0x80 | c & 0x3F]))
        else:
            out.write(bytes([0xE0 | c >> 12, 0x80 | c >> 6 & 0x3F, 0x80 | c & 0x3F]))
    body = out.getvalue()
    return struct.pack(">H", len(body)) + body


@given(st.text(max_size=50))
def test_modified_utf_8_is_written_and_read(text: str) -> None:
    data = java_write_utf(text)
    assert write_java_utf(text) == data
    cursor = Cursor(data)
    assert cursor.java_utf() == text
    assert cursor.remaining == 0


def test_java_utf_of_nul_and_astral() -> None:
    assert write_java_utf("a\x00𝄞") == bytes.fromhex("000961c080eda0b4edb49e")
    with pytest.raises(ValueError, match="65535"):
        write_java_utf("x" * 65536)


@pytest.mark.parametrize("body", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xed\xb0\x80x"])
def test_java_utf_that_is_none(body: bytes) -> None:
    with pytest.raises(CorruptFileError):
        Cursor(struct.pack(">H", len(body)) + body).java_utf()
