"""ORC data files (option `file.format` = ``orc``), read stripe by stripe. lakeidx does not write them.

Paimon's ORC types are its own types' Hive counterparts: CHAR and VARCHAR as such, TIME as int, TIMESTAMP as timestamp,
local time zone timestamps as timestamp_instant.

source   org.apache.paimon.format.orc.OrcTypeUtil, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import orc

from lakeidx.data.parquet.chunks import damage_of
from lakeidx.data.positions import ReadCounters, RowFilter
from lakeidx.predicate import Predicate
from lakeidx.storage.base import ObjectStore
from lakeidx.types import Field


class OrcSource:
    """An open ORC data file.

    errors   NotFoundError; CorruptFileError
    """

    def __init__(self, store: ObjectStore, path: str, *, size: int | None = None) -> None:
        self.path = path
        stream = store.open_input(path, size=size)
        with damage_of(path):
            self._file = orc.ORCFile(stream)
            self.schema: pa.Schema = self._file.schema
            # Arrow decodes names only now: damaged ones are no UTF-8.
            self._names: list[str] = self.schema.names

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self._file.nrows)

    def batches(
        self,
        names: Sequence[str],
        *,
        row_filter: RowFilter,
        predicate: Predicate | None,
        fields: Sequence[Field],
        batch_rows: int,
        counters: ReadCounters,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Read batches as `ParquetSource.batches` does; stripes count as row groups and are all read: Arrow hides their
        statistics.
        """
        first = 0
        for stripe in range(self._file.nstripes):
            with damage_of(self.path):
                # Without a column ORC gives no rows at all.
                read = list(names) or self._names[:1]
                table = pa.Table.from_batches([self._file.read_stripe(stripe, columns=read)]).select(list(names))
                # ORC has no checksums, and Arrow does not look whether text is UTF-8.
                table.validate(full=True)
            counters.row_groups += 1
            counters.row_groups_read += 1
            counters.rows_read += table.num_rows
            for start in range(0, table.num_rows, batch_rows):
                part = table.slice(start, batch_rows)
                if row_filter.keeps_any(first + start, part.num_rows):
                    yield first + start, part
            first += table.num_rows
