"""Explanation of a scan: what each layer of pruning left, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeidx.predicate import format_predicate
from lakeidx.table.scan.metrics import LayerTrace, ScanMetrics
from lakeidx.table.scan.plan import ScanPlan


@dataclass(frozen=True, slots=True)
class ScanExplanation:
    """A scan that was planned and read.

    snapshot_id   None for a table without snapshots
    predicate     as text
    planning      layers of planning, in order: from manifests down to data files
    reading       layers of reading, in order: file indexes, row groups, positions, merge, filter
    metrics       the sums that `reading` is made of
    rows          rows given (fewer than `metrics.rows_selected` with a limit)
    seconds       of the whole read
    """

    snapshot_id: int | None
    predicate: str
    planning: tuple[LayerTrace, ...]
    reading: tuple[LayerTrace, ...]
    metrics: ScanMetrics
    rows: int
    seconds: float

    @classmethod
    def of(cls, plan: ScanPlan, metrics: ScanMetrics, *, rows: int, seconds: float) -> ScanExplanation:
        """Combine a plan with the metrics of reading it."""
        snapshot_id = None if plan.snapshot is None else plan.snapshot.id
        return cls(
            snapshot_id,
            format_predicate(plan.predicate, plan.schema.fields, shorten=True),
            plan.trace,
            _layers_of(metrics),
            metrics,
            rows,
            seconds,
        )

    @property
    def layers(self) -> tuple[LayerTrace, ...]:
        """All layers, in order."""
        return (*self.planning, *self.reading)

    def rows_as_dicts(self) -> list[dict[str, Any]]:
        """Return one flat row per layer, for tables and JSON lines."""
        return [
            {
                "layer": each.layer,
                "unit": each.unit,
                "came_in": each.came_in,
                "spared": each.spared,
                "kept": each.kept,
                "bytes_in": each.bytes_in,
                "bytes_kept": each.bytes_kept,
                "seconds": round(each.seconds, 6),
                "false_positives": each.false_positives,
            }
            for each in self.layers
        ]

    def __str__(self) -> str:
        lines = [f"snapshot {self.snapshot_id}, where {self.predicate}"]
        for row in self.rows_as_dicts():
            wrong = "" if row["false_positives"] is None else f", {row['false_positives']} false positives"
            lines.append(
                f"  {row['layer']}: {row['came_in']} {row['unit']} in, {row['spared']} pruned, {row['kept']} kept"
                f" ({row['bytes_kept']} of {row['bytes_in']} bytes, {row['seconds']:.4f} s{wrong})"
            )
        lines.append(f"{self.rows} rows in {self.seconds:.4f} s")
        return "\n".join(lines)


def _layers_of(metrics: ScanMetrics) -> tuple[LayerTrace, ...]:
    """Return the layers of reading, in the order in which they work."""
    out = [
        LayerTrace(
            f"{index_type} index of {column}",
            "files",
            tally.asked,
            tally.asked - tally.spared,
            bytes_in=tally.bytes,
            bytes_kept=tally.bytes,
            false_positives=tally.false_positives,
        )
        for (index_type, column), tally in sorted(metrics.indexes.items())
    ]
    read = metrics.read
    out.append(
        LayerTrace(
            "file index",
            "files",
            metrics.planned_files,
            read.files,
            metrics.planned_bytes,
            metrics.opened_bytes,
            metrics.index_seconds,
            metrics.false_positives,
        )
    )
    out.append(
        LayerTrace(
            "row group",
            "row groups",
            read.row_groups,
            read.row_groups_read,
            read.bytes_read + read.bytes_spared,
            read.bytes_read,
        )
    )
    out.append(LayerTrace("position", "rows", read.rows_read, read.rows_given))
    out.append(LayerTrace("merge", "rows", read.rows_given, metrics.rows_merged))
    out.append(LayerTrace("filter", "rows", metrics.rows_merged, metrics.rows_selected, seconds=metrics.read_seconds))
    return tuple(out)
