from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.columns import (
    FixedColumn,
    split_columns,
)
from lakeidx.types import DataType, parse_type


def never(value: object, t: DataType) -> bytes:
    raise AssertionError("no nested value here")


def test_plain_columns_are_not_copied() -> None:
    array = pa.array(np.arange(1000))
    (part,), _ = split_columns([pa.chunked_array([array])], [parse_type("BIGINT")], None, never)
    assert isinstance(part, FixedColumn)
    assert part.words.ctypes.data == array.buffers()[1].address
