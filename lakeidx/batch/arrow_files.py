"""Small Arrow IPC files between stages: columns of numbers without nulls, one line per row or per change.

Arrow has no checksum: that of the numbers is in the metadata of the schema, as ``crc32``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError
from lakeidx.storage.base import ObjectStore

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
