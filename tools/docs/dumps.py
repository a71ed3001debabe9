"""Dumps of small files of each kind, written by the released jars (tests/golden): every byte is named by a walk of its own.

The walks follow the byte tables and read with `struct` alone, so that a table that is wrong shows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyroaring import BitMap, BitMap64

from tools.docs.walk import Piece, Walk, dump_text

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"


def hash_index(data: bytes) -> list[Piece]:
    """Dump a HASH index file."""
    walk = Walk(data)
    while walk.rest():
        walk.number(">i", "hash of a key")
    return walk.done()


def deletion_vectors(data: bytes) -> list[Piece]:
    """Dump a deletion vector file; 32-bit or 64-bit vectors, told by the magic."""
    walk = Walk(data)
    walk.number(">B", "version of the file")
    while walk.rest():
        size = walk.number(">i", "bytes of magic and bitmap")
        magic = walk.take(4, "magic of a 32-bit vector" if data[walk.position] == 0x5E else "magic of a 64-bit vector")
        kind = BitMap if magic == bytes.fromhex("5e43f2d0") else BitMap64
        bitmap = data[walk.position : walk.position + size - 4]
        rows = list(kind.deserialize(bitmap))
        walk.take(size - 4, f"roaring bitmap of the deleted rows: {_some(rows)}")
        checksum = zlib.crc32(magic + bitmap)
        found = walk.number(">I", "CRC-32 of magic and bitmap")
        if found != checksum:
            raise AssertionError("the checksum is another one than the page says")
    return walk.done()


def _some(values: list[int]) -> str:
    return f"{', '.join(map(str, values[:6]))}{', …' if len(values) > 6 else ''} ({len(values)})"


def avro(data: bytes) -> list[Piece]:
    """Dump an Avro container: header and blocks, their records still compressed."""
    walk = Walk(data)
    walk.take(4, "magic Obj, version 1")
    count = walk.zigzag("entries of the metadata")
    for _ in range(count):
        key = walk.take(walk.zigzag("bytes of the key"), "").decode()
        walk.pieces[-1] = Piece(walk.pieces[-1].offset, key.encode(), f'"{key}"')
        value = walk.take(walk.zigzag("bytes of the value"), "the writer's schema, JSON" if "schema" in key else "")
        if "schema" not in key:
            walk.pieces[-1] = Piece(walk.pieces[-1].offset, value, f'"{value.decode()}"')
    walk.zigzag("end of the metadata")
    sync = walk.take(16, "sync marker of this file")
    while walk.rest():
        walk.zigzag("records of the block")
        walk.take(walk.zigzag("bytes of the block"), "the records, compressed with zstd")
        if walk.take(16, "sync marker again") != sync:
            raise AssertionError("another sync marker")
    return walk.done()


def avro_records(data: bytes) -> list[Piece]:
    """Decode records of the first block of an Avro container, decompressed, by the schema in the file."""
    head = Walk(data)
    head.take(4, "")
    schema: Any = None
    for _ in range(head.zigzag("")):
        key = head.take(head.zigzag(""), "").decode()
        value = head.take(head.zigzag(""), "")
        schema = json.loads(value) if key == "avro.schema" else schema
    head.zigzag("")
    head.take(16, "")
    head.zigzag("")
    block = head.take(head.zigzag(""), "")
    walk = Walk(zstandard.ZstdDecompressor().decompressobj().decompress(block))
    while walk.rest():
        _avro_value(walk, schema, "")
    return walk.done()


def _avro_value(walk: Walk, schema: Any, name: str) -> None:
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        _avro_union(walk, kind, name)
    elif isinstance(kind, dict):
        _avro_value(walk, kind, name)
    elif kind == "record":
        for one in schema["fields"]:
            _avro_value(walk, one["type"], f"{name}.{one['name']}".lstrip("."))
    elif kind == "array":
        _avro_array(walk, schema["items"], name)
    elif kind in ("int", "long"):
        walk.zigzag(name)
    elif kind in ("string", "bytes"):
        value = walk.take(walk.zigzag(f"{name}: bytes"), name)
        if kind == "string":
            last = walk.pieces.pop()
            walk.pieces.append(Piece(last.offset, last.data, f'{name} = "{value.decode()}"'))
    else:
        raise AssertionError(f"type {kind} of {name} is not walked")


def _avro_union(walk: Walk, kinds: list[Any], name: str) -> None:
    branch = walk.zigzag(f"{name}: branch of the union")
    if kinds[branch] != "null":
        _avro_value(walk, kinds[branch], name)


def _avro_array(walk: Walk, items: Any, name: str) -> None:
    while (count := walk.zigzag(f"{name}: items, 0 ends")) != 0:
        for i in range(count):
            _avro_value(walk, items, f"{name}[{i}]")


def file_index(data: bytes) -> list[Piece]:
    """Dump a container of file indexes, with the payloads of the kinds walked here."""
    walk = Walk(data)
    walk.number(">q", "magic")
    walk.number(">i", "version")
    head = walk.number(">i", "bytes of the head")
    places = []
    for _ in range(walk.number(">i", "columns")):
        column = walk.take(walk.number(">H", "bytes of the column's name"), "name of the column").decode()
        for _ in range(walk.number(">i", "indexes of the column")):
            kind = walk.take(walk.number(">H", "bytes of the type"), "").decode()
            walk.pieces[-1] = Piece(walk.pieces[-1].offset, kind.encode(), f'type "{kind}"')
            start = walk.number(">i", "start of its payload")
            places.append((start, walk.number(">i", "bytes of its payload"), kind, column))
    walk.number(">i", "bytes that follow in the head (checksums, from lakeidx)")
    if walk.position != head:
        raise AssertionError("the head is longer than it says")
    for start, length, kind, _ in sorted(places):
        if start != walk.position:
            raise AssertionError("a payload is elsewhere")
        _PAYLOADS[kind](walk, start + length)
    return walk.done()


def _bloom(walk: Walk, end: int) -> None:
    walk.number(">i", "hash functions")
    walk.take(end - walk.position, "bits of the filter")


def _bitmap(walk: Walk, end: int) -> None:
    """Dump version 2 over INT."""
    walk.number(">B", "version")
    walk.number(">i", "rows")
    walk.number(">i", "different values")
    if walk.number(">B", "has nulls"):
        walk.number(">i", "offset of the null bitmap; below 0: its only row is -1 - offset")
        walk.number(">i", "bytes of the null bitmap")
    blocks = walk.number(">i", "blocks of the dictionary")
    for _ in range(blocks):
        walk.number(">i", "first value of the block")
        walk.number(">i", "start of the block")
    walk.number(">i", "bytes of all blocks")
    for _ in range(blocks):
        for _ in range(walk.number(">i", "entries of the block")):
            walk.number(">i", "value")
            walk.number(">i", "offset of its rows; below 0: its only row is -1 - offset")
            walk.number(">i", "bytes of its rows")
    if walk.position < end:
        walk.take(end - walk.position, "roaring bitmaps of the rows")


_PAYLOADS: dict[str, Callable[[Walk, int], None]] = {
    "bloom-filter": _bloom, "bitmap": _bitmap
}  # fmt: skip


def sst(data: bytes) -> list[Piece]:
    """Dump a sorted lookup file: one data block, a filter, an index block of one entry and the footer; nothing compressed."""
    walk = Walk(data)
    footer = Walk(data[-36:])
    bloom_at, bloom_size = footer.number("<q", ""), footer.number("<i", "")
    footer.number("<q", "")
    index_at, index_size = footer.number("<q", ""), footer.number("<i", "")
    end = bloom_at if bloom_size else index_at
    _block(walk, end - 5, "")
    if bloom_size:
        walk.take(bloom_size, "Bloom filter of the keys")
    _block(walk, index_at + index_size, "index: ")
    walk.number("<q", "offset of the Bloom filter")
    walk.number("<i", "bytes of the filter")
    walk.number("<q", "keys the filter was made for")
    walk.number("<q", "offset of the index block")
    walk.number("<i", "bytes of the index block")
    walk.number("<i", "magic")
    return walk.done()


def _block(walk: Walk, end: int, name: str) -> None:
    """Return a block of one entry, aligned or not, and its trailer."""
    aligned = walk.data[end - 1] == 0
    walk.take(walk.varint(f"{name}bytes of the key"), f"{name}key")
    walk.take(
        walk.varint(f"{name}bytes of the value"), f"{name}value" + (": offset, bytes of the block" if name else "")
    )
    if not aligned:
        walk.number("<i", f"{name}start of the entry")
    walk.number("<i", f"{name}{'bytes of each entry' if aligned else 'entries'}")
    walk.number("<B", f"{name}0: entries of one size" if aligned else f"{name}1: starts of the entries are listed")
    walk.number("<B", f"{name}compression")
    walk.number("<I", f"{name}CRC-32")


def parquet(data: bytes) -> list[Piece]:
    """Dump a data file: its column chunks in the order of the file, then what the footer says."""
    walk = Walk(data)
    walk.take(4, "magic")
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    size = int.from_bytes(data[-8:-4], "little")
    for chunk in chunks:
        at = chunk.dictionary_page_offset or chunk.data_page_offset
        if at != walk.position:
            walk.take(at - walk.position, "between the chunks")
        codec, values = chunk.compression.lower(), chunk.num_values
        walk.take(chunk.total_compressed_size, f"{chunk.path_in_schema}: pages, {codec}, {values} values")
    if len(data) - 8 - size > walk.position:
        walk.take(len(data) - 8 - size - walk.position, "page indexes")
    walk.take(size, "FileMetaData, Thrift compact")
    walk.number("<i", "bytes of the FileMetaData")
    walk.take(4, "magic")
    return walk.done()


def hash_store(data: bytes) -> list[Piece]:
    """Hash lookup file of one key, not compressed, without a filter; the context is in the golden data's own words."""
    expected = json.loads((GOLDEN / "hash-store/expect.json").read_text(encoding="utf-8"))
    context = next(f for f in expected["files"] if f["file"] == "e1.none.hash")["context"]
    walk = Walk(data)
    for length, slots in context["slots"].items():
        for _ in range(slots):
            key = walk.take(int(length), "slot: key")
            room = context["slotSizes"][length] - len(key)
            if any(data[walk.position : walk.position + room]):
                walk.varint("slot: offset of the value in the data section")
            else:
                walk.take(room, "slot: free")
    walk.number("<B", "begin of the data section")
    while walk.rest():
        walk.take(walk.varint("bytes of the value"), "value")
    return walk.done()


