"""What of a batch a process may hold, and whether its memory can hold it, told before anything is written.

Figures are lower bounds: what the assignment of a row with an 8-byte key takes. A batch that does not fit by them cannot be
assigned; one that does may still be too large where keys are long texts.
"""

from __future__ import annotations

from lakeidx.batch.index_types import index_options, index_type
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.tasks.limits import available_bytes

#: Bytes of a row in the process that assigns, by index type; of types that look keys up.
_ROW_BYTES, _KEYED_ROW_BYTES = {"hash": 40, "bucket": 40, "state": 160, "inmemory": 160}, 90
#: Bytes of a key in an index that lies in memory.
_HELD_KEY_BYTES = 45
#: Bytes of a bucket that gets rows: its line in the reports, what its task wrote, its manifest entries.
_TARGET_BYTES = 2000
#: Rows that an index of keys numbers.
_MOST_ROWS = (1 << 31) - 1


def rows_in_driver(schema: TableSchema, held: int | None = None) -> int:
    """Return how many rows of a batch may be assigned in the driver; more of them are in tasks.

    held   bytes that a batch may hold there; default as the table's option says
    """
    if held is None:
        held = index_options(schema).index_driver_memory
    return min(held // _ROW_BYTES.get(index_type(schema), _KEYED_ROW_BYTES), _MOST_ROWS)


def check_rows_fit(schema: TableSchema, rows: int, room: int | None = None) -> None:
    """Refuse a batch with more rows than can be assigned in this process.

    room     bytes that it may use; default as its limits say
    errors   InvalidInputError: says what it takes and what to change
    """
    room = available_bytes() if room is None else room
    if rows <= min(room // max(_ROW_BYTES.values()), _MOST_ROWS):
        return
    kind = index_type(schema)
    each = _ROW_BYTES.get(kind, _KEYED_ROW_BYTES)
    most = room // each if kind in ("hash", "bucket") else min(room // each, _MOST_ROWS)
    if rows > most:
        raise InvalidInputError(
            f"the batch has {rows} rows, and this process can assign {most} at a time with index.type={kind}: a row takes"
            f" {each} bytes or more, and it may use {_gib(room)} GiB; load it as several batches, or where"
            f" {_gib(rows * each)} GiB are granted"
        )


def check_driver_holds(schema: TableSchema, rows: int, table_rows: int, held: int | None = None) -> None:
    """Refuse a batch that only the driver can place when it would hold more than it may.

    rows         of the batch
    table_rows   keys of the table that an index in the driver's memory has; 0 for other types
    held         bytes that it may hold; default as the table's option says
    errors       InvalidInputError: says what it takes and what to change
    """
    if held is None:
        held = index_options(schema).index_driver_memory
    kind = index_type(schema)
    needed = rows * _ROW_BYTES.get(kind, _KEYED_ROW_BYTES) + table_rows * _HELD_KEY_BYTES
    if needed <= held:
        return
    table = f" and the keys of {table_rows} rows of the table" if table_rows else ""
    raise InvalidInputError(
        f"with index.type={kind} the driver would hold {rows} rows of the batch{table}, {_gib(needed)} GiB or more, and option"
        f" 'index.driver-memory' allows {_gib(held)} GiB: raise it, or use a type that works in tasks, such as state"
    )


def check_buckets_fit(schema: TableSchema, buckets: int, room: int | None = None) -> None:
    """Refuse a batch that touches more buckets than one commit can hold.

    room     bytes that this process may use; default as its limits say
    errors   InvalidInputError: says what it takes and what to change
    """
    room = available_bytes() if room is None else room
    if buckets * _TARGET_BYTES <= room:
        return
    option = "dynamic-bucket.target-row-num" if schema.bucket < 0 else "bucket"
    raise InvalidInputError(
        f"the batch touches {buckets} buckets, and {room // _TARGET_BYTES} fit into the {_gib(room)} GiB that this process may use:"
        " load it as several batches, by partition where there are partitions, or make fewer and larger buckets"
        f" (option '{option}')"
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
