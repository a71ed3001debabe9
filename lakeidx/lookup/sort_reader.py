"""Reader of the sort store: batch and single lookups in an SST."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lakeidx.codec.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InternalError, InvalidInputError
from lakeidx.lookup import sort_read_kernels as kernels
from lakeidx.lookup.packed import addresses_of, plain
from lakeidx.lookup.sort_file import SortFile
from lakeidx.lookup.store import Entries, Found, StoreType

_TOUCH_EVERY = 16


class SortLookupStoreReader:
    """Answers from one SST: the filter, then a binary search of the index, then one of the block.

    file    may be shared with other readers; `close` is called on it through `on_close`
    source  org.apache.paimon.lookup.sort.SortLookupStoreReader, release 1.4.2
    """

    def __init__(self, file: SortFile) -> None:
        self._open: SortFile | None = file
        self._path = file.path
        self._descriptor = file.descriptor
        self._uses = 0

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def store_type(self) -> StoreType:
        """SORT."""
        return StoreType.SORT

    def lookup(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        file = self._file()
        if type(key) is not bytes:
            file.order.check_one(key)
        block, start, size = kernels.lookup_one(self._descriptor, key)
        if block >= 0:
            body = file.blocks.in_memory(block)
            if size < 0 or body is None:
                return self._lookup_in_block(file, block, key)
            self._uses += 1
            if self._uses % _TOUCH_EVERY == 0:
                file.blocks.block(block)
            return body[start : start + size].tobytes()
        if block == kernels.BAD_KEY:
            file.order.check_one(key)
            raise InternalError("a key was refused without a reason", path=self._path)
        return None

    def lookup_many(self, keys: RowBytes) -> Found:
        """The values of n keys, in one pass: hash and filter, index search, then all keys of a block together."""
        file = self._file()
        keys = plain(keys)
        file.order.check(keys)
        n, n_blocks = len(keys), len(file.handles)
        spans = addresses_of(keys)
        blocks, counts = np.empty(n, np.int32), np.zeros(n_blocks, np.int64)
        kernels.locate_many(self._descriptor, *spans, n, blocks, counts)
        starts = np.cumsum(counts) - counts
        order = np.empty(int(counts.sum()), np.int64)
        kernels.order_by_block(blocks, starts.copy(), order)
        found, sizes = np.zeros(n, np.int64), np.full(n, -1, np.int64)
        held: list[Any] = []
        parts = file.blocks.parts(np.flatnonzero(counts))
        for part in parts:
            if not len(part):
                continue
            pinned = file.blocks.pin(part)
            descriptor = file.pinned_descriptor(pinned.addresses)
            here = order[starts[part[0]] : starts[part[-1]] + counts[part[-1]]]
            kernels.search_many(descriptor.ctypes.data, *spans, blocks, here, found, sizes)
            if len(parts) == 1:
                held.append(pinned)
            else:
                # The blocks may go before the next part comes: keep only the values.
                copy = np.empty(int(np.maximum(sizes[here], 0).sum()), np.uint8)
                kernels.gather_part(found, sizes, here, copy.ctypes.data)
                held.append(copy)
        values = _gathered(found, sizes)
        del held
        return Found(sizes >= 0, values)

    def scan(self) -> Iterator[Entries]:
        """All entries in key order, block by block."""
        for _, keys, values in self._file().entries():
            yield Entries(keys, values)

    def verify(self) -> int:
        """Check every block, and that the filter lets every key pass."""
        file = self._file()
        entries = 0
        for _, keys, _ in file.entries():
            if file.filter is not None and not file.filter.might_contain_many(keys).all():
                raise CorruptFileError("the filter hides keys of the file", path=self._path, offset=file.data_end)
            entries += len(keys)
        return entries

    def describe(self) -> dict[str, Any]:
        """Footer and index as JSON values."""
        file = self._file()
        return {
            "store_type": self.store_type.value,
            "path": self._path,
            "size": len(file.data),
            "key_order": str(file.order),
            **file.describe(),
        }

    def close(self) -> None:
        """Let go of the file."""
        self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self) -> SortFile:
        if self._open is None:
            raise InvalidInputError("the reader is closed", path=self._path)
        return self._open

    def _lookup_in_block(self, file: SortFile, block: int, key: bytes) -> bytes | None:
        body = file.blocks.block(block)
        view = np.frombuffer(key, np.uint8)
        codes = file.order.codes
        address, size = kernels.find_in_body(
            body.ctypes.data, file.counts[block], file.steps[block], file.ends[block], view.ctypes.data, len(view),
            codes.ctypes.data, len(codes),
        )  # fmt: skip
        if size < 0:
            return None
        start = address - body.ctypes.data
        return body[start : start + size].tobytes()


def _gathered(found: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> RowBytes:
    offsets = np.empty(len(sizes) + 1, np.int64)
    data = np.empty(int(kernels.value_offsets(sizes, offsets)), np.uint8)
    kernels.gather(found, sizes, data.ctypes.data, offsets)
    return RowBytes(data, offsets)
