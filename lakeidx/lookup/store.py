"""Interface of lookup stores of any file format: a writer, a reader, and the description of a finished file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.compress import BlockCodec, parse_codec
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.options.table_options import TableOptions


class StoreType(StrEnum):
    """Values of ``lookup.store.type``."""

    SORT = "sort"
    HASH = "hash"


def parse_store_type(text: str) -> StoreType:
    """Parse the store type of an option value.

    errors   InvalidInputError for another word
    """
    try:
        return StoreType(text.strip().lower())
    except ValueError:
        raise InvalidInputError(f"lookup.store.type is sort or hash, not {text!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupStoreOptions:
    """Settings of store files. Defaults are those of Paimon's table options.

    block_size         ``cache-page-size``, bytes: sort store block, hash store page (a power of two there)
    compression        ``lookup.cache-spill-compression``
    zstd_level         ``spill-compression.zstd-level``
    bloom_fpp          ``lookup.cache.bloom.filter.fpp``; None when ``lookup.cache.bloom.filter.enabled`` is false
    hash_load_factor   ``lookup.hash-load-factor``: used share of a hash store's slots, above 0 and below 1
    """

    block_size: int = 64 * 1024
    compression: BlockCodec = BlockCodec.ZSTD
    zstd_level: int = 1
    bloom_fpp: float | None = 0.05
    hash_load_factor: float = 0.75

    def __post_init__(self) -> None:
        if not 0 < self.block_size <= 1 << 30:
            raise InvalidInputError(f"a block has 1 byte to 1 GiB, not {self.block_size}")
        if self.bloom_fpp is not None and not 0 < self.bloom_fpp < 1:
            raise InvalidInputError(f"the false positive rate must be between 0 and 1, not {self.bloom_fpp}")
        if not 0 < self.hash_load_factor < 1:
            raise InvalidInputError(f"the load factor must be between 0 and 1, not {self.hash_load_factor}")

    @classmethod
    def from_table_options(cls, options: TableOptions) -> LookupStoreOptions:
        """Make options from the table's options."""
        return cls(
            block_size=options.cache_page_size,
            compression=parse_codec(options.lookup_cache_spill_compression),
            zstd_level=options.spill_compression_zstd_level,
            bloom_fpp=options.lookup_cache_bloom_filter_fpp if options.lookup_cache_bloom_filter_enabled else None,
            # Java keeps this option as a 32-bit float: 0.8 gives other numbers of slots than the double 0.8 would.
            hash_load_factor=float(np.float32(options.lookup_hash_load_factor)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFile:
    """A finished store file, as listings keep it.

    path        of the data file
    side_files  files beside it that belong to it (the hash store's context)
    size        bytes of the data file
    entries     keys in it
    checksum    CRC-32 of what the format itself leaves unprotected (see the reader of each store); give it to `open_reader`
    """

    store_type: StoreType
    path: str
    size: int
    entries: int
    checksum: int
    side_files: tuple[str, ...] = ()


class FoundValues(NamedTuple):
    """Answer of a batch lookup.

    found   bool[n]
    values  n byte strings, empty where nothing was found
    """

    found: npt.NDArray[np.bool_]
    values: RowBytes


class LookupStoreWriter(Protocol):
    """Makes one store file. Used in a ``with`` block, an unfinished file is removed at its end."""

    def write(self, keys: RowBytes, values: RowBytes) -> None:
        """Add n entries. The arrays may be used again when the file is finished and must not change before.

        errors   InvalidInputError naming the entry that cannot be taken; UnavailableError for a full disk
        """

    def finish(self) -> LookupFile:
        """Complete the file and move it to its name."""

    def abort(self) -> None:
        """Remove what was written; nothing after `finish`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LookupStoreReader(Protocol):
    """Answers from one store file, which is released with the reader. Several threads may call its methods at once."""

    def lookup_many(self, keys: RowBytes) -> FoundValues:
        """Look up the values of n keys (any order, repeats allowed) in one pass that releases the GIL."""
