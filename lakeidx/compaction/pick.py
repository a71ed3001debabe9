"""Choice of the sorted runs to compact next: universal compaction as pure functions.

Runs stand newest first: each level-0 file is a run of its own, then one run per higher level, upwards. Nothing here
reads a clock or remembers anything: the hour, the time of the last full compaction and the attempts counter are passed
in.

source   org.apache.paimon.mergetree.compact.{UniversalCompaction, ForceUpLevel0Compaction, EarlyFullCompaction,
         OffPeakHours, CompactStrategy}, release 1.4.2. Its size-ratio step stops at the first run that is too big;
         later releases continue through levels 0 and 1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeidx.format.data_file import DataFileMeta


class PickReason(StrEnum):
    """Reasons for a pick, for reports."""

    FULL = "full compaction"
    FULL_INTERVAL = "optimization interval passed"
    TOTAL_SIZE = "total size below its threshold"
    INCREMENTAL_SIZE = "size outside the top level above its threshold"
    SIZE_AMPLIFICATION = "size amplification"
    SIZE_RATIO = "size ratio"
    RUN_COUNT = "number of sorted runs"
    LEVEL_0 = "level 0 must be emptied"
    FILE_COUNT = "number of small files"


@dataclass(frozen=True, slots=True)
class LevelRun:
    """A sorted run: files in key order that do not overlap, all of one level (one file for level 0)."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        return sum(f.file_size for f in self.files)


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """Files that were picked.

    output_level   level of what comes out
    files          inputs, in run order
    file_rewrite   rewrite each file by itself (a full compaction of a table that is all in the top level)
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    file_rewrite: bool = False
    reason: PickReason = PickReason.FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPeak:
    """Hours in which the size ratio is widened.

    start_hour    0 to 23, inclusive
    end_hour      0 to 23, exclusive; smaller than the start: over midnight
    ratio_percent added to the size ratio in those hours
    """

    start_hour: int
    end_hour: int
    ratio_percent: int

    def ratio_at(self, hour: int) -> int:
        """Return the percentage to add at this hour of the day (0 to 23); 0 outside the hours."""
        if self.start_hour <= self.end_hour:
            inside = self.start_hour <= hour < self.end_hour
        else:
            inside = hour < self.end_hour or self.start_hour <= hour
        return self.ratio_percent if inside else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PickOptions:
    """The options of a pick, by meaning; sizes in bytes, times in ms.

    max_size_amplification_percent    compaction.max-size-amplification-percent
    size_ratio_percent                compaction.size-ratio
    run_trigger                       num-sorted-run.compaction-trigger
    full_interval_ms                  compaction.optimization-interval
    total_size_threshold              compaction.total-size-threshold
    incremental_size_threshold        compaction.incremental-size-threshold
    off_peak                          compaction.offpeak.*
    """

    max_size_amplification_percent: int = 200
    size_ratio_percent: int = 1
    run_trigger: int = 5
    full_interval_ms: int | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    off_peak: OffPeak | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PickMoment:
    """Moment of a pick: what it depends on besides files and options.

    hour                      hour of the day, for off-peak hours; None = not off-peak
    now_ms                    epoch ms, for the full compaction interval; None = the interval never passes
    last_full_compaction_ms   epoch ms; None = never (the interval has passed)
    """

    hour: int | None = None
    now_ms: int | None = None
    last_full_compaction_ms: int | None = None


def pick_universal(
    num_levels: int, runs: Sequence[LevelRun], options: PickOptions, *, moment: PickMoment | None = None
) -> CompactUnit | None:
    """Pick the unit of universal compaction, or None.

    num_levels   levels of the tree, 0 included
    runs         newest first
    order        early full compaction, size amplification, size ratio, run count: the first that gives a unit
    """
    moment = moment or PickMoment()
    unit = _pick_early_full(num_levels, runs, options, moment)
    if unit is None:
        unit = _pick_size_amplification(num_levels, runs, options)
    if unit is None and len(runs) >= options.run_trigger:
        unit = _pick_size_ratio(num_levels, runs, options, moment, taken=1, reason=PickReason.SIZE_RATIO)
    if unit is None and len(runs) > options.run_trigger:
        taken = len(runs) - options.run_trigger + 1
        unit = _pick_size_ratio(num_levels, runs, options, moment, taken=taken, reason=PickReason.RUN_COUNT)
    return unit


def pick_force_level_0(
    num_levels: int, runs: Sequence[LevelRun], options: PickOptions, *, moment: PickMoment | None = None
) -> CompactUnit | None:
    """Pick all level-0 runs, widened by the size-ratio rule; None when level 0 is empty."""
    taken = 0
    while taken < len(runs) and runs[taken].level == 0:
        taken += 1
    if taken == 0:
        return None
    return _pick_size_ratio(
        num_levels, runs, options, moment or PickMoment(), taken=taken, reason=PickReason.LEVEL_0, force=True
    )


def pick_up_level_0(
    num_levels: int,
    runs: Sequence[LevelRun],
    options: PickOptions,
    *,
    moment: PickMoment | None = None,
    max_interval: int | None = None,
    attempts: int = 0,
) -> tuple[CompactUnit | None, int]:
    """Pick the unit of a table whose level 0 must be emptied (lookup needed, or compaction.force-up-level-0).

    max_interval   None: force level 0 up whenever universal compaction picks nothing (lookup-compact=radical);
                   n: only at every n-th such attempt (gentle)
    attempts       attempts without a unit since level 0 was last forced up
    returns        (unit or None, attempts to pass next time)
    """
    unit = pick_universal(num_levels, runs, options, moment=moment)
    if unit is not None:
        return unit, attempts
    if max_interval is not None:
        attempts += 1
        if attempts != max_interval:
            return None, attempts
        attempts = 0
    return pick_force_level_0(num_levels, runs, options, moment=moment), attempts


def pick_full(
    num_levels: int, runs: Sequence[LevelRun], *, force_rewrite: bool = False, must_rewrite: Collection[str] = ()
) -> CompactUnit | None:
    """Pick the unit of a full compaction requested by hand, or None when there is nothing to do.

    force_rewrite   compaction.force-rewrite-all-files
    must_rewrite    names of files with deletion vectors or expired records: rewritten even if all is in the top level
    """
    if not runs:
        return None
    max_level = num_levels - 1
    if len(runs) == 1 and runs[0].level == max_level:
        files = tuple(f for f in runs[0].files if force_rewrite or f.file_name in must_rewrite)
        if not files:
            return None
        return CompactUnit(max_level, files, True, PickReason.FULL)
    return _all_runs(max_level, runs, PickReason.FULL)


def _all_runs(max_level: int, runs: Sequence[LevelRun], reason: PickReason) -> CompactUnit:
    return CompactUnit(max_level, tuple(f for r in runs for f in r.files), False, reason)


def _pick_early_full(
    num_levels: int, runs: Sequence[LevelRun], options: PickOptions, moment: PickMoment
) -> CompactUnit | None:
    max_level = num_levels - 1
    # Java asks for exactly one run here, so that no run at all gives a unit without files; that unit is dropped later.
    if len(runs) == 1:
        return None
    if options.full_interval_ms is not None and moment.now_ms is not None:
        last = moment.last_full_compaction_ms
        if last is None or moment.now_ms - last > options.full_interval_ms:
            return _all_runs(max_level, runs, PickReason.FULL_INTERVAL)
    if options.total_size_threshold is not None and sum(r.total_size for r in runs) < options.total_size_threshold:
        return _all_runs(max_level, runs, PickReason.TOTAL_SIZE)
    if options.incremental_size_threshold is not None:
        outside = sum(r.total_size for r in runs if r.level != max_level)
        if outside > options.incremental_size_threshold:
            return _all_runs(max_level, runs, PickReason.INCREMENTAL_SIZE)
    return None


def _pick_size_amplification(num_levels: int, runs: Sequence[LevelRun], options: PickOptions) -> CompactUnit | None:
    if not runs or len(runs) < options.run_trigger:
        return None
    newer = sum(r.total_size for r in runs[:-1])
    if newer * 100 > options.max_size_amplification_percent * runs[-1].total_size:
        return _all_runs(num_levels - 1, runs, PickReason.SIZE_AMPLIFICATION)
    return None


def _pick_size_ratio(
    num_levels: int,
    runs: Sequence[LevelRun],
    options: PickOptions,
    moment: PickMoment,
    *,
    taken: int,
    reason: PickReason,
    force: bool = False,
) -> CompactUnit | None:
    """Extend the first `taken` runs while the next run is not too big; None when only one was taken and not forced."""
    if not runs:
        return None
    extra = 0
    if options.off_peak is not None and moment.hour is not None:
        extra = options.off_peak.ratio_at(moment.hour)
    size = sum(r.total_size for r in runs[:taken])
    while taken < len(runs):
        # Floating point on purpose: the bound is compared as Java's double.
        if size * (100.0 + options.size_ratio_percent + extra) / 100.0 < runs[taken].total_size:
            break
        size += runs[taken].total_size
        taken += 1
    return _unit_of(num_levels - 1, runs, taken, reason) if force or taken > 1 else None


def _unit_of(max_level: int, runs: Sequence[LevelRun], taken: int, reason: PickReason) -> CompactUnit:
    """Make the unit of the first `taken` runs; level 0 is never written to, so more are added until it need not be."""
    output = max_level if taken == len(runs) else max(0, runs[taken].level - 1)
    if output == 0:
        while taken < len(runs):
            level = runs[taken].level
            taken += 1
            if level != 0:
                output = level
                break
    if taken == len(runs):
        return _all_runs(max_level, runs, reason)
    return CompactUnit(output, tuple(f for r in runs[:taken] for f in r.files), False, reason)
