"""Plan of a compaction of one bucket, as data: pick, sections, rewrites and upgrades.

source   org.apache.paimon.mergetree.compact.{MergeTreeCompactManager, MergeTreeCompactTask, FileRewriteCompactTask,
         ChangelogMergeTreeRewriter, LookupMergeTreeCompactRewriter, FullChangelogMergeTreeCompactRewriter},
         release 1.4.2; for append tables org.apache.paimon.append.{AppendCompactCoordinator, BucketedAppendCompactManager}.
         Unlike Java, which joins any small files of a table without buckets, lakeidx joins neighbours only: rows keep their order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lakeidx.compaction.levels import Levels, build_levels
from lakeidx.compaction.options import CompactionOptions, compaction_options
from lakeidx.compaction.pick import (
    CompactUnit,
    PickMoment,
    PickReason,
    pick_full,
    pick_universal,
    pick_up_level_0,
)
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.intervals import Section, sections_of


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Merge the sections, one after another, into new files of the output level.

    sections      in key order; each section's runs are merged, sections do not overlap
    drop_delete   leave rows of kind -U and -D out
    changelog     also produce changelog rows (changelog-producer lookup or full-compaction)
    lookup        keys of its level-0 files are looked up in the levels above the output
    """

    sections: tuple[Section, ...]
    drop_delete: bool
    changelog: bool = False
    lookup: bool = False

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All inputs."""
        return tuple(f for section in self.sections for run in section for f in run)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Keep the file as it is and change only its level.

    changelog    its rows must be read to produce changelog
    lookup       its keys are looked up in the levels above the output: it comes from level 0
    instead      how it is rewritten when it has deletes that its manifest entry does not count; None where a file with
                 deletes would be upgraded, too
    """

    file: DataFileMeta
    changelog: bool = False
    lookup: bool = False
    instead: Rewrite | None = None

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The one input."""
        return (self.file,)


Step = Rewrite | Upgrade


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One bucket's compaction.

    steps          in key order; the output of each precedes that of the next
    output_level   level of all outputs
    max_level      highest level of the tree
    reason         why it was picked
    """

    steps: tuple[Step, ...]
    output_level: int
    max_level: int
    reason: PickReason

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """Files that the steps replace (files left as they are, at the output level already, are not among them)."""
        return tuple(f for step in self.steps for f in step.files)

    @property
    def rewrite_bytes(self) -> int:
        """Bytes of the files that have to be read."""
        return sum(f.file_size for step in self.steps if isinstance(step, Rewrite) for f in step.files)


def plan_compaction(
    files: Sequence[DataFileMeta],
    schema: TableSchema,
    *,
    full: bool,
    now_ms: int | None = None,
    hour: int | None = None,
    must_rewrite: Collection[str] = (),
    gentle: bool = False,
) -> CompactionTask | None:
    """Plan the compaction of one bucket, or None when there is nothing to do.

    files                     live data files of the (partition, bucket), any order
    full                      merge everything into the top level
    now_ms                    epoch ms, for compaction.optimization-interval
    hour                      hour of the day, for off-peak hours
    must_rewrite              files with deletion vectors or expired records: never just upgraded
    gentle                    level 0 may keep some runs where lookup-compact=gentle says so; else it is emptied where that is due
    errors                    CorruptFileError naming overlapping or unreadable files; InvalidInputError for bad options
    """
    options = compaction_options(schema)
    levels = build_levels(files, schema.key_types, num_levels=options.table.max_levels)
    if full:
        forced = options.table.compaction_force_rewrite_all_files
        unit = pick_full(levels.num_levels, levels.runs, force_rewrite=forced, must_rewrite=must_rewrite)
    else:
        moment = PickMoment(hour=hour, now_ms=now_ms, last_full_compaction_ms=_newest_in_top_level(levels))
        unit = _pick_next(levels, options, moment, options.gentle_runs if gentle else None)
    if unit is None:
        return None
    task = _plan_unit(unit, levels, schema, options, must_rewrite=must_rewrite)
    return task if task.steps else None


