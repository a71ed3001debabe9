"""Files with the target of each staged row; -1 = the row is dropped.

Each placing task writes a file per part that it has rows of, and numbers its own targets in them, since no task knows the others'
buckets. The stage then writes what each of these numbers means.

=========================  ===============  ==========================================================================
file                       columns, int32   one line per
=========================  ===============  ==========================================================================
targets-<part>-<task>      row, target      row of the part that the task placed, ascending; its own number of the target
numbers-<task>             target           target of the task: its number in the batch
=========================  ===============  ==========================================================================

They are Arrow IPC files of numbers without nulls. Arrow has no checksum: that of the numbers is in the metadata of the schema, as
``crc32``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError, InternalError
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.in_parallel import in_parallel

_SCHEMA = pa.schema([pa.field("target", pa.int32(), nullable=False)])
_SHARE_SCHEMA = pa.schema([pa.field(n, pa.int32(), nullable=False) for n in ("row", "target")])
_DROPPED, _MISSING = -1, -2

Int32s = NDArray[np.int32]


def targets_path(directory: str, part: int) -> str:
    """Return the path of the targets of a part."""
    return f"{directory}/targets-{part:05d}.arrow"


def located_path(directory: str, part: int) -> str:
    """Return the path of the locations that a key index found for a part."""
    return f"{directory}/located-{part:05d}.arrow"


def write_part_share(store: ObjectStore, path: str, task: int, rows: Int32s, targets: Int32s) -> None:
    """Write the targets of the rows of a part that a task placed.

    path      of the part's targets
    rows      int32[n] positions in the part, ascending
    targets   int32[n] the task's own numbers
    """
    write_columns(store, share_path(path, task), [rows, targets], _SHARE_SCHEMA)


def write_numbers(store: ObjectStore, directory: str, task: int, numbers: Int32s) -> None:
    """Write the batch's numbers of a task's targets, int32[k]."""
    write_columns(store, numbers_path(directory, task), [numbers], _SCHEMA)


def read_numbers(store: ObjectStore, path: str) -> Int32s:
    """Read what `write_numbers` wrote."""
    (numbers,), _ = read_columns(store, path, _SCHEMA)
    return numbers


def read_part_targets(store: ObjectStore, path: str, tasks: Sequence[int], rows: int) -> Int32s:
    """Read the target of each row of a part, int32[rows], whichever task placed it.

    path     of the part's targets
    tasks    those that placed rows of the part
    errors   InternalError when some row has no target, CorruptFileError
    """
    shares = in_parallel(lambda task: _read_share(store, path, task, rows), tasks)
    out = np.full(rows, _MISSING, np.int32)
    for at, targets in shares:
        out[at] = targets
    placed, missing = sum(len(at) for at, _ in shares), int(np.count_nonzero(out == _MISSING))
    if missing or placed != rows:
        raise InternalError(f"{placed} targets for {rows} rows, of which {missing} got no bucket", path=path)
    return out


def _read_share(store: ObjectStore, path: str, task: int, rows: int) -> tuple[Int32s, Int32s]:
    """Read which rows of a part a task placed, and the batch's numbers of their targets."""
    (at, own), _ = read_columns(store, share_path(path, task), _SHARE_SCHEMA)
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < rows:
        raise CorruptFileError(f"a target of a row that the part of {rows} rows does not have", path=path)
    return at, as_numbered(store, path, task, own)


def as_numbered(store: ObjectStore, path: str, task: int, own: Int32s) -> Int32s:
    """Return the batch's numbers for a task's own numbers; dropped rows stay dropped.

    path   of a file in the directory of the targets
    """
    numbers = read_numbers(store, numbers_path(path.rpartition("/")[0], task))
    if len(own) and not _DROPPED <= int(own.min()) <= int(own.max()) < len(numbers):
        raise CorruptFileError(f"task {task} has {len(numbers)} targets, but a row is routed to another one", path=path)
    return np.append(numbers, np.int32(_DROPPED))[own]


def share_path(path: str, task: int) -> str:
    """Return the path of what a task wrote of a part, from that of the part."""
    return f"{path.removesuffix('.arrow')}-{task:05d}.arrow"


def numbers_path(directory: str, task: int) -> str:
    """Return the path of the numbers of a task's targets."""
    return f"{directory}/numbers-{task:05d}.arrow"


#: Rows from which columns are compressed side by side: waking threads costs more than a few small columns do.
_THREADED_ROWS = 100_000
_CHECKSUM = b"crc32"


def _checksum(columns: Sequence[NDArray[np.int32]]) -> int:
    return crc32(*(np.ascontiguousarray(c).view(np.uint8).data for c in columns if len(c)))


def write_columns(store: ObjectStore, path: str, columns: Sequence[NDArray[np.int32]], schema: pa.Schema) -> None:
    """Write int32 columns of one length as an Arrow IPC file, zstd level 1."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(
        compression=pa.Codec("zstd", compression_level=1), use_threads=len(columns[0]) >= _THREADED_ROWS
    )
    columns = [np.ascontiguousarray(c, dtype=np.int32) for c in columns]
    schema = schema.with_metadata({**(schema.metadata or {}), _CHECKSUM: str(_checksum(columns)).encode()})
    batch = pa.record_batch([pa.array(c, pa.int32()) for c in columns], schema=schema)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(batch)
    store.put(path, sink.getvalue().to_pybytes())


def read_columns(
    store: ObjectStore, path: str, schema: pa.Schema
) -> tuple[list[NDArray[np.int32]], dict[bytes, bytes]]:
    """Read the columns of a file that `write_columns` wrote, and the metadata of its schema.

    errors   CorruptFileError when the file is damaged or has other columns
    """
    try:
        with pa.ipc.open_file(pa.BufferReader(store.get(path))) as reader:
            table = reader.read_all()
        table.validate(full=True)
        if not table.schema.equals(schema):
            raise ValueError(f"columns {table.schema.names}")
        columns = [table.column(n).to_numpy().astype(np.int32, copy=False) for n in schema.names]
        metadata = dict(table.schema.metadata or {})
        expected, found = metadata.pop(_CHECKSUM, None), str(_checksum(columns)).encode()
        if expected is not None and expected != found:
            raise ValueError(f"the checksum of the numbers is {found!r}, the file says {expected!r}")
        return columns, metadata
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptFileError(f"the intermediate file cannot be read: {error}", path=path) from error
