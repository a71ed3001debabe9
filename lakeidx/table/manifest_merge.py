"""Merges small manifests at commit, so that a long history does not mean a long list.

A full merge rewrites every manifest that is small or holds deletes once together they reach the threshold; else a minor
merge in list order folds runs of small ones. What to merge with what is decided without I/O.

source   org.apache.paimon.operation.ManifestFileMerger, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta

Read = Callable[[str], list[ManifestEntry]]
Write = Callable[[list[ManifestEntry]], list[ManifestFileMeta]]


@dataclass(frozen=True, slots=True)
class MinorStep:
    """One step of a minor merge: manifests that stay, or manifests that become one."""

    manifests: tuple[ManifestFileMeta, ...]
    rewrite: bool


def plan_full_merge(manifests: Sequence[ManifestFileMeta], *, target_bytes: int, threshold_bytes: int) -> bool:
    """True when the manifests that must change are together large enough to be worth a full rewrite."""
    must_change = [m for m in manifests if m.num_deleted_files > 0 or m.file_size < target_bytes]
    return len(must_change) > 1 and sum(m.file_size for m in must_change) >= threshold_bytes


def plan_minor_merge(manifests: Sequence[ManifestFileMeta], *, target_bytes: int, min_count: int) -> list[MinorStep]:
    """Group manifests in list order: a run that reaches the target size becomes one; a rest only if it is long enough."""
    steps: list[MinorStep] = []
    pending: list[ManifestFileMeta] = []
    size = 0
    for meta in manifests:
        pending.append(meta)
        size += meta.file_size
        if size >= target_bytes:
            steps.append(MinorStep(tuple(pending), len(pending) > 1))
            pending, size = [], 0
    if pending:
        steps.append(MinorStep(tuple(pending), len(pending) >= min_count))
    return steps


def cancel_pairs(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Drop ADD entries that a later DELETE takes back, and that DELETE; an unmatched DELETE stays."""
    kept: dict[object, ManifestEntry] = {}
    for entry in entries:
        identifier = entry.identifier
        if entry.kind is FileKind.DELETE and identifier in kept and kept[identifier].kind is FileKind.ADD:
            del kept[identifier]
        else:
            kept[identifier] = entry
    return list(kept.values())


def merge_manifests(
    manifests: Sequence[ManifestFileMeta],
    *,
    target_bytes: int,
    threshold_bytes: int,
    min_count: int,
    read: Read,
    write: Write,
) -> list[ManifestFileMeta]:
    """The base list of the next snapshot: the same live files in fewer manifests where that pays.

    read    entries of a manifest by name
    write   writes entries as one or more manifests (rolling at the target size)
    """
    if plan_full_merge(manifests, target_bytes=target_bytes, threshold_bytes=threshold_bytes):
        return _full_merge(manifests, target_bytes, read, write)
    out: list[ManifestFileMeta] = []
    for step in plan_minor_merge(manifests, target_bytes=target_bytes, min_count=min_count):
        if not step.rewrite:
            out.extend(step.manifests)
            continue
        entries = cancel_pairs([e for m in step.manifests for e in read(m.file_name)])
        if entries:
            out.extend(write(entries))
    return out


def _full_merge(
    manifests: Sequence[ManifestFileMeta], target_bytes: int, read: Read, write: Write
) -> list[ManifestFileMeta]:
    deleted: set[object] = set()
    for meta in manifests:
        if meta.num_deleted_files > 0:
            deleted.update(e.identifier for e in read(meta.file_name) if e.kind is FileKind.DELETE)
    # An upgrade and a later move back can delete and re-add one identifier, so order decides, not set membership alone.
    live = cancel_pairs([e for m in manifests for e in read(m.file_name)]) if deleted else []
    live_ids = {e.identifier for e in live}
    kept: list[ManifestFileMeta] = []
    rewritten: list[ManifestEntry] = []
    for meta in manifests:
        small = meta.file_size < target_bytes
        if not small and meta.num_deleted_files == 0:
            entries = read(meta.file_name) if deleted else []
            if not any(e.identifier in deleted for e in entries):
                kept.append(meta)
                live_ids.difference_update(e.identifier for e in entries)
                continue
        if not deleted:
            rewritten.extend(read(meta.file_name))
    if deleted:
        rewritten = [e for e in live if e.identifier in live_ids and e.kind is FileKind.ADD]
    return [*kept, *(write(rewritten) if rewritten else [])]