def _pick_next(
    levels: Levels, options: CompactionOptions, moment: PickMoment, gentle_runs: int | None
) -> CompactUnit | None:
    """Plan the next unit of a bucket, without those that would change nothing.

    gentle_runs   runs in level 0 that force it up; None: any. Java counts the attempts of a writer instead, which makes a run
                  for each, and forgets them when it ends
    """
    if options.must_empty_level_0:
        attempts = 0
        if gentle_runs is not None and sum(r.level == 0 for r in levels.runs) >= gentle_runs:
            attempts = gentle_runs - 1
        unit, _ = pick_up_level_0(
            levels.num_levels, levels.runs, options.pick, moment=moment, max_interval=gentle_runs, attempts=attempts
        )
    else:
        unit = pick_universal(levels.num_levels, levels.runs, options.pick, moment=moment)
    if unit is None or not unit.files:
        return None
    if len(unit.files) == 1 and unit.files[0].level == unit.output_level:
        return None
    return unit


def _plan_unit(
    unit: CompactUnit,
    levels: Levels,
    schema: TableSchema,
    options: CompactionOptions,
    *,
    must_rewrite: Collection[str] = (),
) -> CompactionTask:
    """Plan the steps of a picked unit.

    order   key order; a large file is never skipped by the rewrite of its neighbours, so outputs stay in key order
    """
    drop_delete = unit.output_level != 0 and (
        unit.output_level >= levels.non_empty_highest_level or options.table.deletion_vectors_enabled
    )
    planner = _StepPlanner(unit.output_level, levels.max_level, drop_delete, options, frozenset(must_rewrite))
    if unit.file_rewrite:
        for file in unit.files:
            planner.rewrite([((file,),)])
    else:
        for section in sections_of(unit.files, schema.key_types):
            planner.add_section(section)
        planner.flush()
    return CompactionTask(tuple(planner.steps), unit.output_level, levels.max_level, unit.reason)


def _newest_in_top_level(levels: Levels) -> int | None:
    top = [f for r in levels.runs if r.level == levels.max_level for f in r.files]
    return max((t for t in (f.creation_epoch_ms for f in top) if t is not None), default=None)


