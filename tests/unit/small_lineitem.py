"""A few rows of lineitem, for tests of benchmarks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def small_lineitem(orders: int, text: pa.DataType) -> pa.Table:
    """Return four lines of each order, in key order; comments of a text type."""
    order = np.repeat(np.arange(orders), 4)
    return pa.table(
        {
            "l_orderkey": pa.array(order),
            "l_partkey": pa.array(order * 7 + 1),
            "l_linenumber": pa.array(np.tile(np.arange(1, 5), orders).astype(np.int32)),
            "l_comment": pa.array(["text"] * len(order), text),
        }
    )
