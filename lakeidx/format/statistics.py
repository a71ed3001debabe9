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
from typing import Any

from lakeidx.format.json_text import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Statistics of one snapshot.

    columns   by name, as the file has them
    """

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def decode_statistics(data: bytes, path: str | None = None) -> TableStatistics:
    """Read a statistics file.

    errors   CorruptFileError
    """
    o = JsonObject.parse(data, path)
    columns = o.value.get("colStats")
    if columns is None:
        columns = {}
    if not isinstance(columns, dict) or not all(isinstance(v, dict) for v in columns.values()):
        raise o.error("colStats", "an object of objects")
    for name, value in columns.items():
        JsonObject(value, path, f"colStats.{name}.").need_int("colId")
    return TableStatistics(
        snapshot_id=o.need_int("snapshotId"),
        schema_id=o.need_int("schemaId"),
        merged_record_count=o.get_int("mergedRecordCount"),
        merged_record_size=o.get_int("mergedRecordSize"),
        columns=columns,
    )
