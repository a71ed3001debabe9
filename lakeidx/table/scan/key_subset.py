"""Subset of keys that a section is read for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.bucket_assignment.hash_set import HashFilter
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.format.schema.table_schema import TableSchema


class KeySubset:
    """Keys of one schema.

    keys     tables that hold the key columns, the trimmed primary key; repeats allowed
    memory   the keys, also encoded, a filter of their hashes, and what `rows_of` keeps
    """

    def __init__(self, schema: TableSchema, keys: Iterable[pa.Table]) -> None:
        self._names, self._types = schema.trimmed_primary_keys, list(schema.key_types)
        self._tables = list(keys)
        self._filter = HashFilter([self._hashes(t) for t in self._tables])
        self._rows: dict[Hashable, list[pa.Table]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    @cached_property
    def _keys(self) -> pa.Array:
        """The keys, each once; who only wants candidates does not need them."""
        encoded = [self._encoded(self._columns(t), t.num_rows) for t in self._tables]
        return pa.chunked_array(encoded, pa.large_binary()).unique()

    def candidates(self, table: pa.Table) -> npt.NDArray[np.int64]:
        """Return int64[m] ascending: rows of a table whose key is in the set, and a few others."""
        return self._filter.where(self._hashes(table)).astype(np.int64)

    def positions_in(self, batches: Iterable[pa.Table]) -> npt.NDArray[np.int64]:
        """Return int64[m] ascending: rows of concatenated batches whose key is in the set."""
        found, encoded, first = [np.empty(0, np.int64)], [], 0
        for table in batches:
            maybe = self.candidates(table)
            if len(maybe):
                found.append(maybe + first)
                encoded.append(self._encoded([c.take(pa.array(maybe)) for c in self._columns(table)], len(maybe)))
            first += table.num_rows
        # All at once: each call makes a hash table of the set.
        isin = pc.is_in(pa.chunked_array(encoded, pa.large_binary()), value_set=self._keys)
        out: npt.NDArray[np.int64] = np.concatenate(found)[np.asarray(isin)]
        return out

    def rows_of(self, file: Hashable, read: Callable[[], Iterator[pa.Table]]) -> Iterator[pa.Table]:
        """Read the selected rows of a file once: two states of a table share most of their files."""
        if file not in self._rows:
            self._rows[file] = list(read())
        yield from self._rows[file]

    def _columns(self, table: pa.Table) -> Sequence[pa.ChunkedArray]:
        return [table.column(n) for n in self._names]

    def _encoded(self, columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
        return encode_rows(columns, self._types, rows).to_arrow().cast(pa.large_binary())

    def _hashes(self, table: pa.Table) -> npt.NDArray[np.int32]:
        return hash_columns(self._columns(table), self._types, table.num_rows)
