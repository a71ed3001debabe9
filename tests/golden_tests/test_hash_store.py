"""Every hash store file of the golden set: read in all ways with the context Java had in memory, and written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.containers.compress import BlockCodec, parse_codec
from lakeidx.codec.hashes.murmur import hash_bytes
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import UnsupportedError
from lakeidx.format.lookup.hash_store import HashContext, LengthSection, encode_context
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.bloom import hash_and_filter
from lakeidx.lookup.hash_store.reader import HashLookupStoreReader
from lakeidx.lookup.hash_store.writer import HashLookupStoreWriter, context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import addresses_of
from lakeidx.lookup.store import LookupStoreOptions
from tests.conftest import GOLDEN
from tests.kit.scalar_twins import page_checksums, plain_page_sizes, walk_pages
from tests.unit.lookup.stores import ask

pytestmark = pytest.mark.golden
FOLDER = GOLDEN / "hash-store"
EXPECT = json.loads((FOLDER / "expect.json").read_text(encoding="utf-8"))
FILES = EXPECT["files"]
_NAMES = {"keyCounts": "count", "slots": "slots", "slotSizes": "slot_size", "indexOffsets": "index_offset",
          "dataOffsets": "data_offset"}  # fmt: skip


def _value(value: str | dict[str, int]) -> bytes:
    return bytes.fromhex(value) if isinstance(value, str) else bytes([value["byte"]]) * value["count"]


def _entries(file: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(bytes.fromhex(key), _value(value)) for key, value in EXPECT["datasets"][file["dataset"]]["entries"]]


def _context(file: dict[str, Any]) -> HashContext:
    java, bloom = file["context"], file["bloom"]
    codec = parse_codec(file["compression"])
    image_size = file["file_bytes"] if codec is BlockCodec.NONE else java["uncompressBytes"]
    lengths = sorted(int(length) for length in java["keyCounts"])
    data = (FOLDER / file["file"]).read_bytes()
    if codec is BlockCodec.NONE:
        page_sizes = plain_page_sizes(image_size, file["page_size"])
    else:
        page_sizes = walk_pages(data)
    return HashContext(
        codec=codec,
        page_size=file["page_size"],
        image_size=image_size,
        bloom_entries=bloom["expected_entries"] if bloom else 0,
        bloom_size=bloom["bytes"] if bloom else 0,
        sections=tuple(
            LengthSection(length, **{ours: java[theirs][str(length)] for theirs, ours in _NAMES.items()})
            for length in lengths
        ),
        page_sizes=page_sizes,
        page_checksums=page_checksums(data, page_sizes),
    )


def _opened(file: dict[str, Any], folder: Path, cache: BlockCache | None = None) -> HashLookupStoreReader:
    path = Path(shutil.copy(FOLDER / file["file"], folder))
    context_path(path).write_bytes(encode_context(_context(file)))
    return HashLookupStoreReader(str(path), order=KeyOrder.unsigned_bytes(), cache=cache or BlockCache())


def _writer(file: dict[str, Any], path: Path) -> HashLookupStoreWriter:
    bloom = file["bloom"]
    options = LookupStoreOptions(
        block_size=file["page_size"],
        compression=parse_codec(file["compression"]),
        bloom_fpp=bloom["fpp"] if bloom else None,
        hash_load_factor=file["load_factor"],
    )
    expected = bloom["expected_entries"] if bloom else 0
    return HashLookupStoreWriter(path, options=options, order=KeyOrder.unsigned_bytes(), expected_entries=expected)


def test_there_are_files() -> None:
    assert FILES


@pytest.mark.parametrize(("key", "expected"), EXPECT["hashes"])
def test_hash_of_bytes(key: str, expected: int) -> None:
    assert hash_bytes(bytes.fromhex(key)) == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["file"])
def test_page_positions_are_those_of_java(file: dict[str, Any]) -> None:
    pages = file["context"]["compressPages"]
    if pages is not None:
        sizes = _context(file).page_sizes
        assert (np.cumsum(sizes) - sizes).tolist() == pages


@pytest.mark.parametrize("cache_bytes", [1 << 24, 70_000])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file["file"])
def test_every_key_is_found_and_every_absent_one_missed(file: dict[str, Any], cache_bytes: int, tmp_path: Path) -> None:
    cache = BlockCache(cache_bytes, working_bytes=cache_bytes)
    reader = _opened(file, tmp_path, cache)
    entries = _entries(file)
    absent = [bytes.fromhex(key) for key in EXPECT["datasets"][file["dataset"]]["absent"]]
    # A few first: they go page by page; many go in one pass once the image is in memory.
    few = [*entries[:5], *entries[-5:]]
    assert ask(reader, [key for key, _ in few]) == [value for _, value in few]
    assert ask(reader, [key for key, _ in entries]) == [value for _, value in entries]
    assert ask(reader, absent) == [None] * len(absent)
    if file["bloom"]:
        assert reader.filter is not None
        keys = RowBytes.from_list(absent)
        data, offsets = addresses_of(keys)
        shape, bits = reader.filter.shape, reader.filter.bits.ctypes.data
        hashes, passing = np.empty(len(absent), np.uint32), np.empty(len(absent), np.int64)
        count = hash_and_filter(data, offsets, 0, len(absent), bits, shape.bits, shape.probes, hashes, passing)
        assert passing[:count].tolist() == file["bloom"]["absent_passing"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["file"])
def test_the_same_puts_give_the_same_bytes(file: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ours.hash"
    if file["compression"] == "lzo":
        with pytest.raises(UnsupportedError, match="lzo blocks are read but not written"):
            _writer(file, path)
        return
    with _writer(file, path) as writer:
        entries = list(_entries(file))
        writer.write(RowBytes.from_list([k for k, _ in entries]), RowBytes.from_list([v for _, v in entries]))
        made = writer.finish()
    opened = HashLookupStoreReader(
        made.path, order=KeyOrder.unsigned_bytes(), cache=BlockCache(), checksum=made.checksum
    )
    java = _context(file)
    assert opened.context.sections == java.sections
    assert opened.context.bloom_size == java.bloom_size
    assert opened.context.image_size == java.image_size
    ours, theirs = path.read_bytes(), (FOLDER / file["file"]).read_bytes()
    if file["compression"] == "none":
        assert ours == theirs
    elif ours != theirs:
        # Compressors of other library versions may pack otherwise; the image must be the same.
        assert _image(opened) == _image(_opened(file, tmp_path))


def _image(file: HashLookupStoreReader) -> bytes:
    return b"".join(file.block(number).tobytes() for number in range(len(file.positions)))
