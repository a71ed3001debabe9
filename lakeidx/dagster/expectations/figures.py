"""Figures of each rule and their limits, by the names of the rules; Great Expectations, which judges rows, is not needed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import RuleResult


class Figure(NamedTuple):
    """A figure of a rule, and its limits; None = no limit.

    name   a metric of the rule; ``a = b`` for a sum that must be another metric
    """

    name: str
    value: float
    least: float | None
    most: float | None

    @property
    def holds(self) -> bool:
        """True when the value is within its limits; what is no number is not."""
        if math.isnan(self.value):
            return False
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def broken(self) -> str:
        """What was seen and what was expected, of a figure that does not hold."""
        if " = " in self.name:
            return f"{self.name} is not met ({self.value}, {self.most})"
        limits = [f"at least {self.least}"] if self.least is not None and self.value < 0 else []
        limits += [f"at most {self.most}"] if self.most is not None else []
        return f"{self.name} = {self.value}" + (f" ({' and '.join(limits)})" if limits else "")

    @property
    def row(self) -> dict[str, Any]:
        """What was expected, what was seen, whether it holds."""
        seen = {"figure": self.name, "min": self.least, "max": self.most, "observed": str(self.value)}
        return {**seen, "holds": self.holds}


#: Metrics that count faults.
_FAULTS: dict[str, tuple[str, ...]] = {
    "files_readable": ("files_unreadable",),
    "referenced_files_exist": ("files_missing", "files_of_other_size"),
    "snapshot_chain": ("snapshots_missing", "faults_hole", "faults_other_id", "faults_total_does_not_add_up",
                       "faults_committed_twice", "faults_behind_the_hint"),
    "options_followed": ("options_left_out", "options_unknown"),
    "iceberg_metadata": ("faults_behind", "faults_unreadable", "faults_missing", "faults_not_of_the_snapshot",
                         "faults_of_other_size"),
    "deletes_counted": ("files_miscounted",),
    "primary_key_once": ("keys_in_several_buckets", "keys_twice_in_a_bucket"),
    "index_files_agree": ("files_missing", "files_torn", "files_of_other_size", "files_of_other_row_count",
                          "files_damaged", "files_with_repeats", "files_second_of_bucket"),
    "hash_in_one_bucket": ("hashes_in_several_buckets",),
    "live_keys_indexed": ("hashes_not_indexed", "buckets_with_gaps"),
    "bucket_rows_within_target": ("buckets_over_target", "partitions_over_max_buckets"),
    "batch_rows_accounted": ("rows_unaccounted",),
    "staged_rows_committed": ("rows_lost", "rows_too_many"),
    "file_indexes_answer": ("false_negatives", "indexes_unreadable"),
    "changelog_agrees": ("rows_missing", "rows_too_many", "rows_unknown_before"),
    "lookup_store_agrees": ("keys_missing", "keys_too_many", "rows_different", "lookup_files_unreadable"),
}  # fmt: skip


def _own_figures(result: RuleResult, limits: ChecksConfig) -> list[Figure]:
    """Return the figures of a rule that do not count faults."""
    found = result.metrics
    match result.name:
        case "stale_hashes":
            share = found["stale_hashes"] / found["hashes"] if found["hashes"] else 0.0
            return [Figure("stale_share", share, 0, limits.stale_share)]
        case "bucket_skew":
            return [Figure("largest_skew", found["largest_skew"], 0, limits.skew_ratio)]
        case "orphans_below_limit":
            return [Figure("orphan_files", found["orphan_files"], 0, limits.orphan_files)]
        case "batch_rows_accounted":
            counts = {n: found.get(n, 0) for n in ("inserted", "updated", "upserted", "deleted", "rejected")}
            total = sum(counts.values())
            sums = Figure("ingested = accounted", found["ingested"], total, total)
            return [sums, *(Figure(n, v, 0, None) for n, v in counts.items())]
        case "staged_rows_committed":
            total = found["committed"] + found["superseded"]
            return [Figure("staged = committed_or_superseded", found["staged"], total, total)]
    return []


def figures_of(result: RuleResult, limits: ChecksConfig) -> list[Figure]:
    """Return the figures of a rule's result that a verdict rests on: at least one.

    errors   KeyError for a rule that says nothing of its figures
    """
    faults = [Figure(name, result.metrics[name], 0, 0) for name in _FAULTS.get(result.name, ())]
    figures = [*_own_figures(result, limits), *faults]
    if not figures:
        raise KeyError(
            f"rule {result.name} has no figure with a limit: name it in lakeidx.dagster.expectations.figures"
        )
    return figures
