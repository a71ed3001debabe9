"""Interval partition: files of a bucket into sections that do not overlap, and each section into few sorted runs.

Keys are compared as decoded values (BinaryRow bytes do not sort), turned once into dense integer ranks.

source   org.apache.paimon.mergetree.compact.IntervalPartition, org.apache.paimon.codegen.SortCodeGenerator (null first,
         Java's order of floating point numbers), release 1.4.2
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.types import STRING_ROOTS, DataType, Root

#: A sorted run: files in key order that do not overlap.
Run = tuple[DataFileMeta, ...]
#: Runs that overlap each other; sections do not.
Section = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its smallest and largest key as dense ranks among the files it was ranked with."""

    file: DataFileMeta
    low: int
    high: int


def key_order(value: Any, t: DataType) -> tuple[Any, ...]:
    """Return the key an internal value sorts by, in the order of key comparison: null first, else the type's order."""
    if value is None:
        return ()
    if t.root in STRING_ROOTS:
        return (value.encode("utf-8"),)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return (_float_order(value),)
    return (value,)


def _float_order(value: float) -> int:
    """Map a float to an integer in the order of Java's Double.compare: -0.0 below 0.0, NaN above all."""
    if value != value:
        return 1 << 64
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits) if bits >= 0 else int(bits) ^ 0x7FFFFFFFFFFFFFFF


def rank_files(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[RankedFile]:
    """Decode the key bounds of files and rank them.

    key_types   types of the trimmed primary key
    order       as given
    errors      CorruptFileError naming the file whose bounds cannot be read or are the wrong way round
    """
    bounds = [(_decode_key(f, f.min_key, key_types), _decode_key(f, f.max_key, key_types)) for f in files]
    ranks = {key: i for i, key in enumerate(sorted({k for pair in bounds for k in pair}))}
    out = []
    for file, (low, high) in zip(files, bounds, strict=True):
        if ranks[low] > ranks[high]:
            raise CorruptFileError("its smallest key is above its largest key", path=file.file_name)
        out.append(RankedFile(file, ranks[low], ranks[high]))
    return out


def _decode_key(file: DataFileMeta, data: bytes, key_types: Sequence[DataType]) -> tuple[Any, ...]:
    try:
        arity, row = split_arity(data)
        if arity != len(key_types):
            raise CorruptFileError(f"its key bounds have {arity} columns, the primary key has {len(key_types)}")
        values = decode_row(row, key_types)
    except CorruptFileError as e:
        raise CorruptFileError(f"its key bounds cannot be read: {e}", path=file.file_name) from e
    return tuple(key_order(v, t) for v, t in zip(values, key_types, strict=True))


def partition_intervals(files: Sequence[RankedFile]) -> list[list[list[RankedFile]]]:
    """Partition files into sections in key order; each a list of runs; each run in key order.

    files    any order; ranked together
    order    runs of a section stand as Java's priority queue leaves them (it does not matter which comes first)
    cost     O(n log n)
    """
    ordered = sorted(files, key=lambda f: (f.low, f.high))
    sections: list[list[list[RankedFile]]] = []
    current: list[RankedFile] = []
    bound = -1
    for file in ordered:
        if current and file.low > bound:
            sections.append(_pack_runs(current))
            current = []
            bound = -1
        current.append(file)
        bound = max(bound, file.high)
    if current:
        sections.append(_pack_runs(current))
    return sections


def sections_of(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> tuple[Section, ...]:
    """Partition plain files into sections; see `partition_intervals`.

    errors   CorruptFileError naming the file whose bounds cannot be read
    """
    return tuple(
        tuple(tuple(f.file for f in run) for run in section)
        for section in partition_intervals(rank_files(files, key_types))
    )


def _pack_runs(files: list[RankedFile]) -> list[list[RankedFile]]:
    """Pack the files ordered by key into as few runs as possible: each is appended to the run that ends first, if that fits."""
    heap: list[list[RankedFile]] = [[files[0]]]
    for file in files[1:]:
        top = _poll(heap)
        if file.low > top[-1].high:
            top.append(file)
        else:
            _offer(heap, [file])
        _offer(heap, top)
    return heap


# A binary heap step for step like java.util.PriorityQueue (heapq sifts differently), ordered by where a run ends: so
# runs with equal ends are polled as Java polls them, and files land in the same runs.


def _offer(heap: list[list[RankedFile]], run: list[RankedFile]) -> None:
    heap.append(run)
    at = len(heap) - 1
    while at > 0:
        parent = (at - 1) >> 1
        if run[-1].high >= heap[parent][-1].high:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = run


def _poll(heap: list[list[RankedFile]]) -> list[RankedFile]:
    top = heap[0]
    run = heap.pop()
    if heap:
        at, half = 0, len(heap) >> 1
        while at < half:
            child = 2 * at + 1
            if child + 1 < len(heap) and heap[child][-1].high > heap[child + 1][-1].high:
                child += 1
            if run[-1].high <= heap[child][-1].high:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = run
    return top
