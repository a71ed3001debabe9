"""Reads manifests into columns: block by block, a walk over the records finds the fields, and no object is made.

What a caller does not want is dropped while its manifest is read. Records are held as they are in the file, compressed, or cut
out of it where that is less.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.containers.avro import PackedBlock, packed_blocks
from lakeidx.codec.containers.avro_codecs import INFLATE_ERRORS
from lakeidx.codec.containers.avro_walk import ABSENT, Walk, compiled, copy_out, slots_of
from lakeidx.errors import CorruptFileError
from lakeidx.format.manifest import FileKind, ManifestEntry, decode_manifest, encode_manifest
from lakeidx.table.entries import COLUMNS, Entries, EntryBlock, KeepPartitions, joined, no_entries
from lakeidx.table.entry_kernels import hash_identities, sound_entries

#: Bytes of records that are walked at a time.
_WALK_BYTES = 1 << 20

_FILE = "_FILE"
#: Fields that are looked at in records of other partitions.
_LOOKED_AT = ((("_PARTITION",), "bytes"), (("_KIND",), "value"), ((_FILE, "_FILE_SIZE"), "value"))
_FIELDS = (
    (("_VERSION",), "value"),
    (("_KIND",), "value"),
    (("_PARTITION",), "bytes"),
    (("_BUCKET",), "value"),
    (("_TOTAL_BUCKETS",), "value"),
    ((_FILE, "_FILE_NAME"), "bytes"),
    ((_FILE, "_FILE_SIZE"), "value"),
    ((_FILE, "_ROW_COUNT"), "value"),
    ((_FILE, "_MIN_SEQUENCE_NUMBER"), "value"),
    ((_FILE, "_MAX_SEQUENCE_NUMBER"), "value"),
    ((_FILE, "_SCHEMA_ID"), "value"),
    ((_FILE, "_LEVEL"), "value"),
    ((_FILE, "_EXTRA_FILES"), "span"),
    ((_FILE, "_DELETE_ROW_COUNT"), "value"),
    ((_FILE, "_EMBEDDED_FILE_INDEX"), "bytes"),
    ((_FILE, "_EXTERNAL_PATH"), "bytes"),
)
#: Column -> Avro field.
_NUMBERS = {
    "kind": ("_KIND",),  # the first: see `_MUST`
    "bucket": ("_BUCKET",),
    "total_buckets": ("_TOTAL_BUCKETS",),
    "level": (_FILE, "_LEVEL"),
    "schema_id": (_FILE, "_SCHEMA_ID"),
    "file_size": (_FILE, "_FILE_SIZE"),
    "row_count": (_FILE, "_ROW_COUNT"),
    "min_sequence": (_FILE, "_MIN_SEQUENCE_NUMBER"),
    "max_sequence": (_FILE, "_MAX_SEQUENCE_NUMBER"),
}
_SLOT = slots_of(_FIELDS)
_PARTITION, _NAME, _EXTERNAL = (_SLOT[p] for p in (("_PARTITION",), (_FILE, "_FILE_NAME"), (_FILE, "_EXTERNAL_PATH")))
_NUMBER_SLOTS = np.array([_SLOT[p] for p in _NUMBERS.values()])
#: Of these columns, which have 32 bits.
_NARROW = np.array([COLUMNS[name].itemsize == 4 for name in _NUMBERS])
#: Slots that every entry has, those of version and kind first.
_MUST = np.array([_SLOT[("_VERSION",)], *_NUMBER_SLOTS, _PARTITION, _NAME])
#: What an ADD and its DELETE agree in: numbers, and byte strings, of which the extra files have begin and end.
_SAME_NUMBERS = np.array([_SLOT[("_BUCKET",)], _SLOT[(_FILE, "_LEVEL")]])
_SAME_PIECES = np.array(
    [
        (_PARTITION, 0),
        (_NAME, 0),
        (_SLOT[(_FILE, "_EXTRA_FILES")], 1),
        (_SLOT[(_FILE, "_EMBEDDED_FILE_INDEX")], 0),
        (_EXTERNAL, 0),
    ]
)


def entries_of(entries: Iterable[ManifestEntry]) -> Entries:
    """Convert objects to columns; columns are returned as they are."""
    if isinstance(entries, Entries):
        return entries
    objects = list(entries)
    return decode_entries(encode_manifest(objects, codec="null")).keeping(objects) if objects else no_entries()


def decode_entries(
    data: bytes,
    path: str | None = None,
    *,
    keep: KeepPartitions | None = None,
    hold: bool = True,
    external: Callable[[list[str]], None] | None = None,
) -> Entries:
    """Read a manifest file, in file order.

    keep       only entries of these partitions; `Entries.left_out` counts the others
    hold       False: there are the columns, and no objects can be made
    external   called with the external paths of the entries, when there are any
    errors     CorruptFileError
    cost       some 2.5 µs for an entry with statistics of 16 columns, 1.5 µs for one that is left out;
               it releases the interpreter lock for most of them
    """
    with contextlib.suppress(ValueError, KeyError, *INFLATE_ERRORS):
        writer, _, packed = packed_blocks(data, path)
        found = _walked(writer, packed, path, keep, hold, external)
        if found is not None:
            return found
    # The decoder of objects says what is wrong.
    decode_manifest(data, path)
    raise CorruptFileError("the entries of the manifest cannot be read", path=path)


def _walked(
    writer: bytes,
    packed: Iterable[PackedBlock],
    path: str | None,
    keep: KeepPartitions | None,
    hold: bool,
    external: Callable[[list[str]], None] | None,
) -> Entries | None:
    parts: list[Entries] = []
    blocks: list[tuple[PackedBlock, bytes]] = []
    size = 0
    for block in chain(packed, (None,)):
        if block is not None and block.count:
            raw = block.unpack(block.packed)
            blocks.append((block, raw))
            size += len(raw)
        if blocks and (block is None or size >= _WALK_BYTES):
            group = _Group(blocks, writer, path)
            if not group.walk(keep):
                return None
            part = _group_entries(group, hold, external) if group.slots.shape[1] else no_entries()
            # What holds all of a file holds it as it is, without a copy.
            parts.append(part if keep is None else part.alone().leaving_out(group.left_out))
            blocks, size = [], 0
    return joined(parts)


class _Group:
    """Neighbouring blocks of a manifest, uncompressed, and after `walk` the slots of the records that are kept."""

    def __init__(self, blocks: Sequence[tuple[PackedBlock, bytes]], writer: bytes, path: str | None) -> None:
        self.blocks, self.writer, self.path = blocks, writer, path
        # Kernels load words of eight bytes, so there are as many behind the last record.
        self.padded = b"".join((*(raw for _, raw in blocks), bytes(8)))
        self.raw = memoryview(self.padded)[:-8]
        self.counts = np.array([b.count for b, _ in blocks], np.int64)
        self.offsets = np.array([*accumulate((len(raw) for _, raw in blocks), initial=0)], np.int64)
        self._walk = compiled(writer, _FIELDS)
        self.slots: npt.NDArray[np.int64] = np.empty((0, 0), np.int64)
        self.left_out = (0, 0)

    def walk(self, keep: KeepPartitions | None) -> bool:
        """Find the fields of the records; False when the blocks are not what a manifest's are.

        keep   only records of these partitions
        """
        slots = None
        if keep is None:
            slots = self._all_records(self._walk)
        else:
            first = compiled(self.writer, _LOOKED_AT)
            found = self._all_records(first)
            if found is not None:
                at = first.first[("_PARTITION",)]
                kept = _kept(self.raw, found[at], found[at + 1], keep)
                kind, size = (found[first.first[p]][~kept] for p in (("_KIND",), (_FILE, "_FILE_SIZE")))
                sign = np.where(kind == FileKind.ADD, 1, -1)
                self.left_out = (int(sign.sum()), int((sign * size).sum()))
                slots = self._walk.records_at(self.raw, found[0][kept])
        if slots is None:
            return False
        self.slots = frozen(slots)
        return sound_entries(self.raw, self.slots, _MUST, _NAME)

    def _all_records(self, walk: Walk) -> npt.NDArray[np.int64] | None:
        total = int(self.counts.sum())
        # No record is shorter than a byte; a damaged count must not make anybody allocate without bound.
        slots = walk.records(self.raw, total) if total <= len(self.raw) else None
        if slots is None:
            return None
        # The first block begins where the walk does.
        if len(self.blocks) > 1 and (slots[0][np.cumsum(self.counts) - self.counts] != self.offsets[:-1]).any():
            return None
        return slots


def _kept(
    raw: memoryview, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], keep: KeepPartitions
) -> npt.NDArray[np.bool_]:
    """Return which records to keep; `starts`, `lengths`: where the partition of each is."""
    if (starts == ABSENT).any():
        return np.ones(len(starts), np.bool_)
    numbers, partitions = _numbered(raw, starts, lengths)
    flags: npt.NDArray[np.bool_] = keep(partitions)[numbers]
    return flags


def _numbered(
    raw: memoryview, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], list[bytes]]:
    """Count distinct byte strings: int32[n], the number of each, and the strings by number."""
    found = copy_out(raw, starts, lengths).dictionary_encode()
    return np.asarray(found.indices), found.dictionary.to_pylist()


def _group_entries(group: _Group, hold: bool, external: Callable[[list[str]], None] | None) -> Entries:
    slots = group.slots
    if external is not None:
        _report_external_paths(group, external)
    rows = np.empty(slots.shape[1], COLUMNS)
    rows["partition"], partitions = _numbered(group.raw, slots[_PARTITION], slots[_PARTITION + 1])
    rows["high"], rows["low"] = hash_identities(group.padded, slots, _SAME_NUMBERS, _SAME_PIECES)
    rows["block"], rows["start"], rows["size"], blocks = _held_blocks(group, hold)
    numbers = slots[_NUMBER_SLOTS]
    narrow = numbers[_NARROW]
    if (narrow.astype(np.int32) != narrow).any():
        raise ValueError("a number does not fit its column")
    for name, values in zip(_NUMBERS, numbers, strict=True):
        rows[name] = values
    deletes = slots[_SLOT[(_FILE, "_DELETE_ROW_COUNT")]]
    rows["delete_row_count"] = np.where(deletes == ABSENT, -1, deletes)
    return Entries(rows, tuple(partitions), blocks)


def _report_external_paths(group: _Group, external: Callable[[list[str]], None]) -> None:
    starts, lengths = group.slots[_EXTERNAL], group.slots[_EXTERNAL + 1]
    there = np.flatnonzero(starts != ABSENT)
    if len(there):
        paths = copy_out(group.raw, starts[there], lengths[there]).unique().to_pylist()
        external([path.decode() for path in paths])


def _held_blocks(
    group: _Group, hold: bool
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32], list[EntryBlock]]:
    """Keep the records: block by block as they are in the file, or uncompressed where that is smaller."""
    starts, sizes = group.slots[0], group.slots[1] - group.slots[0]
    bounds = starts.searchsorted(group.offsets).tolist()
    block = np.full(len(starts), -1, np.int32)
    start = starts.astype(np.int32)
    blocks: list[EntryBlock] = []
    for (packed, raw), offset, first, last in zip(
        group.blocks, group.offsets.tolist(), bounds, bounds[1:], strict=False
    ):
        if first == last:
            continue
        mine = slice(first, last)
        start[mine] -= offset
        if not hold:
            continue
        block[mine] = len(blocks)
        if sizes[mine].sum() < len(packed.packed):
            pieces = [raw[a : a + n] for a, n in zip(start[mine].tolist(), sizes[mine].tolist(), strict=True)]
            start[mine] = np.cumsum([0, *map(len, pieces[:-1])])
            blocks.append(EntryBlock(group.writer, b"".join(pieces), None, group.path))
        else:
            blocks.append(EntryBlock(group.writer, packed.packed, packed.unpack, group.path))
    return block, start, sizes.astype(np.int32), blocks
