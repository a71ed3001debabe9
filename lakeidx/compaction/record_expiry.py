"""Rows that are too old (``record-level.expire-time``) go when a compaction reads them; readers still see them before.

A row's age is that of the column ``record-level.time-field``, in whole seconds: INT seconds, BIGINT seconds, or milliseconds
from 1,000,000,000,000 on, TIMESTAMP and TIMESTAMP_LTZ. A null is never too old. Each row that is read is judged by itself,
before the merge, deletes too; so a time field should not go back for a key. A file whose oldest row is too old is rewritten
even where it would otherwise only change its level. Primary-key tables only, as in Java.

source   org.apache.paimon.io.RecordLevelExpire, org.apache.paimon.mergetree.compact.MergeTreeCompactTask, release 1.4.2;
         seconds are 64 bits wide here, as in later releases (1.4.2: 32 bits, until 2038)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.cast import floor_moments
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.scan.plan import value_stats
from lakeidx.types import TIMESTAMP_ROOTS, Field, Root

_FIRST_MILLIS = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """The rule at one moment.

    field        the time field, as the table has it now
    oldest       epoch seconds; rows of an earlier second are too old
    """

    field: Field
    oldest: int

    def drop_expired(self, rows: pa.Table) -> pa.Table:
        """Drop the rows that are too old."""
        keep = self.keeps(rows)
        return rows if pc.all(keep, min_count=0).as_py() else rows.filter(keep)

    def keeps(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it is young enough."""
        seconds = _seconds(rows.column(self.field.name), self.field)
        return pc.fill_null(pc.greater_equal(seconds, self.oldest), True)

    def is_expired_file(self, file: DataFileMeta, file_schema: TableSchema) -> bool:
        """Return True when the file's statistics show that its oldest row is too old."""
        old = next((f for f in file_schema.fields if f.id == self.field.id), None)
        stats = value_stats(file, file_schema, {old.name}).get(old.name) if old is not None else None
        if old is None or stats is None or stats.min is None:
            return False
        return _second(stats.min, old) < self.oldest


def record_expiry(schema: TableSchema, now_ms: int) -> RecordExpiry | None:
    """Return the rule of a table at `now_ms` (epoch milliseconds); None when its rows do not grow too old."""
    options = schema.table_options
    kept_ms, name = options.record_level_expire_time, options.record_level_time_field
    if kept_ms is None or name is None or not schema.primary_keys:
        return None
    return RecordExpiry(schema.field(name), now_ms // 1000 - kept_ms // 1000)


def _seconds(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    if field.type.root in TIMESTAMP_ROOTS:
        # Milliseconds round down, seconds towards zero.
        millis = column if column.type.unit == "s" else floor_moments(column, "ms")
        return pc.divide(millis.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64()), 1000)
    values = pc.cast(column, pa.int64())
    if field.type.root is Root.INT:
        return values
    return pc.if_else(pc.greater_equal(values, _FIRST_MILLIS), pc.divide(values, 1000), values)


def _second(value: Any, field: Field) -> int:
    """Convert an internal value to seconds; the scalar twin of `_seconds`."""
    if field.type.root in TIMESTAMP_ROOTS:
        return int(abs(value[0]) // 1000) * (1 if value[0] >= 0 else -1)
    return int(value // 1000 if field.type.root is not Root.INT and value >= _FIRST_MILLIS else value)
