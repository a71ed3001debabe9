"""DataFileMeta and SimpleStats: the metadata of one data file in manifests.

Both are records inside Avro manifests (record ``record__FILE`` and ``record__FILE__KEY_STATS`` / ``__VALUE_STATS``):

================================  ==========================================================================================
field                             Avro type
================================  ==========================================================================================
_FILE_NAME                        string
_FILE_SIZE, _ROW_COUNT            long; rows include deletes
_MIN_KEY, _MAX_KEY                bytes: i32 **big**-endian arity + BinaryRow (**little**-endian) of the trimmed primary key
_KEY_STATS, _VALUE_STATS          record of _MIN_VALUES bytes, _MAX_VALUES bytes, _NULL_COUNTS null/array of null/long
_MIN_/_MAX_SEQUENCE_NUMBER        long
_SCHEMA_ID                        long
_LEVEL                            int
_EXTRA_FILES                      array of string
_CREATION_TIME                    null/long: local wall clock of the writer taken as if it were UTC, milliseconds
_DELETE_ROW_COUNT                 null/long: rows of kind -U or -D
_EMBEDDED_FILE_INDEX              null/bytes
_FILE_SOURCE                      null/int: 0 written by a flush, 1 by a compaction
_VALUE_STATS_COLS                 null/array of string: columns of _VALUE_STATS; null = all columns of the file's schema
_EXTERNAL_PATH                    null/string
_FIRST_ROW_ID                     null/long
_WRITE_COLS                       null/array of string
================================  ==========================================================================================

Other writers leave more null than Java does, paimon-rust both records of statistics.

source   org.apache.paimon.io.DataFileMeta, org.apache.paimon.stats.SimpleStats, release 1.4.2
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from lakeidx.codec.containers.avro import Record
from lakeidx.codec.containers.avro_unknown import Definitions, Path, Unknown, keep, put_back
from lakeidx.storage.files import plain_name

EMPTY_ROW = bytes(12)
"""A prefixed BinaryRow without fields: arity 0 and 8 header bytes. The partition of unpartitioned tables, keys of append tables."""


class FileSource(IntEnum):
    """Writer of a data file (`DataFileMeta.file_source`). Changelog files always carry APPEND."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minima, maxima and null counts of some columns.

    min_values   prefixed BinaryRow, one nullable field per covered column
    max_values   the same
    null_counts  one per covered column (None: not known); None when the writer left the array out
    unknown      fields of a later release, kept for when the record is written again
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None
    unknown: Unknown = field(default=(), hash=False)


EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
"""Statistics over no column, e.g. key statistics of an append table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data file as manifests describe it; field meanings in the module's table.

    creation_time_ms   as stored, i.e. the writer's local wall clock as if it were UTC; see `creation_epoch_ms`
    unknown            fields of a later release, kept for when the record is written again
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    unknown: Unknown = field(default=(), hash=False)

    @property
    def may_hold_deletes(self) -> bool:
        """False when surely no row is of kind -U or -D: for a file of a compaction that says so.

        Files of level 0 hold what their writer was given. Java and lakeidx count the deletes among them; pypaimon writes
        0, whatever they are.
        """
        return self.level == 0 or self.delete_row_count != 0

    @property
    def creation_epoch_ms(self) -> int | None:
        """When the file was made, as epoch milliseconds, if the writer's time zone is the one of this process."""
        return None if self.creation_time_ms is None else epoch_ms_of_local(self.creation_time_ms)


_STATS_FIELDS = [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}], "default": None},
]


def stats_schema(name: str) -> dict[str, Any]:
    """Return the Avro schema of SimpleStats as a record of the given name."""
    return {"type": "record", "name": name, "fields": _STATS_FIELDS}


def nullable(name: str, of: Any) -> dict[str, Any]:
    """Return the Avro field of a value that may be null; null is branch 0, since Java reads branch 1 as "has a value" unchecked."""
    return {"name": name, "type": ["null", of], "default": None}


_STRINGS = {"type": "array", "items": "string"}

