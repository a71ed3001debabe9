"""Writer of the hash store."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCodec, BlockCompressor
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError
from lakeidx.format.lookup.hash_store import (
    CONTEXT_SUFFIX,
    HashContext,
    LengthSection,
    context_checksum,
    encode_context,
    slots_for,
)
from lakeidx.lookup.bloom import BloomShape
from lakeidx.lookup.common import EntryWriter
from lakeidx.lookup.hash_store import build_kernels as kernels
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.packed import addresses_of
from lakeidx.lookup.scratch_file import ScratchFile, os_errors
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, StoreType

_PAYLOAD_SIZE = struct.Struct(">i")
_MAX_TABLES = 2147483647


class HashLookupStoreWriter(EntryWriter):
    """Writes one hash lookup file and its context file.

    The data is byte for byte what Java writes for the same puts in the same order (zstd and lz4: as far as the library
    versions agree).

    path              the data file; both files appear at `finish`, the context last
    order             form of the keys (a hash store has no order)
    expected_entries  sizes the filter; None: the entries really put; 0: no filter
    errors            InvalidInputError for a key of another form or a page size that is no power of two, and at `finish` for
                      a key put twice (named by the later entry) or slot tables above 2 GiB; UnavailableError for a full disk
    cost              the entries and the image are in memory until `finish`
    source            org.apache.paimon.lookup.hash.HashLookupStoreWriter, release 0.9.0
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        options: LookupStoreOptions,
        order: KeyOrder,
        expected_entries: int | None = None,
    ) -> None:
        if options.block_size & (options.block_size - 1):
            raise InvalidInputError(f"a hash store's page size is a power of two, not {options.block_size}")
        self._path = Path(path)
        self._options = options
        super().__init__(order)
        self._expected = expected_entries
        self._compressor = BlockCompressor(options.compression, options.zstd_level)
        self._keys: list[RowBytes] = []
        self._values: list[RowBytes] = []
        self._done = False

    def finish(self) -> LookupFile:
        """Build the image and write both files.

        returns  `checksum` is that of the context file, which covers the data file
        """
        if self._done:
            raise InvalidInputError("the writer is finished", path=str(self._path))
        self._write_gathered()
        keys, values = RowBytes.concat(self._keys), RowBytes.concat(self._values)
        self.abort()
        sections, shape, image = self._image(keys, values)
        context = self._write_data(image, sections, shape)
        return LookupFile(
            store_type=StoreType.HASH,
            path=str(self._path),
            size=context.file_size,
            entries=len(keys),
            checksum=self._write_context(encode_context(context)),
            side_files=(str(context_path(self._path)),),
        )

    def abort(self) -> None:
        """Drop the entries; nothing was written yet."""
        self._keys, self._values, self._done = [], [], True

    def _write(self, keys: RowBytes, values: RowBytes) -> None:
        if self._done:
            raise InvalidInputError("the writer is finished", path=str(self._path))
        keys, values = self._checked(keys, values)
        self._entries += len(keys)
        self._keys.append(keys)
        self._values.append(values)

    def _image(
        self, keys: RowBytes, values: RowBytes
    ) -> tuple[tuple[LengthSection, ...], BloomShape | None, npt.NDArray[np.uint8]]:
        n = len(keys)
        longest = int(keys.lengths.max()) if n else -1
        counts, data_sizes, widths = (np.zeros(longest + 1, np.int64) for _ in range(3))
        last, places = np.full(longest + 1, -1, np.int64), np.empty(n, np.int64)
        key_spans, value_spans = addresses_of(keys), addresses_of(values)
        kernels.lay_out_values(key_spans[1], *value_spans, n, counts, data_sizes, widths, last, places)

        shape = None
        expected = n if self._expected is None else self._expected
        if self._options.bloom_fpp is not None and expected:
            shape = BloomShape.for_rate(expected, self._options.bloom_fpp)
            # A rate near 1 gives a filter of no bytes: no filter.
            shape = shape if shape.byte_size else None
        slots, slot_sizes, index_offsets, data_offsets = (np.zeros(longest + 1, np.int64) for _ in range(4))
        place = shape.byte_size if shape else 0
        lengths = np.flatnonzero(counts).tolist()
        for length in lengths:
            slots[length] = slots_for(int(counts[length]), self._options.hash_load_factor)
            slot_sizes[length] = length + widths[length]
            index_offsets[length] = place
            place += int(slots[length] * slot_sizes[length])
        if place > _MAX_TABLES:
            raise InvalidInputError(f"slot tables of {place} bytes; the format ends at 2 GiB: use the sort store")
        for length in lengths:
            data_offsets[length] = place
            place += int(data_sizes[length])

        image = np.zeros(place, np.uint8)
        hashes = np.empty(n, np.uint32)
        kernels.hash_keys(*key_spans, n, hashes)
        at = kernels.fill_image(
            image.ctypes.data, *key_spans, *value_spans, n, hashes, places, slots, slot_sizes, index_offsets,
            data_offsets, shape.bits if shape else 0, shape.probes if shape else 0,
        )  # fmt: skip
        if at < n:
            raise InvalidInputError(f"entry {at} has a duplicate key: {keys[at].hex()}", path=str(self._path))
        table = zip(
            lengths, counts[lengths].tolist(), slots[lengths].tolist(), slot_sizes[lengths].tolist(),
            index_offsets[lengths].tolist(), data_offsets[lengths].tolist(), strict=True,
        )  # fmt: skip
        return tuple(LengthSection(*row) for row in table), shape, image

    def _write_data(
        self, image: npt.NDArray[np.uint8], sections: tuple[LengthSection, ...], shape: BloomShape | None
    ) -> HashContext:
        page_size = self._options.block_size
        file = ScratchFile(self._path)
        sizes, checksums = [], []
        try:
            if self._options.compression is BlockCodec.NONE:
                file.write(image.data)
            for start in range(0, len(image), page_size):
                page = image[start : start + page_size].data
                if self._options.compression is not BlockCodec.NONE:
                    payload = self._compressor.compress(page)
                    page = memoryview(_PAYLOAD_SIZE.pack(len(payload)) + payload)
                    file.write(page)
                sizes.append(len(page))
                checksums.append(crc32(page))
            # A context left from before must not meet the new data.
            with os_errors(self._path):
                context_path(self._path).unlink(missing_ok=True)
            file.commit()
        except BaseException:
            file.discard()
            raise
        return HashContext(
            codec=self._options.compression,
            page_size=page_size,
            image_size=len(image),
            bloom_entries=shape.entries if shape else 0,
            bloom_size=shape.byte_size if shape else 0,
            sections=sections,
            page_sizes=np.array(sizes, np.int64),
            page_checksums=np.array(checksums, np.uint32),
        )

    def _write_context(self, data: bytes) -> int:
        try:
            file = ScratchFile(context_path(self._path))
            file.write(data)
            file.commit()
        except BaseException:
            # Data without a context is of no use.
            self._path.unlink(missing_ok=True)
            raise
        return context_checksum(data)


def context_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a data file's context."""
    path = Path(path)
    return path.with_name(path.name + CONTEXT_SUFFIX)
