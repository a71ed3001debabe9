"""The table options that steer compaction, by meaning.

source   org.apache.paimon.CoreOptions, org.apache.paimon.lookup.LookupStrategy, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeidx.compaction.pick import OffPeak, PickOptions
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.options.table_options import TableOptions

_DEFAULT_TARGET_FILE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """Options of one table, and what follows from them.

    target_file_bytes         where a rewrite starts the next file
    small_file_bytes          a file below this is rewritten with its neighbours rather than upgraded
    must_empty_level_0        its rows are seen only then, or compaction.force-up-level-0
    gentle_runs               lookup-compact=gentle: runs in level 0 that force it up in a compaction after a batch; None: one does
    last_record_wins          deduplicate without sequence field: merging never changes a newer row
    file_format_per_level     of levels whose format is another than the table's
    """

    table: TableOptions
    pick: PickOptions
    target_file_bytes: int
    small_file_bytes: int
    must_empty_level_0: bool
    gentle_runs: int | None
    last_record_wins: bool
    file_format_per_level: Mapping[int, str]

    def file_format_of(self, level: int) -> str:
        """Format of the files of a level."""
        return self.file_format_per_level.get(level, self.table.file_format)


def compaction_options(schema: TableSchema) -> CompactionOptions:
    """Parse the compaction options of a table.

    errors   InvalidInputError naming the option
    """
    o = schema.table_options
    target = o.target_file_size if o.target_file_size is not None else _DEFAULT_TARGET_FILE_BYTES
    return CompactionOptions(
        table=o,
        pick=PickOptions(
            max_size_amplification_percent=o.compaction_max_size_amplification_percent,
            size_ratio_percent=o.compaction_size_ratio,
            run_trigger=o.num_sorted_run_compaction_trigger,
            full_interval_ms=o.compaction_optimization_interval,
            total_size_threshold=o.compaction_total_size_threshold,
            incremental_size_threshold=o.compaction_incremental_size_threshold,
            off_peak=_off_peak(
                o.compaction_offpeak_start_hour, o.compaction_offpeak_end_hour, o.compaction_offpeak_ratio
            ),
        ),
        target_file_bytes=target,
        small_file_bytes=target // 10 * 7,
        must_empty_level_0=o.needs_lookup or o.compaction_force_up_level_0,
        gentle_runs=_gentle_runs(o),
        last_record_wins=o.merge_engine == "deduplicate" and not o.sequence_field,
        file_format_per_level=_by_level(o.file_format_per_level),
    )


def _gentle_runs(o: TableOptions) -> int | None:
    if o.lookup_compact != "GENTLE":
        return None
    trigger = o.num_sorted_run_compaction_trigger
    return max(trigger, o.lookup_compact_max_interval or 2 * trigger)


def _off_peak(start: int, end: int, ratio: int) -> OffPeak | None:
    # Equal hours mean no off-peak time, not a whole day.
    if start == -1 or end == -1 or start == end:
        return None
    return OffPeak(start_hour=start, end_hour=end, ratio_percent=ratio)


def _by_level(texts: Mapping[str, str]) -> dict[int, str]:
    out: dict[int, str] = {}
    for level, name in texts.items():
        if not level.isdecimal():
            raise InvalidInputError(
                f"option 'file.format.per.level': {level!r} is not a level; write '0:avro,5:parquet'"
            )
        out[int(level)] = name
    return out
