"""A set of keys that rows of data files are restricted to, and the rows it has selected so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.format.schema.schema_file import TableSchema

#: Leading bits of a key hash that the filter is indexed by: 4 MiB, and few keys that only look alike.
_FILTER_BITS = 22


class KeySubset:
    """Keys of one schema (the trimmed primary key).

    keys     tables that hold the key columns; repeats allowed
    memory   the encoded keys, a filter of 4 MiB, and what `rows_of` keeps
    """

    def __init__(self, schema: TableSchema, keys: Iterable[pa.Table]) -> None:
        self._names = schema.trimmed_primary_keys
        self._types = schema.key_types
        self._filter = np.zeros(1 << _FILTER_BITS, np.bool_)
        encoded = []
        for table in keys:
            self._filter[self._slots(table)] = True
            encoded.append(self._encoded(self._columns(table), table.num_rows))
        self._keys = (
            pa.chunked_array(encoded, pa.large_binary()).unique() if encoded else pa.array([], pa.large_binary())
        )
        self._rows: dict[Hashable, list[pa.Table]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def positions(self, table: pa.Table) -> npt.NDArray[np.int64]:
        """Return int64[m] ascending: rows of a table whose key is in the set."""
        maybe = np.flatnonzero(self._filter[self._slots(table)])
        if not len(maybe):
            return maybe
        columns = [c.take(pa.array(maybe)) for c in self._columns(table)]
        found = pc.is_in(self._encoded(columns, len(maybe)), value_set=self._keys)
        out: npt.NDArray[np.int64] = maybe[found.to_numpy(zero_copy_only=False)]
        return out

    def positions_in(self, batches: Iterable[pa.Table]) -> npt.NDArray[np.int64]:
        """Return the positions in concatenated batches; see `positions`."""
        out, first = [np.empty(0, np.int64)], 0
        for table in batches:
            out.append(self.positions(table) + first)
            first += table.num_rows
        return np.concatenate(out)

    def rows_of(self, file: Hashable, read: Callable[[], Iterator[pa.Table]]) -> Iterator[pa.Table]:
        """Read the selected rows of a file once: two states of a table share most of their files."""
        if file not in self._rows:
            self._rows[file] = list(read())
        yield from self._rows[file]

    def _columns(self, table: pa.Table) -> Sequence[pa.ChunkedArray]:
        return [table.column(n) for n in self._names]

    def _encoded(self, columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
        return encode_rows(columns, self._types, rows).to_arrow().cast(pa.large_binary())

    def _slots(self, table: pa.Table) -> npt.NDArray[np.uint32]:
        hashes = hash_columns(self._columns(table), self._types, table.num_rows)
        return hashes.view(np.uint32) >> np.uint32(32 - _FILTER_BITS)
