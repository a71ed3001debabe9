"""Bytes of every file that lakeidx decodes, cut at each place, each one changed, or any at all: the value that was written, another
one where nothing in the file could tell, or a CorruptFileError that names the file. Nothing else.

`tests/property/test_bytes.py` does the same to files of whole tables, by the verbs that read them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakeidx.codec.containers.avro import decode_container, packed_blocks
from lakeidx.codec.containers.avro_write import RecordCopier
from lakeidx.codec.hudi.bloom import DYNAMIC_V0, SIMPLE, decode_filter, new_filter
from lakeidx.codec.roaring import deserialize
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.file_index.container import decode_index_container, encode_index_container
from lakeidx.format.consumer import decode_consumer, encode_consumer
from lakeidx.format.deletion_vector import (
    decode_vector,
    encode_deletion_vectors,
    scan_deletion_vectors,
    vector_range,
)
from lakeidx.format.lookup.hash_store import decode_context, describe_context, encode_context
from lakeidx.format.lookup.sst import describe_sst
from lakeidx.format.schema.schema_file import decode_schema
from lakeidx.format.snapshot import decode_snapshot
from lakeidx.format.statistics import decode_statistics
from lakeidx.format.tag import Tag, decode_tag, encode_tag
from lakeidx.key_index.bucket.consistent_hashing import decode_metadata, encode_metadata, initial_metadata
from lakeidx.lookup.listing import StoredLookup, decode_listing, encode_listing
from lakeidx.lookup.store import StoreType
from lakeidx.lookup.value_rows import Processor
from tests.kit.avro_checksum import as_others_write
from tests.kit.scalar_twins import encode_statistics
from tests.unit.codec.containers import test_avro
from tests.unit.file_index import test_container
from tests.unit.format import test_manifest, test_snapshot, test_statistics, test_tag
from tests.unit.format.lookup import test_hash_store, test_sst
from tests.unit.format.schema import test_schema_file


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    decode   called with bytes and the name of the file; its answer is comparable
    data     of a small one
    sealed   a change is an error or changes no answer
    whole    lengths at which a cut file is a file
    head     what any bytes follow, too
    """

    decode: Callable[[bytes, str], Any]
    data: bytes
    sealed: bool = False
    whole: Collection[int] = ()
    head: bytes = b""


def avro(codec: str, *, ours: bool) -> Kind:
    """Records in a container, with the checksum that lakeidx writes or as others write them."""
    written = [test_avro.write(rows, test_avro.PARSED, codec=codec) for rows in ([], test_avro.rows_of(3))]
    empty, data = written if ours else map(as_others_write, written)
    return Kind(decode_container, data, ours, () if ours else {len(empty)}, empty)


def avro_head() -> Kind:
    copier = RecordCopier('{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}', codec="null", level=1)
    copier.add_block(100, b"blocks")

    def blocks(data: bytes, path: str) -> list[tuple[int, bytes]]:
        return [(b.count, bytes(b.packed)) for b in packed_blocks(data, path)[2]]

    return Kind(blocks, copier.finish(), sealed=True)


def vectors(*, bitmap64: bool) -> Kind:
    """Each vector by its range in the index manifest; beside them, the file read without it."""
    data, metas = encode_deletion_vectors({"a": [1, 5, 9], "b": range(100)}, bitmap64=bitmap64)

    def read(data: bytes, path: str) -> Any:
        scan_deletion_vectors(data, path)
        ranges = [vector_range(meta) for meta in metas]
        return [list(decode_vector(data[o : o + n], m, path)) for (o, n), m in zip(ranges, metas, strict=True)]

    body = b"\x5e\x43\xf2\xd0" + bytes(8)
    head = b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return Kind(read, data, sealed=True, head=head)


def hudi_filter(code: str) -> Kind:
    made = new_filter(code, num_entries=3, fpp=0.1, max_entries=9)
    made.add(RowBytes.from_list([b"a", b"bb", b"ccc", b"d", b"e"]))

    def read(data: bytes, path: str) -> bool:
        found = decode_filter(data, code, path=path)
        assert found.bits.size <= len(data)
        return bool(found.test(RowBytes.from_list([b"probe"]))[0])

    return Kind(read, made.to_bytes())


def bitmap(*rows: int) -> Kind:
    """A roaring bitmap; one that is returned says of itself what it holds."""
    made = BitMap(rows)
    made.run_optimize()

    def read(data: bytes, path: str) -> list[int]:
        found = deserialize(data, path=path)
        assert found.to_array().tolist() == sorted(set(found))
        return list(found)

    return Kind(read, made.serialize())


