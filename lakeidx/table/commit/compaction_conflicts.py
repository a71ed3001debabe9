"""Conflicts of a compaction: what it rewrote was changed by a commit since, or its files would overlap others of their level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.table.commit.changes import CommitRequest
from lakeidx.table.commit.conflicts import MOST_FINDINGS, VectorPlaces
from lakeidx.table.deletion_vectors import deletion_vectors
from lakeidx.table.intervals import key_order
from lakeidx.table.view import SnapshotView
from lakeidx.types import DataType


def compaction_conflicts(
    view: SnapshotView, data: Sequence[ManifestEntry], request: CommitRequest, key_types: Sequence[DataType]
) -> list[str]:
    """Check that a compaction may follow a snapshot.

    view   of the buckets that it rewrites, at least
    """
    there = view.entries.of_places({(e.partition, e.bucket) for e in data} | set(request.exact_files))
    return [
        *_vector_conflicts(deletion_vectors(view.index), data, request.vectors),
        *_level_overlaps(there, data, key_reader(key_types)),
        *_exact_file_conflicts(there, request.exact_files),
    ]


def key_reader(types: Sequence[DataType]) -> Callable[[bytes], tuple[tuple[Any, ...], ...]]:
    """Return what turns key bytes of a data file into something that compares as the keys are sorted (`key_order`)."""

    def read(data: bytes) -> tuple[tuple[Any, ...], ...]:
        values = decode_row(split_arity(data)[1], types)
        return tuple(key_order(v, t) for v, t in zip(values, types, strict=True))

    return read


def _level_overlaps(
    live: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], key: Callable[[bytes], Any]
) -> list[str]:
    """Check rule 3: files of one bucket and level >= 1 do not overlap in keys.

    live  at least those of the buckets that the delta speaks of
    key   turns min/max key bytes into something that compares as the keys do
    """
    after = {e.identifier: e for e in live}
    touched: set[tuple[bytes, int, int]] = set()
    for entry in delta:
        if entry.kind is FileKind.DELETE:
            after.pop(entry.identifier, None)
        else:
            after[entry.identifier] = entry
            if entry.file.level >= 1:
                touched.add((entry.partition, entry.bucket, entry.file.level))
    runs: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
    for entry in after.values():
        place = (entry.partition, entry.bucket, entry.file.level)
        if place in touched:
            runs.setdefault(place, []).append(entry.file)
    findings: list[str] = []
    for (_, bucket, level), files in runs.items():
        ordered = sorted(files, key=lambda f: key(f.min_key))
        for left, right in pairwise(ordered):
            if not key(left.max_key) < key(right.min_key):
                findings.append(
                    f"files {left.file_name} and {right.file_name} overlap in bucket {bucket} level {level}"
                )
    return findings[:MOST_FINDINGS]


def _exact_file_conflicts(
    live: Sequence[ManifestEntry], exact: Mapping[tuple[bytes, int], frozenset[str]]
) -> list[str]:
    """Check rule 6: a bucket whose hash index is rebuilt from its rows got no other rows since they were read."""
    names: dict[tuple[bytes, int], set[str]] = {place: set() for place in exact}
    for entry in live:
        if (entry.partition, entry.bucket) in names:
            names[(entry.partition, entry.bucket)].add(entry.file.file_name)
    return [
        f"bucket {place[1]} got other files while its hash index was rewritten"
        for place, wanted in exact.items()
        if names[place] != wanted
    ][:MOST_FINDINGS]


def _vector_conflicts(live: VectorPlaces, delta: Sequence[ManifestEntry], read: VectorPlaces) -> list[str]:
    """Check rule 9: the files whose rows a compaction has read have the deletion vectors they were read with.

    live, read   now, and when the compaction was planned. A file that only changes its level keeps its vector
    """
    added = {(e.partition, e.bucket, e.file.file_name) for e in delta if e.kind is FileKind.ADD}
    findings = []
    for entry in delta:
        place = (entry.partition, entry.bucket, entry.file.file_name)
        if entry.kind is FileKind.DELETE and place not in added and live.get(place) != read.get(place):
            findings.append(
                f"rows of data file {entry.file.file_name} (bucket {entry.bucket}) were deleted while it was compacted"
            )
    return findings[:MOST_FINDINGS]
