"""Compiles the kernels of the lookup stores ahead of the first request."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lakeidx.codec.compress import BlockCodec
from lakeidx.codec.rowbytes import RowBytes
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.key_order import KeyOrder
from lakeidx.lookup.store import LookupStoreOptions, StoreType
from lakeidx.types import parse_type


def warm_up() -> None:
    """Build and ask small stores of both types, so that every kernel is compiled or loaded from disk.

    cost   some seconds on a new machine, well under one once the compiled code is kept beside the source
    """
    order = KeyOrder.row_compacted([parse_type("STRING NOT NULL")])
    keys = RowBytes.from_list([b"\0\0" + bytes([len(text)]) + text for text in (b"a", b"b" * 20, b"c" * 100)])
    values = RowBytes.from_list([b"1", b"22" * 50, b""])
    with tempfile.TemporaryDirectory(prefix="lakeidx-warm-up-") as folder:
        for store_type in StoreType:
            for codec in (BlockCodec.NONE, BlockCodec.ZSTD):
                options = LookupStoreOptions(block_size=64, compression=codec)
                cache = BlockCache(0, working_bytes=0)
                factory = LookupStoreFactory(store_type, order=order, options=options, cache=cache)
                path = Path(folder) / f"{store_type}-{codec}"
                with factory.create_writer(path) as writer:
                    writer.write(keys, values)
                    file = writer.finish()
                for source in (file, path):
                    with factory.open_reader(source) as reader:
                        reader.lookup(keys[0])
                        reader.lookup_many(keys)
                        for _ in reader.scan():
                            pass
                        reader.verify()
                        reader.lookup_many(keys)
                        reader.lookup(keys[1])
