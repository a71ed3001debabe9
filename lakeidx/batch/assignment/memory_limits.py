"""How much of a batch a process may load, and whether that fits its memory, checked before anything is written.

Figures are lower bounds: what the assignment of a row with an 8-byte key takes. A batch that does not fit by them cannot be
assigned; one that does may still be too large where keys are long texts.
"""

from __future__ import annotations

from lakeidx.batch.index_types import TableIndex
from lakeidx.bucket_assignment.rules import PARALLELISM_OPTION
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.tasks.limits import available_bytes

#: Bytes that a row is reckoned to take in the process that assigns, by index type; of types that look keys up.
_ROW_BYTES, _KEYED_ROW_BYTES = {"hash": 40, "bucket": 40, "state": 160, "inmemory": 160}, 90
#: Those of them that it takes at the very least: of rows of one partition; where they mix, hash takes half as much again.
_LEAST_ROW_BYTES = {**_ROW_BYTES, "hash": 20, "bucket": 12}
#: Bytes of a key in an index that lies in memory.
_HELD_KEY_BYTES = 45
#: Bytes of a bucket that gets rows: its line in the reports, what its task wrote, its manifest entries.
_TARGET_BYTES = 2000
#: Rows that an index of keys numbers.
_MOST_ROWS = (1 << 31) - 1


def fits_driver(schema: TableSchema, rows: int, held_keys: int, held: int | None = None) -> bool:
    """Return True when the rows of a batch may be assigned in the driver; those of a larger one are in tasks.

    held_keys   keys of the table that an index in the driver's memory has; 0 for other types
    held        bytes that a batch may hold there; default as the table's option says
    """
    if held is None:
        held = TableIndex.of(schema).options.index_driver_memory
    return _needed(schema, rows, held_keys) <= held and rows <= _MOST_ROWS


def _needed(schema: TableSchema, rows: int, held_keys: int) -> int:
    return rows * _ROW_BYTES.get(TableIndex.of(schema).name, _KEYED_ROW_BYTES) + held_keys * _HELD_KEY_BYTES


def check_rows_fit(schema: TableSchema, rows: int, granted: int | None = None, *, tasks: int | None = None) -> None:
    """Refuse a batch with more rows than can be assigned in this process, whatever they are.

    granted     bytes that it may use; default as its limits say
    tasks    this process is one of so many placing tasks, each of which has its share of the rows; None: it has all rows
    errors   InvalidInputError: says what it takes and what to change
    """
    granted = available_bytes() if granted is None else granted
    share = -(-rows // (tasks or 1))
    if share <= min(granted // max(_ROW_BYTES.values()), _MOST_ROWS):
        return
    kind = TableIndex.of(schema).name
    each = _LEAST_ROW_BYTES.get(kind, _KEYED_ROW_BYTES)
    most = granted // each if kind in ("hash", "bucket") else min(granted // each, _MOST_ROWS)
    if share <= most:
        return
    if tasks is None:
        who, change = "this process can assign", f"where {_gib(share * each)} GiB are granted"
    else:
        who = f"each of its {tasks} placing tasks can assign"
        change = (
            f"with {_gib(share * each)} GiB for a task, or with more tasks, by more slots or option"
            f" '{PARALLELISM_OPTION}'"
        )
    raise InvalidInputError(
        f"the batch has {rows} rows, and {who} {most} at a time with index.type={kind}: a row takes"
        f" {each} bytes or more, and it may use {_gib(granted)} GiB; load it as several batches, or {change}"
    )


def check_buckets_fit(schema: TableSchema, buckets: int, granted: int | None = None) -> None:
    """Refuse a batch that touches more buckets than fit into the memory of a commit.

    granted     bytes that this process may use; default as its limits say
    errors   InvalidInputError: says what it takes and what to change
    """
    granted = available_bytes() if granted is None else granted
    if buckets * _TARGET_BYTES <= granted:
        return
    option = "dynamic-bucket.target-row-num" if schema.bucket < 0 else "bucket"
    raise InvalidInputError(
        f"the batch touches {buckets} buckets, and {granted // _TARGET_BYTES} fit into the {_gib(granted)} GiB that this process"
        " may use:"
        " load it as several batches, by partition where there are partitions, or make fewer and larger buckets"
        f" (option '{option}')"
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
