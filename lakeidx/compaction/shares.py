"""Cuts the compaction of a large bucket into shares by key range, so that one hot bucket does not end last, and joins them.

A share merges its range of all runs into files of its own: the ranges do not overlap, so all files together are one sorted run, as
one task had made it. They are cut where files of the largest run begin, for the output is mostly that run again, and files keep
their size. The bucket is committed as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lakeidx.compaction.bucket import BucketCompaction, CompactedBucket, entry_of
from lakeidx.compaction.index_changes import vector_changes
from lakeidx.compaction.key_range import KeyRange
from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.plan import Rewrite, Step
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind
from lakeidx.table.intervals import RankedFile, Section, rank_files
from lakeidx.tasks.groups import GroupedWork

#: Files of the target size that a share has at least: its last one is not full.
LEAST_FILES = 4


def compact_in_shares(
    tasks: GroupedWork[BucketCompaction, CompactedBucket], work: Sequence[BucketCompaction]
) -> list[tuple[BucketCompaction, CompactedBucket]]:
    """Compact buckets, large ones in several tasks; return those that succeeded, each with what was made of it."""
    cut = [(w, shares_of(w, n)) for w, n in zip(work, _plan_shares(work, tasks.runner.parallelism), strict=True)]
    made = {id(share): result for share, result in tasks.run([share for _, shares in cut for share in shares])}
    done = []
    for w, shares in cut:
        results = [made[id(s)] for s in shares if id(s) in made]
        if len(results) == len(shares):
            done.append((w, results[0] if shares[0] is w else join_bucket_shares(w, results)))
    return done


def _plan_shares(work: Sequence[BucketCompaction], parallelism: int) -> list[int]:
    """Plan how many shares each bucket's compaction has: as many as it has of what one of the tasks would get.

    parallelism   tasks that run at a time
    """
    total = sum(w.task.rewrite_bytes for w in work)
    if not total or parallelism < 2:
        return [1] * len(work)
    return [
        max(1, min(int(w.task.rewrite_bytes * parallelism / total + 0.5), w.task.rewrite_bytes // _least_bytes(w)))
        for w in work
    ]


def _least_bytes(work: BucketCompaction) -> int:
    return LEAST_FILES * compaction_options(work.schema).target_file_bytes


def shares_of(work: BucketCompaction, parts: int) -> list[BucketCompaction]:
    """Cut a bucket's compaction into shares, at most `parts` of each step; itself alone where it cannot be cut.

    What is not cut: the rewrites of append tables, whose rows have no order; of a shrunk hash index, which needs the hashes of all
    rows; and steps that look keys up in higher levels, which stay.
    """
    if parts < 2 or not work.schema.primary_keys or work.shrink_index:
        return [work]
    whole: list[Step] = []
    shares: list[BucketCompaction] = []
    for step in work.task.steps:
        above = step.lookup and any(f.level > work.task.output_level for f in work.kept)
        ranges = [] if above or not isinstance(step, Rewrite) else _ranges(work, step, parts)
        if len(ranges) < 2:
            whole.append(step)
        shares += [_share(work, (s,), keys) for s, keys in ranges if len(ranges) > 1]
    if not shares:
        return [work]
    return [*([_share(work, tuple(whole), KeyRange())] if whole else []), *shares]


def _share(work: BucketCompaction, steps: tuple[Step, ...], keys: KeyRange) -> BucketCompaction:
    return replace(work, task=replace(work.task, steps=steps), keys=keys)


def _ranges(work: BucketCompaction, step: Rewrite, parts: int) -> list[tuple[Rewrite, KeyRange]]:
    """Cut a rewrite where files of the largest runs of its sections begin."""
    ranked = {r.file.file_name: r for r in rank_files(step.files, work.schema.key_types)}
    main = [f for section in step.sections for f in max(section, key=lambda run: sum(f.file_size for f in run))]
    starts = _starts(main, parts)
    bounds = [None, *starts, None]
    out = []
    for low, high in pairwise(bounds):
        sections, cut = _between(step.sections, ranked, low, high)
        keys = KeyRange(None if low is None else low.min_key, None if high is None else high.min_key, frozenset(cut))
        out.append((replace(step, sections=sections), keys))
    return out


def _starts(files: Sequence[DataFileMeta], parts: int) -> list[DataFileMeta]:
    """Choose the files that shares begin with, but the first: parts of about the same bytes."""
    total, before = sum(f.file_size for f in files), 0
    starts: list[DataFileMeta] = []
    for file in files:
        if before * parts >= total * (len(starts) + 1) and before:
            starts.append(file)
        before += file.file_size
    return starts


def _between(
    sections: Sequence[Section], ranked: dict[str, RankedFile], low: DataFileMeta | None, high: DataFileMeta | None
) -> tuple[tuple[Section, ...], list[str]]:
    """Choose the files with keys from the beginning of one file to that of another one, and those that have others besides."""
    first = -1 if low is None else ranked[low.file_name].low
    end = 2 * len(ranked) if high is None else ranked[high.file_name].low
    cut: list[str] = []

    def inside(file: DataFileMeta) -> bool:
        keys = ranked[file.file_name]
        touches = keys.high >= first and keys.low < end
        if touches and (keys.low < first or keys.high >= end):
            cut.append(file.file_name)
        return touches

    chosen = (tuple(run for run in (tuple(filter(inside, r)) for r in section) if run) for section in sections)
    return tuple(section for section in chosen if section), cut


def join_bucket_shares(work: BucketCompaction, made: Sequence[CompactedBucket]) -> CompactedBucket:
    """Join what tasks made of the shares of a bucket into what one task had made of all of it."""
    task = work.task
    rewritten = [f for step in task.steps if isinstance(step, Rewrite) for f in step.files]
    added = [e for m in made for e in m.changes.compact if e.kind is FileKind.ADD]
    gone = {f.file_name for f in task.files} - {e.file.file_name for e in added}
    return replace(
        made[0],
        changes=replace(
            made[0].changes,
            compact=(*(entry_of(work, FileKind.DELETE, f) for f in task.files), *added),
            compact_index=tuple(vector_changes(work, NewFileNames(), gone, {})),
            compact_changelog=tuple(e for m in made for e in m.changes.compact_changelog),
        ),
        rows_in=sum(f.row_count for f in rewritten),
        rows_out=sum(m.rows_out for m in made),
        bytes_in=sum(f.file_size for f in rewritten),
        bytes_out=sum(m.bytes_out for m in made),
        upgraded=sum(m.upgraded for m in made),
        changelog_rows=sum(m.changelog_rows for m in made),
    )
