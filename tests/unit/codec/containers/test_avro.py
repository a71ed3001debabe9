"""The container is checked against fastavro's own reader and writer, which lakeidx does not use for it."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.avro import decode_container, header_schema, packed_blocks
from lakeidx.codec.containers.avro_write import RecordCopier, RecordSchema, encode_container
from lakeidx.errors import CorruptFileError, InvalidInputError
from tests.kit.avro_checksum import as_others_write

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "record",
    "namespace": "org.apache.paimon.avro.generated",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "s", "type": "string"},
        {"name": "b", "type": ["null", "bytes"], "default": None},
        {"name": "l", "type": ["null", {"type": "array", "items": ["null", "long"]}], "default": None},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "r", "type": {"type": "record", "name": "record_r", "fields": [{"name": "x", "type": "double"}]}},
    ],
}
PARSED = RecordSchema(SCHEMA)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
records = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.integers(-(1 << 31), (1 << 31) - 1),
            "s": st.text(max_size=20),
            "b": st.none() | st.binary(max_size=20),
            "l": st.none() | st.lists(st.none() | longs, max_size=5),
            "t": st.none() | st.integers(-60_000_000_000_000, 250_000_000_000_000),
            "r": st.fixed_dictionaries({"x": st.floats(allow_nan=False)}),
        }
    ),
    max_size=150,
)


def write(rows: Sequence[dict[str, Any]], schema: RecordSchema, **options: Any) -> bytes:
    return encode_container(rows, schema, dict, **options)


def plain_schema() -> dict[str, Any]:
    """The schema without the logical type, so that fastavro gives longs, too."""
    text = json.dumps(SCHEMA).replace('{"type": "long", "logicalType": "timestamp-millis"}', '"long"')
    found: dict[str, Any] = json.loads(text)
    return found


@settings(max_examples=40, deadline=None)
@given(rows=records, codec=st.sampled_from(["zstandard", "null", "deflate", "snappy", "bzip2", "xz"]))
def test_fastavro_reads_what_we_write(rows: list[dict[str, Any]], codec: str) -> None:
    data = write(rows, PARSED, codec=codec)
    assert decode_container(data) == rows
    if codec in ("null", "deflate", "bzip2", "xz"):  # fastavro needs more packages for the others
        theirs = list(fastavro.reader(io.BytesIO(data)))
        for row in theirs:
            assert isinstance(row, dict)
            if row["t"] is not None:
                row["t"] = round((row["t"] - EPOCH) / timedelta(milliseconds=1))
        assert theirs == rows


@settings(max_examples=40, deadline=None)
@given(
    rows=records, codec=st.sampled_from(["null", "deflate", "bzip2", "xz"]), interval=st.sampled_from([1, 100, 16_000])
)
def test_we_read_what_fastavro_writes(rows: list[dict[str, Any]], codec: str, interval: int) -> None:
    out = io.BytesIO()
    fastavro.writer(out, plain_schema(), rows, codec=codec, sync_interval=interval)
    assert decode_container(out.getvalue()) == rows


def rows_of(n: int) -> list[dict[str, Any]]:
    return [{"i": i, "s": f"name {i}", "b": None, "l": [i, None], "t": i, "r": {"x": i / 2}} for i in range(n)]


def test_zstd_frames_without_content_size() -> None:
    """Java's stream writer leaves the size out, and may write several frames."""
    _, _, (block,) = packed_blocks(write(rows_of(3), PARSED, codec="null"))
    raw = bytes(block.packed)
    for compressed in (
        zstandard.ZstdCompressor(write_content_size=False).compress(raw),
        zstandard.ZstdCompressor().compress(raw[:10]) + zstandard.ZstdCompressor().compress(raw[10:]),
    ):
        copier = RecordCopier(PARSED.text, codec="zstandard", level=1)
        copier.add_block(block.count, compressed)
        assert decode_container(copier.finish()) == rows_of(3)


@pytest.mark.slow
def test_blocks_are_about_as_large_as_java_s() -> None:
    data = write(rows_of(20_000), PARSED, codec="null", sync=b"SYNC" * 4)
    blocks = data.split(b"SYNC" * 4)[1:-1]
    assert len(blocks) > 5
    assert all(20_000 < len(b) < 200_000 for b in blocks[1:-1])
    assert decode_container(data) == rows_of(20_000)


def test_the_header_has_the_schema_and_a_sync_of_its_own() -> None:
    data = write([], PARSED)
    assert header_schema(data) == SCHEMA
    assert write([], PARSED) != data


def test_unknown_codecs_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="brotli"):
        write([], PARSED, codec="brotli")
    data = as_others_write(write([], PARSED, codec="null"))
    with pytest.raises(CorruptFileError, match="nulx"):
        decode_container(data.replace(b"\x08null", b"\x08nulx"))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "long"},
        {"type": "record", "name": "r", "fields": []},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "other"}]},
        {"type": "record", "name": "r", "fields": [{"name": "a"}]},
        {"type": "record", "name": "r", "fields": 7},
        [],
        "record",
        7,
        None,
    ],
)
def test_schemas_that_no_table_has(schema: Any) -> None:
    text = json.dumps(schema).encode()
    length = len(text) * 2
    size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    data = b"Obj\x01\x02\x16avro.schema" + size + text + b"\x00" + bytes(16) + b"\x02\x02\x00" + bytes(16)
    with pytest.raises(CorruptFileError, match=r"avro\.schema"):
        decode_container(data, "f")


def test_deep_schemas_do_not_overflow() -> None:
    text = b'{"type":' * 5000
    data = b"Obj\x01\x02\x16avro.schema" + b"\x80\xf1\x04" + text + b"\x00" * 17
    with pytest.raises(CorruptFileError):
        decode_container(data)
    with pytest.raises(CorruptFileError):
        header_schema(data)


def test_a_block_count_that_lies() -> None:
    data = as_others_write(write(rows_of(2), PARSED, codec="null", sync=b"s" * 16))
    at = data.index(b"s" * 16) + 16
    for count in (b"\x02", b"\x06", b"\x01", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(CorruptFileError):
            decode_container(data[:at] + count + data[at + 1 :])


def test_snappy_checks_its_crc() -> None:
    data = bytearray(as_others_write(write(rows_of(1), PARSED, codec="snappy", sync=b"s" * 16)))
    assert zlib.crc32(b"") == 0
    data[-17] ^= 1
    with pytest.raises(CorruptFileError, match="CRC-32"):
        decode_container(bytes(data))
