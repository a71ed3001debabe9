"""Files that say to which target each staged row goes: one int32 column, one file per staged part; -1 = the row is dropped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.batch.arrow_files import read_columns, write_columns
from lakeidx.storage.base import ObjectStore

_SCHEMA = pa.schema([pa.field("target", pa.int32(), nullable=False)])


def write_targets(store: ObjectStore, path: str, targets: NDArray[np.int32]) -> None:
    """Write the targets of one part as an Arrow IPC file."""
    write_columns(store, path, [targets], _SCHEMA)


def read_targets(store: ObjectStore, path: str) -> NDArray[np.int32]:
    """Read the target of each row of the part, int32[rows]."""
    (targets,), _ = read_columns(store, path, _SCHEMA)
    return targets