def hash_context(data: bytes, path: str) -> dict[str, Any]:
    return describe_context(decode_context(data, path=path))


def sst(data: bytes, path: str) -> dict[str, Any]:
    return describe_sst(memoryview(data), path=path)


STORED = StoredLookup(
    data_file="data-1-0.parquet",
    path="bucket-0/data-1-0.lookup",
    schema_id=0,
    processor=Processor.VALUE,
    store_type=StoreType.SORT,
    size=77,
    entries=3,
    checksum=5,
)
TAG = Tag(snapshot=test_tag.SNAPSHOT, create_time_ns=test_tag.CREATED, time_retained_ns=10**9)
KINDS: dict[str, Kind] = {
    "schema": Kind(decode_schema, test_schema_file.TEXT.encode()),
    "snapshot": Kind(decode_snapshot, test_snapshot.TEXT.encode()),
    "tag": Kind(decode_tag, encode_tag(TAG)),
    "consumer": Kind(decode_consumer, encode_consumer(12)),
    "statistics": Kind(decode_statistics, encode_statistics(test_statistics.STATS)),
    "ring": Kind(decode_metadata, encode_metadata(initial_metadata("dt=1", 3))),
    "listing": Kind(decode_listing, encode_listing({STORED.data_file: STORED}), sealed=True),
    **{
        f"{case.id}, {codec}": Kind(case.values[1], case.values[0]([case.values[2]] * 2, codec), sealed=True)
        for case in test_manifest.CODECS
        for codec in ("null", "zstd")
    },
    **{
        f"avro, {codec}, {'lakeidx' if ours else 'other writers'}": avro(codec, ours=ours)
        for codec in ("null", "zstandard", "deflate", "snappy", "bzip2", "xz")
        for ours in (True, False)
    },
    "blocks of avro": avro_head(),
    "deletion vectors": vectors(bitmap64=False),
    "deletion vectors of 64 bits": vectors(bitmap64=True),
    "sort store": Kind(sst, test_sst.WORKED, sealed=True),
    "context of a hash store": Kind(hash_context, encode_context(test_hash_store.CONTEXT), sealed=True),
    "file indexes": Kind(decode_index_container, encode_index_container(test_container.INDEXES), sealed=True),
    "file indexes of Java": Kind(
        decode_index_container, encode_index_container(test_container.INDEXES, checksums=False)
    ),
    "simple filter": hudi_filter(SIMPLE),
    "dynamic filter": hudi_filter(DYNAMIC_V0),
    "bitmap of nothing": bitmap(),
    "bitmap of few": bitmap(1, 5, 9, 70000, 70001),
    "bitmap of runs": bitmap(*range(10, 200), *range(300, 400), 65535),
    "bitmap of five containers": bitmap(*(c * 65536 + i for c in range(5) for i in range(50))),
}
#: What a byte becomes: another bit, another sign, nothing, the end of a text, a digit.
CHANGES: list[Callable[[int], int]] = [
    lambda b: b ^ 1, lambda b: b ^ 0x80, lambda b: b ^ 0xFF, lambda b: 0, lambda b: ord('"'), lambda b: ord("9"),
]  # fmt: skip
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@EVERY
def test_a_file_cut_at_any_byte_or_with_one_more_is_damaged(kind: Kind) -> None:
    kind.decode(kind.data, "f")
    for cut in range(len(kind.data)):
        if cut in kind.whole:
            kind.decode(kind.data[:cut], "f")
            continue
        with pytest.raises(CorruptFileError) as caught:
            kind.decode(kind.data[:cut], "f")
        assert caught.value.path == "f"
    with pytest.raises(CorruptFileError):
        kind.decode(kind.data + b"\0", "f")


@pytest.mark.slow
@EVERY
def test_a_changed_byte_is_an_error_or_a_value(kind: Kind) -> None:
    """A changed digit can make the version a later one; that is the one other answer allowed."""
    written = kind.decode(kind.data, "f")
    for at, byte in enumerate(kind.data):
        for change in CHANGES:
            try:
                found = kind.decode(kind.data[:at] + bytes([change(byte)]) + kind.data[at + 1 :], "f")
            except CorruptFileError as error:
                assert error.path == "f"  # noqa: PT017
            except UnsupportedError as error:
                assert "version" in error.message  # noqa: PT017
            else:
                assert found == written or not kind.sealed, f"byte {at}"


@EVERY
@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_value_or_damage(kind: Kind, data: bytes) -> None:
    for head in {b"", kind.head}:
        try:
            kind.decode(head + data, "f")
        except CorruptFileError:
            continue
