"""Table statistics ``statistics/stat-<uuid>-<n>``: JSON written by ANALYZE.

=================  =======================================================================================
key                value
=================  =======================================================================================
snapshotId         long
schemaId           long
mergedRecordCount  long, optional
mergedRecordSize   long, optional
colStats           object by column name: ``colId``, and optional ``distinctCount``, ``min``, ``max`` (text),
                   ``nullCount``, ``avgLen``, ``maxLen``
=================  =======================================================================================

source   org.apache.paimon.stats.Statistics, ColStats, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeidx.format.json_text import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; None: not known. Minimum and maximum are texts."""

    col_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Statistics of one snapshot."""

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def decode_statistics(data: bytes, path: str | None = None) -> TableStatistics:
    """Read a statistics file.

    errors   CorruptFileError
    """
    o = JsonObject.parse(data, path)
    raw = o.value.get("colStats")
    if raw is None:
        raw = {}
    if not isinstance(raw, dict) or not all(isinstance(v, dict) for v in raw.values()):
        raise o.error("colStats", "an object of objects")
    columns = {}
    for name, value in raw.items():
        c = JsonObject(value, path, f"colStats.{name}.")
        columns[name] = ColumnStatistics(
            col_id=c.need_int("colId"),
            distinct_count=c.get_int("distinctCount"),
            min=c.get_text("min"),
            max=c.get_text("max"),
            null_count=c.get_int("nullCount"),
            avg_len=c.get_int("avgLen"),
            max_len=c.get_int("maxLen"),
        )
    return TableStatistics(
        snapshot_id=o.need_int("snapshotId"),
        schema_id=o.need_int("schemaId"),
        merged_record_count=o.get_int("mergedRecordCount"),
        merged_record_size=o.get_int("mergedRecordSize"),
        columns=columns,
    )
