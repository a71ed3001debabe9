"""Dumps of docs/format: every byte has a meaning, and the meanings are those that the decoders find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakeidx.codec.containers.avro import decode_container
from lakeidx.format.hash_index import decode_hash_index
from tools.docs.dumps import cases
from tools.docs.walk import Piece, Walk, dump_text

ROOT = Path(__file__).resolve().parents[2]


def pieces(name: str) -> tuple[bytes, list[Piece]]:
    file, walk = cases()[name]
    data = file.read_bytes()
    return data, walk(data)


@pytest.mark.parametrize("name", [n for n in cases() if n != "manifest-list"])
def test_pieces_are_the_file(name: str) -> None:
    data, found = pieces(name)
    assert b"".join(p.data for p in found) == data
    assert all(p.meaning for p in found)
    assert [p.offset for p in found] == [sum(len(q.data) for q in found[:i]) for i in range(len(found))]


def test_hashes_are_those_of_the_decoder() -> None:
    data, found = pieces("hash-index")
    assert [int(p.meaning.rpartition(" ")[2]) for p in found] == decode_hash_index(data).tolist()


def test_records_are_those_of_the_decoder() -> None:
    data, found = pieces("manifest-list")
    names = [m[1] for p in found if (m := re.fullmatch(r'_FILE_NAME = "(.*)"', p.meaning))]
    assert names == [r["_FILE_NAME"] for r in decode_container(data)]


def test_a_walk_that_stops_early_or_goes_too_far_is_an_error() -> None:
    with pytest.raises(AssertionError, match="not explained"):
        Walk(b"ab").done()
    with pytest.raises(AssertionError, match="wanted"):
        Walk(b"ab").take(3, "x")


def test_long_pieces_show_their_size() -> None:
    text = dump_text([Piece(0, bytes(range(20)), "many"), Piece(20, b"\xff", "one")], "t")
    assert "00000000  00 01 02 03 04 05 06 07 08 09 0a … 20 bytes" in text
    assert re.search(r"^00000014  ff +one$", text, re.MULTILINE)


def test_every_page_of_a_file_kind_has_a_dump() -> None:
    for page in (ROOT / "docs/format").glob("*.md"):
        if page.name != "index.md":
            assert "<!-- dump: " in page.read_text(encoding="utf-8"), page.name
