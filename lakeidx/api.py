"""The table as Python users hold it: everything one can do with a table, in one object.

table = lakeidx.Table.create("/lake/db.db/users", {"fields": [...], "primaryKeys": ["id"], "options": {"bucket": "-1"}})
table.upsert(pa.table({"id": [1, 2], "name": ["Ada", "Alan"]}))
table.scan(where="id = 1").to_arrow()
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import new_schema
from lakeidx.lookup.point import TableLookup
from lakeidx.pipeline.index_types import check_index_type, index_type, limits_of
from lakeidx.pipeline.landing import LandingOptions
from lakeidx.pipeline.runner import Runner
from lakeidx.pipeline.upsert import BatchResult, make_context, new_batch_id, upsert_files, upsert_table
from lakeidx.table.handle import TableHandle

log = logging.getLogger(__name__)


class ArrowStreamable(Protocol):
    """Anything that exports itself as an Arrow stream (pandas, Polars, DuckDB, PySpark 4, ...)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Table(TableHandle):
    """A table: `open`, `scan` of `TableHandle`, and writing."""

    @classmethod
    def create(
        cls,
        uri: str,
        spec: Mapping[str, Any],
        storage_options: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Self:
        """Create a table; see `TableHandle.create`. What its index type cannot promise is logged.

        errors   besides InvalidInputError, UnsupportedError for options of the index that do not go with the table
        """
        schema = new_schema(spec)
        check_index_type(schema)
        limits = limits_of(schema)
        if limits:
            log.warning("index type %s: %s", index_type(schema), limits)
        return super().create(uri, spec, storage_options, exist_ok=exist_ok)

    def upsert(
        self,
        rows: pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStreamable,
        *,
        batch_id: str | None = None,
        runner: Runner | None = None,
    ) -> BatchResult:
        """Insert new keys, update known ones; row kinds (+I -U +U -D) in column ``_kind`` when present.

        rows       the table's columns in any order; a nullable column may be missing
        batch_id   name of the batch: a batch of the same name that was committed changes nothing
        runner     where stages run; default this process, two threads
        errors     InvalidInputError naming row and column, CommitUnknownError, UnavailableError
        """
        context = make_context(self.metadata, batch_id or new_batch_id(), runner=runner)
        return upsert_table(context, as_table(rows))

    def overwrite(
        self,
        rows: pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStreamable,
        *,
        whole_table: bool = False,
        batch_id: str | None = None,
        runner: Runner | None = None,
    ) -> BatchResult:
        """Replace the partitions that `rows` touch, or the whole table, by `rows`."""
        mode = "table" if whole_table else "partitions"
        context = make_context(self.metadata, batch_id or new_batch_id(), runner=runner, overwrite=mode)
        return upsert_table(context, as_table(rows))

    def upsert_files(
        self,
        files: Sequence[str],
        options: LandingOptions | None = None,
        *,
        batch_id: str | None = None,
        strict: bool = False,
        runner: Runner | None = None,
    ) -> BatchResult:
        """Upsert landing files (Parquet, CSV, JSON lines) as one batch; bad rows are split off with their reasons."""
        context = make_context(self.metadata, batch_id or new_batch_id(), runner=runner)
        return upsert_files(context, files, options, strict=strict)

    def lookup(self, keys: pa.Table | pa.RecordBatch | ArrowStreamable) -> pa.Table:
        """The rows of some keys in the newest snapshot; what was loaded stays for the next call.

        keys      the primary key's columns
        returns   one row per key, in their order: column ``_FOUND`` (bool), then the table's columns, null when not found
        errors    InvalidInputError for a missing or wrong key column, or a table without primary key; CorruptFileError
        """
        if self._lookup is None:
            self._lookup = TableLookup(self.metadata)
        answer = self._lookup.lookup(as_table(keys))
        return answer.rows.add_column(0, "_FOUND", pa.array(answer.found))

    _lookup: TableLookup | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Open files stay here.
        return {k: v for k, v in self.__dict__.items() if k != "_lookup"}


def as_table(rows: Any) -> pa.Table:
    """Rows of any Arrow form as a table.

    errors   InvalidInputError for what is no Arrow data
    """
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    raise InvalidInputError(
        f"rows must be Arrow data (a table, a reader, or what exports __arrow_c_stream__), not {type(rows).__name__}"
    )
