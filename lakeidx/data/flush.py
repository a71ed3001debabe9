"""What a writer does with a full buffer: sort it, and merge the rows of one key.

source   org.apache.paimon.mergetree.SortBufferWriteBuffer#forEach (with its reducing wrapper), release 1.4.2
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.codec.order_key import argsort_keys, run_starts
from lakeidx.data.engines import MergeEngine
from lakeidx.data.rows import take_rows
from lakeidx.data.sort import sort_kv
from lakeidx.format.schema import TableSchema


def sort_and_merge(kv: pa.Table, schema: TableSchema, engine: MergeEngine) -> pa.Table:
    """A buffer in key order with one row per key.

    kv       KV table in write order: sequence numbers ascend
    returns  KV table; a key's only record is kept as it is, kind included
    errors   InvalidInputError naming column and option for what the engine cannot merge
    """
    keys = list(schema.trimmed_primary_keys)
    if schema.table_options.sequence_field:
        ordered = sort_kv(kv, schema)
    else:
        # In write order the sequence numbers ascend already, so a stable sort by key alone is the merge order.
        order = argsort_keys([kv.column(k) for k in keys], list(schema.key_types))
        in_place = bool(np.all(order[1:] > order[:-1]))
        ordered = kv if in_place else take_rows(kv, order)
    starts = run_starts([ordered.column(k) for k in keys], list(schema.key_types))
    if len(starts) == ordered.num_rows:
        return ordered
    return engine.merge(ordered, starts, shortcut=True)
