"""What the store tests share: making files, and asking readers in every way they can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, LookupStoreReader, StoreType

PLAIN = KeyOrder.unsigned_bytes()
CODECS = ("none", "zstd", "lz4")


def factory(
    store_type: StoreType, *, order: KeyOrder = PLAIN, cache: BlockCache | None = None, **options: object
) -> LookupStoreFactory:
    return LookupStoreFactory(store_type, order=order, options=LookupStoreOptions.of(**options), cache=cache)  # type: ignore[arg-type]


def build(
    made_by: LookupStoreFactory, path: Path, entries: Sequence[tuple[bytes, bytes]], *, expected: int | None = None
) -> LookupFile:
    with made_by.create_writer(path, expected_entries=expected) as writer:
        writer.write(RowBytes.from_list([k for k, _ in entries]), RowBytes.from_list([v for _, v in entries]))
        return writer.finish()


def ask(reader: LookupStoreReader, keys: Sequence[bytes]) -> list[bytes | None]:
    """The answers to the keys, from the batch call and from the single one, which must agree."""
    found, values = reader.lookup_many(RowBytes.from_list(list(keys)))
    batch = [value if hit else None for hit, value in zip(found.tolist(), values.to_list(), strict=True)]
    assert [reader.lookup(key) for key in keys] == batch
    return batch
