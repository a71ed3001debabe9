"""Footer entries of Hudi's key index."""

from __future__ import annotations

import pytest

from lakeidx.codec.hudi.bloom import new_filter
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.hudi.footer import KeyFooter, format_footer, parse_footer


@pytest.mark.parametrize("code", ["SIMPLE", "DYNAMIC_V0"])
def test_what_is_written_is_read(code: str) -> None:
    bloom = new_filter(code, num_entries=5, fpp=0.01, max_entries=10)
    bloom.add(RowBytes.from_list([b"a", b"b"]))
    entries = format_footer(bloom, min_key=b"a", max_key=b"b")
    # The type is written only for dynamic filters, as Hudi does.
    assert (b"hoodie_bloom_filter_type_code" in entries) == (code == "DYNAMIC_V0")
    found = parse_footer(entries)
    assert (found.type_code, found.min_key, found.max_key) == (code, b"a", b"b")
    again = found.bloom_filter()
    assert again is not None
    assert again.to_bytes() == bloom.to_bytes()


def test_old_name_counts_only_without_the_new_one() -> None:
    assert parse_footer({b"com.uber.hoodie.bloomfilter": b"old"}).filter_text == b"old"
    both = {b"com.uber.hoodie.bloomfilter": b"old", b"org.apache.hudi.bloomfilter": b"new"}
    assert parse_footer(both).filter_text == b"new"


def test_a_footer_without_keys_is_empty() -> None:
    for metadata in (None, {}, {b"other": b"x"}):
        assert parse_footer(metadata) == KeyFooter()
        assert parse_footer(metadata).bloom_filter() is None
    assert format_footer(None) == {}


@pytest.mark.parametrize(
    "metadata",
    [
        {b"hoodie_min_record_key": b"a"},
        {b"hoodie_max_record_key": b"a"},
        {b"hoodie_min_record_key": b"\xff", b"hoodie_max_record_key": b"a"},
        {b"hoodie_bloom_filter_type_code": b"\xff"},
    ],
)
def test_a_damaged_footer_is_an_error(metadata: dict[bytes, bytes]) -> None:
    with pytest.raises(CorruptFileError) as caught:
        parse_footer(metadata, "f")
    assert caught.value.path == "f"


def test_filter_of_an_unknown_type() -> None:
    with pytest.raises(UnsupportedError, match="CUCKOO"):
        parse_footer({b"org.apache.hudi.bloomfilter": b"", b"hoodie_bloom_filter_type_code": b"CUCKOO"}).bloom_filter()
