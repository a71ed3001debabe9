"""Shares of text files: read one after the other they give what the whole file gives, rows, lines and bad lines."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakeidx.errors import InvalidInputError
from lakeidx.landing.text import shares as text_shares
from lakeidx.landing.text.csv import CsvHeader, csv_header, read_csv
from lakeidx.landing.text.json_lines import read_jsonl
from lakeidx.landing.text.shares import ShareSource, TextShare, cross_range, plan_ranges, plan_text_shares
from lakeidx.landing.types import LandingOptions, Piece
from lakeidx.types import Field, parse_type

FIELDS = (Field(0, "k", parse_type("STRING")), Field(1, "v", parse_type("STRING")))
OPTIONS = LandingOptions()
Found = tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]


def shares_of(data: bytes, size: int, delimiter: str | None) -> list[TextShare]:
    source = io.BytesIO(data)
    crossings = [cross_range(source, *r, delimiter) for r in plan_ranges(len(data), share_bytes=size)]
    header = csv_header(io.BytesIO(data), "f", FIELDS, OPTIONS) if delimiter else CsvHeader((), 0, "")
    return plan_text_shares(len(data), crossings, header.columns, header_bytes=header.bytes, delimiter=header.delimiter)


def gather(pieces: list[Piece]) -> Found:
    rows = [row for p in pieces for row in p.rows.to_pylist()]
    lines = [int(n) for p in pieces if p.lines is not None for n in p.lines]
    assert len(rows) == len(lines)
    return rows, lines, [(b.line, b.reason) for p in pieces for b in p.bad_lines]


def whole_csv(data: bytes) -> Found:
    return gather(list(read_csv(io.BytesIO(data), "f", FIELDS, OPTIONS)))


def shared_csv(data: bytes, shares: list[TextShare]) -> Found:
    pieces: list[Piece] = []
    for share in shares:
        source = ShareSource(io.BytesIO(data), share)
        pieces += read_csv(source, "f", FIELDS, OPTIONS, share=share)
    return gather(pieces)


#: What records are made of: everything that changes what the next byte means.
TEXT = st.text(alphabet='ab",\n\r é', max_size=12)
PLAIN = st.text(alphabet="ab é", max_size=4)
QUOTED = TEXT.map(lambda t: '"' + t.replace('"', '""') + '"')
RECORD = st.tuples(
    st.one_of(PLAIN, QUOTED, TEXT), st.one_of(PLAIN, QUOTED), st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.booleans(), st.lists(RECORD, max_size=12), st.integers(1, 40), st.integers(1, 30))
@example(True, [("a", '"\r\n"', "\r\n"), ('"x', "b", "\n"), ('"', "c", "\n")], 3, 2)
def test_shares_of_csv_are_the_whole_file(
    bom: bool, records: list[tuple[str, str, str]], size: int, block: int
) -> None:
    body = "k,v\n" + "".join(f"{a},{b}{end}" for a, b, end in records)
    data = (b"\xef\xbb\xbf" if bom else b"") + body.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_shares, "_BLOCK_BYTES", block)
        patch.setattr(text_shares, "_PEEK_BYTES", 2)
        shares = shares_of(data, size, ",")
    assert [s.start for s in shares] == [0, *(s.end for s in shares[:-1])]
    assert shares[-1].end == len(data)
    try:
        expected = whole_csv(data)
    except InvalidInputError as error:
        assert "never closed" in error.message  # noqa: PT017 - any other one is a failure, too
        with pytest.raises(InvalidInputError, match="never closed") as again:
            shared_csv(data, shares)
        assert again.value.message == error.message  # noqa: PT017
    else:
        assert shared_csv(data, shares) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(['{"k":"a"}', '{"k":"\\"\\r","v":"é"}', "", "no json", " \r"]), max_size=20),
    st.integers(1, 40),
)
def test_shares_of_json_lines_are_the_whole_file(lines: list[str], size: int) -> None:
    data = "\n".join(['{"k":"first"}', *lines]).encode()
    shares = shares_of(data, size, None)
    pieces: list[Piece] = []
    for share in shares:
        pieces += read_jsonl(ShareSource(io.BytesIO(data), share), "f", FIELDS, OPTIONS, line=share.line)
    assert gather(pieces) == gather(list(read_jsonl(io.BytesIO(data), "f", FIELDS, OPTIONS)))


def test_a_file_with_lines_everywhere_has_shares_of_about_the_size() -> None:
    data = b"k,v\n" + b"".join(b'%d,"a\nb"\n' % n for n in range(100))
    shares = shares_of(data, 100, ",")
    assert len(shares) == -(-len(data) // 100)
    assert all(s.end - s.start <= 120 for s in shares)
    assert [s.columns for s in shares] == [(), *[("k", "v")] * (len(shares) - 1)]
    for before, after in pairwise(shares):
        assert after.line - before.line == data[before.start : before.end].count(b"\n")


def test_small_files_have_one_range() -> None:
    assert plan_ranges(100, share_bytes=100) == [(0, 100)]
    assert plan_ranges(0) == [(0, 0)]
    assert plan_ranges(101, share_bytes=100) == [(0, 50), (50, 101)]


def test_a_share_that_is_one_record_too_long_for_its_range_takes_the_ranges_it_covers() -> None:
    data = b"k,v\na," + b"x" * 1000 + b"\nb,y\n"
    shares = shares_of(data, 100, ",")
    assert [data[s.start : s.end][-4:] for s in shares][-1] == b"b,y\n"
    rows, lines, _ = shared_csv(data, shares)
    assert (rows, lines) == ([{"k": "a", "v": "x" * 1000}, {"k": "b", "v": "y"}], [2, 3])