FILE_FIELDS: list[dict[str, Any]] = [
    {"name": "_FILE_NAME", "type": "string"},
    {"name": "_FILE_SIZE", "type": "long"},
    {"name": "_ROW_COUNT", "type": "long"},
    {"name": "_MIN_KEY", "type": "bytes"},
    {"name": "_MAX_KEY", "type": "bytes"},
    {"name": "_KEY_STATS", "type": stats_schema("record__FILE__KEY_STATS")},
    {"name": "_VALUE_STATS", "type": stats_schema("record__FILE__VALUE_STATS")},
    {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
    {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
    {"name": "_SCHEMA_ID", "type": "long"},
    {"name": "_LEVEL", "type": "int"},
    {"name": "_EXTRA_FILES", "type": _STRINGS},
    nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    nullable("_DELETE_ROW_COUNT", "long"),
    nullable("_EMBEDDED_FILE_INDEX", "bytes"),
    nullable("_FILE_SOURCE", "int"),
    nullable("_VALUE_STATS_COLS", _STRINGS),
    nullable("_EXTERNAL_PATH", "string"),
    nullable("_FIRST_ROW_ID", "long"),
    nullable("_WRITE_COLS", _STRINGS),
]


FILE_PATH, KEY_STATS_PATH, VALUE_STATS_PATH = ("_FILE",), ("_FILE", "_KEY_STATS"), ("_FILE", "_VALUE_STATS")
"""Where the records of a data file are in a manifest's schema."""

_NO_NULLS = ("long", 0)


def stats_to_record(stats: SimpleStats) -> Record:
    """Convert SimpleStats to an Avro record."""
    counts = stats.null_counts
    out: Record = {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        # fastavro takes (branch, value) for a union member and then need not try the branches: twice as fast.
        "_NULL_COUNTS": None
        if counts is None
        else ("array", [_NO_NULLS if c == 0 else None if c is None else ("long", c) for c in counts]),
    }
    return put_back(out, stats.unknown) if stats.unknown else out


def stats_from_record(record: Record | None, unknown: Definitions = ()) -> SimpleStats:
    """Make SimpleStats from an Avro record, those over no column from none; KeyError or TypeError when it is not one.

    unknown   fields of the record to keep beside those that are known
    """
    if record is None:
        return EMPTY_STATS
    counts = record.get("_NULL_COUNTS")
    return SimpleStats(
        record["_MIN_VALUES"],
        record["_MAX_VALUES"],
        None if counts is None else tuple(counts),
        keep(record, unknown) if unknown else (),
    )


def file_to_record(file: DataFileMeta) -> Record:
    """Convert DataFileMeta to an Avro record."""
    out: Record = {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": stats_to_record(file.key_stats),
        "_VALUE_STATS": stats_to_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": _branch("long", file.creation_time_ms),
        "_DELETE_ROW_COUNT": _branch("long", file.delete_row_count),
        "_EMBEDDED_FILE_INDEX": _branch("bytes", file.embedded_index),
        "_FILE_SOURCE": _branch("int", file.file_source),
        "_VALUE_STATS_COLS": _branch("array", file.value_stats_cols),
        "_EXTERNAL_PATH": _branch("string", file.external_path),
        "_FIRST_ROW_ID": _branch("long", file.first_row_id),
        "_WRITE_COLS": _branch("array", file.write_cols),
    }
    return put_back(out, file.unknown) if file.unknown else out


def _branch(name: str, value: Any) -> tuple[str, Any] | None:
    """Return a nullable value in the form that fastavro writes fastest."""
    return None if value is None else (name, value)


_NOTHING_UNKNOWN: Definitions = ()


def file_from_record(record: Record, unknown: Mapping[Path, Definitions] | None = None) -> DataFileMeta:
    """Make DataFileMeta from an Avro record; KeyError or TypeError when it is not one.

    unknown   fields to keep beside those that are known, by the path of their record
    """
    own = of_key = of_value = _NOTHING_UNKNOWN
    if unknown:
        own, of_key, of_value = (unknown.get(p, ()) for p in (FILE_PATH, KEY_STATS_PATH, VALUE_STATS_PATH))
    get = record.get
    extra, stats_cols, write_cols = get("_EXTRA_FILES"), get("_VALUE_STATS_COLS"), get("_WRITE_COLS")
    return DataFileMeta(
        file_name=plain_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=stats_from_record(record["_KEY_STATS"], of_key),
        value_stats=stats_from_record(record["_VALUE_STATS"], of_value),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=tuple(plain_name(name) for name in extra) if extra else (),
        creation_time_ms=get("_CREATION_TIME"),
        delete_row_count=get("_DELETE_ROW_COUNT"),
        embedded_index=get("_EMBEDDED_FILE_INDEX"),
        file_source=get("_FILE_SOURCE"),
        value_stats_cols=None if stats_cols is None else tuple(stats_cols),
        external_path=get("_EXTERNAL_PATH"),
        first_row_id=get("_FIRST_ROW_ID"),
        write_cols=None if write_cols is None else tuple(write_cols),
        unknown=keep(record, own) if own else (),
    )


def local_ms_of_epoch(epoch_ms: int) -> int:
    """Return what this process's wall clock shows at an instant, taken as if it were UTC; years outside 1-9999 count as UTC."""
    try:
        offset = datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone().utcoffset()
    except (OverflowError, ValueError, OSError):
        return epoch_ms
    assert offset is not None
    return epoch_ms + int(offset.total_seconds()) * 1000


def epoch_ms_of_local(local_ms: int) -> int:
    """Invert `local_ms_of_epoch`, save at clock changes: the instant at which this process's wall clock shows `local_ms`."""
    try:
        naive = datetime.fromtimestamp(local_ms // 1000, UTC).replace(tzinfo=None)
        return int(naive.timestamp()) * 1000 + local_ms % 1000
    except (OverflowError, ValueError, OSError):
        return local_ms


def now_local_ms() -> int:
    """Return the wall clock now."""
    return local_ms_of_epoch(time.time_ns() // 1_000_000)
