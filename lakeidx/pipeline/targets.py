"""Files that say to which target each staged row goes: one int32 column, one file per staged part."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.errors import CorruptFileError
from lakeidx.storage.base import ObjectStore

_SCHEMA = pa.schema([pa.field("target", pa.int32(), nullable=False)])


def write_targets(store: ObjectStore, path: str, targets: NDArray[np.int32]) -> None:
    """Write the targets of one part as an Arrow IPC file."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch([pa.array(targets, pa.int32())], schema=_SCHEMA))
    store.put(path, sink.getvalue().to_pybytes())


def read_targets(store: ObjectStore, path: str) -> NDArray[np.int32]:
    """int32[rows of the part]."""
    try:
        with pa.ipc.open_file(pa.BufferReader(store.get(path))) as reader:
            return reader.read_all().column("target").to_numpy().astype(np.int32, copy=False)
    except (pa.ArrowInvalid, KeyError) as error:
        raise CorruptFileError(f"the target file cannot be read: {error}", path=path) from error