class _StepPlanner:
    """Walks sections in key order, holding back what will be rewritten together."""

    def __init__(
        self,
        output_level: int,
        max_level: int,
        drop_delete: bool,
        options: CompactionOptions,
        must_rewrite: frozenset[str],
    ) -> None:
        self.steps: list[Step] = []
        self._pending: list[Section] = []
        self._output_level = output_level
        self._max_level = max_level
        self._drop_delete = drop_delete
        self._options = options
        self._must_rewrite = must_rewrite

    def add_section(self, section: Section) -> None:
        """Add the next section in key order."""
        if len(section) > 1:
            self._pending.append(section)
            return
        for file in section[0]:
            if file.file_size < self._options.small_file_bytes:
                self._pending.append(((file,),))
            else:
                self.flush()
                self.upgrade(file)

    def flush(self) -> None:
        """Rewrite the pending files; a single file is upgraded instead."""
        pending, self._pending = self._pending, []
        if len(pending) == 1 and len(pending[0]) == 1:
            for file in pending[0][0]:
                self.upgrade(file)
        elif pending:
            self.rewrite(pending)

    def rewrite(self, sections: list[Section]) -> None:
        """Add a rewrite step."""
        self.steps.append(self._rewrite_of(sections))

    def _rewrite_of(self, sections: list[Section]) -> Rewrite:
        lookup = self._looks_up([f for section in sections for run in section for f in run])
        return Rewrite(tuple(sections), self._drop_delete, self._makes_changelog(lookup=lookup), lookup)

    def upgrade(self, file: DataFileMeta) -> None:
        """Add an upgrade step, or a rewrite of the file alone where the level may not just be changed."""
        step = self._upgrade_of(file, has_deletes=file.delete_row_count is None or file.delete_row_count > 0)
        if isinstance(step, Upgrade) and file.level == 0:
            instead = self._upgrade_of(file, has_deletes=True)
            step = replace(step, instead=instead if isinstance(instead, Rewrite) else None)
        self.steps += [] if step is None else [step]

    def _upgrade_of(self, file: DataFileMeta, *, has_deletes: bool) -> Step | None:
        alone: Section = ((file,),)
        if (
            (self._output_level == self._max_level and has_deletes)
            or self._options.table.compaction_force_rewrite_all_files
            or file.file_name in self._must_rewrite
        ):
            return self._rewrite_of([alone])
        if file.level == self._output_level:
            return None
        how = self._upgrade_strategy(file, has_deletes)
        if how == "rewrite":
            # What a lookup upgrade rewrites drops deletes only for deletion vectors, whatever the level.
            changelog = self._makes_changelog(lookup=True)
            return Rewrite((alone,), self._options.table.deletion_vectors_enabled, changelog, True)
        lookup = how == "changelog" and self._looks_up([file])
        return Upgrade(file, self._makes_changelog(lookup=lookup), lookup)

    def _looks_up(self, files: list[DataFileMeta]) -> bool:
        """Return True when keys are looked up.

        Java does not for a full-compaction producer with force-lookup, though readers of such a table (Java's, too) take a record
        above level 0 for all that lies below it: what its compaction brings up makes older columns and sums vanish.
        """
        return self._options.table.needs_lookup and self._output_level > 0 and any(f.level == 0 for f in files)

    def _makes_changelog(self, *, lookup: bool) -> bool:
        if self._options.table.changelog_producer == "full-compaction":
            return self._output_level == self._max_level
        return lookup and self._options.table.changelog_producer == "lookup"

    def _upgrade_strategy(self, file: DataFileMeta, has_deletes: bool) -> Literal["plain", "changelog", "rewrite"]:
        options = self._options
        if options.table.changelog_producer == "full-compaction" and self._output_level == self._max_level:
            return "changelog"
        if not options.table.needs_lookup or file.level != 0:
            return "plain"
        if options.file_format_of(0) != options.file_format_of(self._output_level):
            return "rewrite"
        if options.table.deletion_vectors_enabled and has_deletes:
            return "rewrite"
        if self._output_level == self._max_level or options.last_record_wins:
            return "changelog"
        # Rows of higher levels may have to be merged in, and only a rewrite returns merged rows.
        return "rewrite"


_DEFAULT_TARGET_BYTES = 256 << 20
#: A file below this share of the target size is small.
_SMALL_SHARE = 0.7


def plan_append_compaction(
    files: Sequence[DataFileMeta], schema: TableSchema, *, full: bool, must_rewrite: Collection[str] = ()
) -> CompactionTask | None:
    """Plan the compaction of one bucket of an append table, or None when there is nothing to do.

    files          live data files of the bucket, any order
    full           join whatever has a small neighbour; else only `compaction.min.file-num` files and more
    must_rewrite   files with deletion vectors, rewritten by a full compaction even alone
    """
    options = schema.table_options
    target = options.target_file_size or _DEFAULT_TARGET_BYTES
    least = 2 if full else max(2, options.compaction_min_file_num)
    small = int(target * _SMALL_SHARE)
    ordered = sorted(files, key=lambda f: (f.min_sequence_number, f.creation_time_ms or 0, f.file_name))
    groups: list[list[DataFileMeta]] = [[]]
    size = 0
    for file in ordered:
        wanted = file.file_size < small or (full and file.file_name in must_rewrite)
        if not wanted or (groups[-1] and size >= target):
            groups.append([])
            size = 0
        if wanted:
            groups[-1].append(file)
            size += file.file_size
    steps = tuple(
        Rewrite(sections=((tuple(group),),), drop_delete=False)
        for group in groups
        if len(group) >= least or (full and any(f.file_name in must_rewrite for f in group))
    )
    if not steps:
        return None
    reason = PickReason.FULL if full else PickReason.FILE_COUNT
    return CompactionTask(steps=steps, output_level=0, max_level=0, reason=reason)
