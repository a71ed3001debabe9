"""Merges small manifests at commit, so that a long history does not mean a long list.

A full merge rewrites every manifest that is small or holds deletes once together they reach the threshold; else a minor
merge in list order folds runs of small ones. What to merge with what is decided without I/O.

source   org.apache.paimon.operation.ManifestFileMerger, release 1.4.2
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Protocol

from lakeidx.format.manifest import FileKind
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.table.entries import Entries
from lakeidx.table.entry_kernels import found_in, uncancelled_entries

_SIZE = attrgetter("file_size")
Write = Callable[[Entries], list[ManifestFileMeta]]


class Read(Protocol):
    """Reads the entries of manifests, in order; `hold` as in `lakeidx.table.entries.decode_entries`."""

    def __call__(self, metas: Sequence[ManifestFileMeta], *, hold: bool = True) -> Entries:
        """Read them."""


@dataclass(frozen=True, slots=True)
class MinorStep:
    """One step of a minor merge: manifests that stay, or manifests that become one."""

    manifests: tuple[ManifestFileMeta, ...]
    rewrite: bool


def _plan_full_merge(manifests: Sequence[ManifestFileMeta], *, target_bytes: int, threshold_bytes: int) -> bool:
    """Return True when the manifests that must change are together large enough to be worth a full rewrite."""
    if sum(map(_SIZE, manifests)) < threshold_bytes:
        # All of them are too small: each commit asks.
        return False
    must_change = [m for m in manifests if m.num_deleted_files > 0 or m.file_size < target_bytes]
    return len(must_change) > 1 and sum(map(_SIZE, must_change)) >= threshold_bytes


def _plan_minor_merge(manifests: Sequence[ManifestFileMeta], *, target_bytes: int, min_count: int) -> list[MinorStep]:
    """Group manifests in list order: a run that reaches the target size becomes one; a rest only if it is long enough."""
    steps: list[MinorStep] = []
    # Bytes before each manifest, and of all.
    sums = [*accumulate(map(_SIZE, manifests), initial=0)]
    first = 0
    while first < len(manifests):
        last = bisect_left(sums, sums[first] + target_bytes, first + 1)
        run = tuple(manifests[first:last])
        steps.append(MinorStep(run, len(run) > 1 if last < len(sums) else len(run) >= min_count))
        first = last
    return steps


def cancel_pairs(entries: Entries) -> Entries:
    """Drop ADD entries that a later DELETE removes, and that DELETE; an unmatched DELETE stays."""
    return entries.select(
        uncancelled_entries(entries.column("kind"), entries.column("high"), entries.column("low"))
    ).compact()


def merge_manifests(
    manifests: Sequence[ManifestFileMeta],
    *,
    target_bytes: int,
    threshold_bytes: int,
    min_count: int,
    read: Read,
    write: Write,
) -> list[ManifestFileMeta]:
    """Write the base list of the next snapshot: the same live files in fewer manifests where that pays.

    write   writes entries as one or more manifests (rolling at the target size)
    """
    if _plan_full_merge(manifests, target_bytes=target_bytes, threshold_bytes=threshold_bytes):
        return _full_merge(manifests, target_bytes, read, write)
    out: list[ManifestFileMeta] = []
    for step in _plan_minor_merge(manifests, target_bytes=target_bytes, min_count=min_count):
        if not step.rewrite:
            out.extend(step.manifests)
            continue
        entries = cancel_pairs(read(step.manifests))
        if len(entries):
            out.extend(write(entries))
    return out


def _full_merge(
    manifests: Sequence[ManifestFileMeta], target_bytes: int, read: Read, write: Write
) -> list[ManifestFileMeta]:
    deletes = read([m for m in manifests if m.num_deleted_files > 0], hold=False)
    deletes = deletes.select(deletes.column("kind") == FileKind.DELETE)
    kept: list[ManifestFileMeta] = []
    rest: list[ManifestFileMeta] = []
    for meta in manifests:
        changes = meta.num_deleted_files > 0 or meta.file_size < target_bytes
        if not changes and len(deletes):
            here = read([meta], hold=False)
            changes = bool(
                found_in(here.column("high"), here.column("low"), deletes.column("high"), deletes.column("low")).any()
            )
        (rest if changes else kept).append(meta)
    # An upgrade and a later move back can delete and re-add one identifier, so order decides, not set membership alone.
    left = cancel_pairs(read(rest))
    rewritten = left.select(left.column("kind") == FileKind.ADD)
    return [*kept, *(write(rewritten) if len(rewritten) else [])]
