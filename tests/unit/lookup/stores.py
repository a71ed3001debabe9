"""What the store tests share: making files, asking readers, and showing what is in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakeidx.codec.containers.compress import parse_codec
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.lookup.hash_store import decode_context, describe_context
from lakeidx.format.lookup.sst import (
    FOOTER_SIZE,
    decode_body,
    decode_footer,
    decode_index_value,
    describe_sst,
    read_block,
)
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, LookupStoreReader, StoreType

PLAIN = KeyOrder.unsigned_bytes()
CODECS = ("none", "zstd", "lz4")


class Stores(LookupStoreFactory):
    """Opens what a writer gave, too."""

    def open_reader(
        self, path: LookupFile | str | os.PathLike[str], *, checksum: int | None = None
    ) -> LookupStoreReader:
        if isinstance(path, LookupFile):
            return super().open_reader(path.path, checksum=path.checksum)
        return super().open_reader(path, checksum=checksum)


def options_of(*, compression: str = "zstd", **rest: Any) -> LookupStoreOptions:
    return LookupStoreOptions(compression=parse_codec(compression), **rest)


def factory(
    store_type: StoreType, *, order: KeyOrder = PLAIN, cache: BlockCache | None = None, **options: Any
) -> Stores:
    return Stores(store_type, order=order, options=options_of(**options), cache=cache)


def build(
    made_by: LookupStoreFactory, path: Path, entries: Sequence[tuple[bytes, bytes]], *, expected: int | None = None
) -> LookupFile:
    expected = len(entries) if expected is None else expected
    with made_by.create_writer(path, expected_entries=expected) as writer:
        writer.write(RowBytes.from_list([k for k, _ in entries]), RowBytes.from_list([v for _, v in entries]))
        return writer.finish()


def ask(reader: LookupStoreReader, keys: Sequence[bytes]) -> list[bytes | None]:
    """The answers to the keys."""
    found, values = reader.lookup_many(RowBytes.from_list(list(keys)))
    return [value if hit else None for hit, value in zip(found.tolist(), values.to_list(), strict=True)]


def show(file: LookupFile) -> dict[str, Any]:
    """What `lakeidx inspect` shows of a file."""
    if file.store_type is StoreType.SORT:
        return describe_sst(memoryview(Path(file.path).read_bytes()), path=file.path)
    return describe_context(decode_context(context_path(file.path).read_bytes(), path=file.path))


def sst_entries(path: Path) -> list[tuple[bytes, bytes]]:
    """All entries of a sort store's file, in its order."""
    file = memoryview(path.read_bytes())
    index = decode_body(read_block(file, decode_footer(bytes(file[-FOOTER_SIZE:]), len(file)).index))
    return [entry for _, value in index for entry in decode_body(read_block(file, decode_index_value(value)))]
