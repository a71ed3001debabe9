"""Reader of the hash store: batch and single lookups in a hash lookup file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.hash_store import describe_context
from lakeidx.lookup.common import OpenReader
from lakeidx.lookup.hash_store import read_kernels as kernels
from lakeidx.lookup.hash_store.file import HashFile
from lakeidx.lookup.packed import addresses_of, plain
from lakeidx.lookup.store import Entries, Found, StoreType

_TOUCH_EVERY = 16
_SCAN_ENTRIES = 65536
_SCAN_BYTES = 1 << 24


class HashLookupStoreReader(OpenReader[HashFile]):
    """Answers from one hash lookup file.

    source  org.apache.paimon.lookup.hash.HashLookupStoreReader, release 0.9.0
    """

    _type = StoreType.HASH

    def __init__(self, file: HashFile) -> None:
        super().__init__(file)
        self._uses = 0
        self._scratch = np.empty(file.scratch_size, np.uint8)
        self._scratch_address = int(self._scratch.ctypes.data)
        self._descriptor = int(file.descriptor().ctypes.data)

    @property
    def is_compressed(self) -> bool:
        """True when pages of the image are compressed."""
        return self._file().context.codec is not BlockCodec.NONE

    def missing_blocks(self, keys: RowBytes) -> npt.NDArray[np.int64]:
        """Return the numbers of the pages with the first slot of each key that are not in memory."""
        file = self._file()
        keys = plain(keys)
        file.order.check(keys)
        slots, state = _begun(file, keys)
        todo = np.flatnonzero(slots >= 0)
        first, last = np.empty(len(todo), np.int64), np.empty(len(todo), np.int64)
        kernels.needs_of(file.descriptor().ctypes.data, addresses_of(keys)[1], slots, state, todo, first, last)
        return file.missing(np.unique(np.concatenate([first, last])))

    def load(self, blocks: npt.NDArray[np.int64]) -> None:
        """Load pages into the cache, which may drop them before they are used."""
        file = self._file()
        for part in file.parts(blocks):
            file.pin(part)

    def lookup(self, key: bytes) -> bytes | None:
        """Look up the value of a key, or None."""
        file = self._file()
        if type(key) is not bytes or file.order.types is not None:
            file.order.check_one(key)
        outcome, place, size = kernels.lookup_one(self._descriptor, key, self._scratch_address)
        if outcome == kernels.ABSENT:
            return None
        if outcome == kernels.DAMAGED:
            raise file.damage(place)
        if outcome == kernels.FOUND:
            value = file.image_range(place, size)
            if value is not None:
                self._touch(file)
                return value
        found, values = self._in_rounds(file, plain(RowBytes.from_list([key])))
        return values[0] if found[0] else None

    def lookup_many(self, keys: RowBytes) -> Found:
        """Look up the values of n keys. With the whole image in memory, or a batch that needs all of it, in one pass; else page
        by page, so that each page is loaded as rarely as the cache's bound allows.
        """
        file = self._file()
        keys = plain(keys)
        file.order.check(keys)
        pages = len(file.positions)
        fits = file.context.image_size <= file.working_bytes or file.all_resident
        if file.all_in_memory() or (fits and len(keys) >= pages):
            pinned = file.pin(np.arange(pages))
            return self._in_one_pass(file, file.pinned_descriptor(pinned), keys)
        return self._in_rounds(file, keys)

    def entry_numbers(self, keys: RowBytes) -> npt.NDArray[np.int64] | None:
        """Return None: entries are not in the order of the keys."""
        return None

    def scan(self) -> Iterator[Entries]:
        """Read all entries, by key length, then by slot."""
        file = self._file()
        for section in file.context.sections:
            slot = 0
            while slot < section.slots:
                slot, keys = self._some_keys(file, section.key_length, slot)
                if len(keys):
                    yield Entries(keys, self.lookup_many(keys).values)

    def verify(self) -> int:
        """Check every page, and that every key in a slot is found again and counted by the context."""
        file = self._file()
        for number in range(len(file.positions)):
            file.block(number)
        counts = {section.key_length: 0 for section in file.context.sections}
        for section in file.context.sections:
            slot = 0
            while slot < section.slots:
                slot, keys = self._some_keys(file, section.key_length, slot)
                if not self.lookup_many(keys).found.all():
                    raise CorruptFileError(f"keys of {section.key_length} bytes are not found again", path=self._path)
                counts[section.key_length] += len(keys)
            if counts[section.key_length] != section.count:
                raise CorruptFileError(
                    f"{counts[section.key_length]} keys of {section.key_length} bytes, expected {section.count}",
                    path=self._path,
                )
        return sum(counts.values())

    def describe(self) -> dict[str, Any]:
        """Describe the context as JSON values."""
        return {"path": self._path, **describe_context(self._file().context)}

    def _touch(self, file: HashFile) -> None:
        """Report to the cache from time to time the pages that single lookups read."""
        self._uses += 1
        if self._uses % _TOUCH_EVERY == 0:
            self._descriptor = int(file.descriptor().ctypes.data)
            if not file.is_flat:
                file.touch(file.take_used())

    def _in_one_pass(self, file: HashFile, descriptor: npt.NDArray[np.int64], keys: RowBytes) -> Found:
        n = len(keys)
        found, offsets = np.empty(n, np.bool_), np.zeros(n + 1, np.int64)
        scratch = np.empty(file.scratch_size, np.uint8)
        # Room for n values of the mean size: only what is written takes memory.
        mean = file.context.image_size // max(file.context.entries, 1)
        out = np.empty(n * mean + 1024, np.uint8)
        i = 0
        while i < n:
            i, outcome, place = kernels.lookup_batch(
                descriptor.ctypes.data, *addresses_of(keys), i, n, found, out.ctypes.data, len(out), offsets,
                scratch.ctypes.data,
            )  # fmt: skip
            if outcome == kernels.DAMAGED:
                raise file.damage(place)
            if i < n:
                larger = np.empty(2 * len(out) + int(place), np.uint8)
                larger[: offsets[i]] = out[: offsets[i]]
                out = larger
        used = int(offsets[n])
        return Found(found, RowBytes(out[:used] if 2 * used >= len(out) else out[:used].copy(), offsets))

    def _in_rounds(self, file: HashFile, keys: RowBytes) -> Found:
        n = len(keys)
        spans = addresses_of(keys)
        slots, state = _begun(file, keys)
        found, addresses = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        scratch = np.empty(file.scratch_size, np.uint8)
        todo, held = np.flatnonzero(slots >= 0), []
        while len(todo):
            group, rest, wanted = _next_group(file, spans[1], slots, state, todo)
            pinned = file.pin(wanted)
            descriptor = file.pinned_descriptor(pinned)
            outcomes = np.empty(len(group), np.int64)
            damage = kernels.advance(descriptor.ctypes.data, *spans, slots, state, group, outcomes, scratch.ctypes.data)
            if damage >= 0:
                raise file.damage(int(damage))
            done = group[outcomes == kernels.FOUND]
            found[done] = True
            # The pages may go before the next round: keep the values.
            held.append(np.empty(int(state[done, kernels.SIZE].sum()), np.uint8))
            kernels.copy_values(descriptor.ctypes.data, state, done, held[-1].ctypes.data, addresses)
            todo = np.concatenate([group[outcomes == kernels.NEEDS_PAGES], rest])
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(np.where(found, state[:, kernels.SIZE], 0), out=offsets[1:])
        values = np.empty(int(offsets[n]), np.uint8)
        kernels.gather(state, addresses, found, values.ctypes.data, offsets)
        del held
        return Found(found, RowBytes(values, offsets))

    def _some_keys(self, file: HashFile, length: int, slot: int) -> tuple[int, RowBytes]:
        """Return the keys of the used slots of a length from `slot` on, and the slot where the next call continues."""
        most = max(1, min(_SCAN_ENTRIES, _SCAN_BYTES // max(length, 1)))
        keys, places = np.empty(most * length, np.uint8), np.empty(most, np.int64)
        scratch = np.empty(file.scratch_size, np.uint8)
        count, wanted = 0, np.zeros(0, np.int64)
        while count == 0:
            pinned = file.pin(wanted)
            slot, count, outcome, place = kernels.used_slots(
                file.pinned_descriptor(pinned).ctypes.data, length, slot, scratch.ctypes.data, keys.ctypes.data, places
            )
            if outcome == kernels.DAMAGED:
                raise file.damage(place)
            if outcome != kernels.NEEDS_PAGES:
                break
            wanted = np.arange(place >> file.shift, ((place + len(scratch) - 17) >> file.shift) + 1)
        return int(slot), RowBytes(keys, np.arange(int(count) + 1, dtype=np.int64) * length)


def _begun(file: HashFile, keys: RowBytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first slot of each key, -1 for one that the filter keeps out, and what is known of its search: nothing."""
    slots, state = np.empty(len(keys), np.int64), np.full((len(keys), 3), -1, np.int64)
    state[:, kernels.PROBE] = 0
    kernels.begin_many(file.descriptor().ctypes.data, *addresses_of(keys), len(keys), slots)
    return slots, state


def _next_group(
    file: HashFile,
    offsets: int,
    slots: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
    todo: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the keys whose next pages may be in memory together (one key at least), the other keys, and those pages."""
    first, last = np.empty(len(todo), np.int64), np.empty(len(todo), np.int64)
    kernels.needs_of(file.descriptor().ctypes.data, offsets, slots, state, todo, first, last)
    order = np.argsort(first, kind="stable")
    todo, first, last = todo[order], first[order], last[order]
    pages = np.cumsum(np.concatenate([[1], first[1:] != first[:-1]])) + np.cumsum(last - first)
    room = file.working_bytes // file.context.page_size
    take = max(1, int(np.searchsorted(pages, room, "right")))
    spans = last[:take] - first[:take] + 1
    inside = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
    return todo[:take], todo[take:], np.unique(np.repeat(first[:take], spans) + inside)
