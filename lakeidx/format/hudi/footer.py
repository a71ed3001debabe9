"""Entries of Hudi's key index in a base file's footer (Parquet key-value metadata; text, UTF-8).

===================================  ==================================================================================
key                                  value
===================================  ==================================================================================
org.apache.hudi.bloomfilter          Base64 of the serialised filter (lakeidx.codec.hudi.bloom)
com.uber.hoodie.bloomfilter          the same under its old name; read only when the new key is absent
hoodie_bloom_filter_type_code        ``DYNAMIC_V0``; written only for dynamic filters, absent = SIMPLE
hoodie_min_record_key, ..._max_...   smallest and largest record key; both or neither
===================================  ==================================================================================

Ranges are in Java's string order (UTF-16 code units) when Hudi's Avro writers made them and in UTF-8 order when its row
writer did; lakeidx writes Java's order, and reads a range so that either order is right (`lakeidx.key_index.keys.ranges`).

source   org.apache.hudi.avro.{HoodieBloomFilterWriteSupport,HoodieAvroWriteSupport}, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeidx.codec.hudi.bloom import SIMPLE, BloomFilter, check_type_code, decode_filter_base64
from lakeidx.errors import CorruptFileError

BLOOM_FILTER = b"org.apache.hudi.bloomfilter"
_OLD_BLOOM_FILTER = b"com.uber.hoodie.bloomfilter"
FILTER_TYPE_CODE = b"hoodie_bloom_filter_type_code"
MIN_RECORD_KEY = b"hoodie_min_record_key"
_MAX_RECORD_KEY = b"hoodie_max_record_key"
#: Column of a Hudi base file that holds the record key.
RECORD_KEY_COLUMN = "_hoodie_record_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFooter:
    """A file's key index as its footer has it.

    filter_text       Base64 text, None = the file has no filter and its keys must be read
    type_code         as written, or SIMPLE when the footer does not say
    min_key, max_key  record key range in UTF-8, both None when the footer has none
    """

    filter_text: bytes | None = None
    type_code: str = SIMPLE
    min_key: bytes | None = None
    max_key: bytes | None = None

    def bloom_filter(self, path: str | None = None) -> BloomFilter | None:
        """Decode the filter.

        errors   CorruptFileError when the text is not a filter; UnsupportedError for an unknown type code
        """
        if self.filter_text is None:
            return None
        return decode_filter_base64(self.filter_text, check_type_code(self.type_code, path), path=path)


def parse_footer(metadata: Mapping[bytes, bytes] | None, path: str | None = None) -> KeyFooter:
    """Pick the key index out of a footer's key-value metadata.

    errors   CorruptFileError when only one end of the range is there or it is not UTF-8; the filter is not looked into
    """
    found = metadata or {}
    low, high = found.get(MIN_RECORD_KEY), found.get(_MAX_RECORD_KEY)
    if (low is None) != (high is None):
        raise CorruptFileError("the footer has one end of the record key range without the other", path=path)
    type_code = found.get(FILTER_TYPE_CODE, SIMPLE.encode())
    try:
        code = type_code.decode("utf-8")
        for end in (low, high):
            if end is not None:
                end.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"the key index of the footer is not UTF-8: {error}", path=path) from error
    text = found.get(BLOOM_FILTER, found.get(_OLD_BLOOM_FILTER))
    return KeyFooter(filter_text=text, type_code=code, min_key=low, max_key=high)


def format_footer(
    bloom: BloomFilter | None, *, min_key: bytes | None = None, max_key: bytes | None = None
) -> dict[bytes, bytes]:
    """Format the footer entries of a file; the inverse of `parse_footer`."""
    out: dict[bytes, bytes] = {}
    if bloom is not None:
        out[BLOOM_FILTER] = bloom.to_base64().encode("ascii")
        if "DYNAMIC" in bloom.type_code:
            out[FILTER_TYPE_CODE] = bloom.type_code.encode("ascii")
    if min_key is not None and max_key is not None:
        out[MIN_RECORD_KEY], out[_MAX_RECORD_KEY] = min_key, max_key
    return out
