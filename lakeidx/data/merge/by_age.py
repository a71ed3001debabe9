"""Sorted runs merged by their age alone, where every row of a run is newer than all rows of the runs before it.

Then no one has to read sequence numbers, and of a key's rows the one of the last run counts: the row with the greatest number when
the runs lie end to end. Most rows of a merge come from one run, as a rule; its keys are
walked where they are, and only those of the others are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.jit import frozen
from lakeidx.data.engines import make_engine
from lakeidx.data.engines.deduplicate import DeduplicateEngine
from lakeidx.data.merge.kernels import merge_newer
from lakeidx.data.merge.key_streams import concat_keys, key_buffers, merge_to_last
from lakeidx.data.merge.run_parts import Part, complete_parts
from lakeidx.data.rows import gather_rows
from lakeidx.format.schema.table_schema import TableSchema


def goes_by_age(schema: TableSchema) -> bool:
    """Return True when merges of a table keep the newest row of a key, as sequence numbers have it."""
    return isinstance(make_engine(schema), DeduplicateEngine) and not schema.table_options.sequence_field


def merge_by_age(runs: Sequence[Iterable[pa.Table]], schema: TableSchema, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Merge sorted runs of one bucket, the oldest first; a key whose newest row is a delete keeps that row.

    runs      each gives tables in key order, no key twice, all of one Arrow schema with the trimmed primary key
    columns   those to give back, at least one
    returns   tables in key order, each key once; never an empty one
    errors    CorruptFileError for a run that is not in key order
    memory    a batch per run, their keys, and the merged rows up to the next cut
    """
    for parts in complete_parts(runs, schema):
        tables = [p.table.select(list(columns)) for p in parts]
        yield tables[0] if len(parts) == 1 else gather_rows(tables, newest_rows(parts))


def newest_rows(parts: Sequence[Part]) -> npt.NDArray[np.int64]:
    """Return, in key order, the number of the last row of each key, of rows of two or more parts laid end to end."""
    lengths = [len(p.keys) for p in parts]
    long = int(np.argmax(lengths))
    others = [p for i, p in enumerate(parts) if i != long]
    few = key_buffers(concat_keys([p.keys for p in others]))
    total = sum(lengths) - lengths[long]
    # A row's number stands for its sequence number.
    rows = merge_to_last([len(p.keys) for p in others], few, np.arange(total), np.zeros(total, np.int8))
    out = np.empty(sum(lengths), np.int64)
    words, data, offsets, exact = key_buffers(parts[long].keys)
    count = merge_newer(words, data, offsets, *few[:3], exact, frozen(rows), sum(lengths[:long]), out)
    return out[:count]
