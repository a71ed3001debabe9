"""Staged parts of bounded size, written as rows come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import StagedPart
from lakeidx.batch.parts import is_full, write_part
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.storage.base import ObjectStore


class PartWriter:
    """Writes the staged rows of one landing file, or of a share of one, as Parquet parts of bounded size."""

    def __init__(self, store: ObjectStore, out_dir: str, source: int, share: int | None = None) -> None:
        self._store = store
        self._out_dir = out_dir
        self._source = source
        self._share = share
        self._parts: list[StagedPart] = []
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table) -> None:
        """Stage rows, together with those before them when they are few."""
        if rows.num_rows:
            self._pending.append(rows)
            self._rows += rows.num_rows
            self._bytes += rows.nbytes
        if is_full(self._rows, self._bytes):
            self._flush()

    def finish(self) -> tuple[StagedPart, ...]:
        """Write what waits and return all parts."""
        self._flush()
        return tuple(self._parts)

    def _flush(self) -> None:
        if not self._rows:
            return
        has_kinds = any(VALUE_KIND in t.column_names for t in self._pending)
        tables = [_with_kinds(t) if has_kinds else t for t in self._pending]
        rows, number = pa.concat_tables(tables), len(self._parts)
        part = write_part(self._store, self._out_dir, self._source, number, rows, share=self._share)
        self._parts.append(part)
        self._pending, self._rows, self._bytes = [], 0, 0


def _with_kinds(table: pa.Table) -> pa.Table:
    if VALUE_KIND in table.column_names:
        return table
    return table.append_column(VALUE_KIND, pa.array(np.zeros(table.num_rows, dtype=np.int8)))