def table_file(table: str, pattern: str) -> Path:
    """Return the smallest file of a golden table whose path matches, and that holds something."""
    found = sorted((GOLDEN / "tables" / table / "table").glob(pattern), key=lambda f: (f.stat().st_size, f.name))
    # A manifest list without a manifest is the header alone.
    least = 1100 if "manifest-list" in pattern else 4
    return next(f for f in found if f.stat().st_size > least)


def cases() -> dict[str, tuple[Path, Callable[[bytes], list[Piece]]]]:
    """Name of a dump -> its file and its walk."""
    return {
        "hash-index": (table_file("dynamic-unpartitioned", "index/index-*"), hash_index),
        "deletion-vectors": (table_file("dv-fixed", "index/index-*"), deletion_vectors),
        "avro": (table_file("dynamic-unpartitioned", "manifest/index-manifest-*"), avro),
        "manifest-list": (table_file("dynamic-unpartitioned", "manifest/manifest-list-*"), avro_records),
        "data-file": (table_file("dynamic-unpartitioned", "bucket-*/data-*.parquet"), parquet),
        "bloom-filter": (GOLDEN / "file-index/c007.index", file_index),
        "bitmap": (GOLDEN / "file-index/c060.index", file_index),
        "hash-store": (GOLDEN / "hash-store/e1.none.hash", hash_store),
        "sst": (GOLDEN / "sst/s01.sst", sst),
    }


TEXTS = {"schema": "schema/schema-0", "snapshot": "snapshot/snapshot-1"}
"""JSON files, which are shown as they are."""


def dump(name: str) -> str:
    """Render one dump as Markdown."""
    if name in TEXTS:
        text = (GOLDEN / "tables/dynamic-unpartitioned/table" / TEXTS[name]).read_text(encoding="utf-8")
        return f"```json\n{text.strip()}\n```"
    file, walk = cases()[name]
    data = file.read_bytes()
    what = "first block, decompressed" if walk is avro_records else f"{len(data)} bytes"
    return dump_text(walk(data), f"{file.relative_to(GOLDEN)}, {what}")
