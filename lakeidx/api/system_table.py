"""Paimon's system tables, by their names or by the path ``TABLE$name``: what a table has, as rows; and its rows in other forms.

table.system("files").to_arrow()
SystemTable.open("/lake/db.db/users$audit_log").scan(incremental=(3, 7)).to_arrow()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER
from lakeidx.options.arguments import PathLike, as_text, path_text
from lakeidx.predicate import Predicate
from lakeidx.predicate.mask import filter_table
from lakeidx.results import Listing
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.changes import ChangeScan, scan_with_kinds
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.layout import SYSTEM_ROW_KIND, Layout
from lakeidx.table.scan.section_read import ROW_TRACKING
from lakeidx.table.scan.states import StateName, time_travel
from lakeidx.table.scan.table_scan import ArrowStream, TableScan, bind_to_fields, scan_table, tracked_rows
from lakeidx.table.system.filed import AskedState
from lakeidx.table.system.names import OF_A_STATE, OF_ROWS, check_system_name, split_system_name
from lakeidx.table.system.of_warehouse import warehouse_fields, warehouse_rows
from lakeidx.table.system.rows import system_fields, system_rows
from lakeidx.table.times import Moment, epoch_ms
from lakeidx.types import Field, to_arrow_schema

if TYPE_CHECKING:
    from lakeidx.api.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class SystemRows(ArrowStream):
    """Rows made of a table's metadata, in memory; an Arrow stream."""

    rows: pa.Table

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.rows.schema

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in one table, none when there are none."""
        if self.rows.num_rows:
            yield self.rows

    def list(self) -> Listing:
        """Return the rows as a list of mappings, which shells and notebooks show as a table."""
        return Listing(self.rows.to_pylist())


class SystemTable(ArrowStream):
    """One system table; it is only read, and is an Arrow stream of its rows as they are at each reading.

    table   whose system table it is
    name    ``files``, ``snapshots`` …; see `lakeidx.table.system.names`
    """

    def __init__(self, table: Table, name: str) -> None:
        self.table = table
        self.name = check_system_name(name, path=table.uri)

    @classmethod
    def open(cls, uri: PathLike, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Open ``TABLE$files``, or another of the system tables.

        errors   InvalidInputError for another path; NotFoundError when the directory is not a table
        """
        root, name = split_system_name(path_text(uri))
        if name is None:
            raise InvalidInputError("not a system table: write TABLE$files, TABLE$snapshots …", path=root)
        return cls(Table.open(root, storage_options), name)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns, in Paimon's types."""
        schema = self.table.schema
        if self.name not in OF_ROWS:
            return system_fields(self.name)
        layout = Layout(self.name) if self.name in (Layout.AUDIT_LOG, Layout.BINLOG) else Layout.PLAIN
        tracked = ROW_TRACKING if self.name == "row_tracking" else ()
        return (
            *layout.fields(schema, schema.field_names),
            *(replace(f, type=f.type.with_nullable(False)) for f in tracked),
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return to_arrow_schema(self.fields)

    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        limit: int | None = None,
        incremental: tuple[StateName, StateName | None] | None = None,
        mode: IncrementalMode | str = IncrementalMode.AUTO,
    ) -> ChangeScan | TableScan | SystemRows:
        """Plan the rows of one state, or of ``audit_log`` and ``binlog`` with `incremental` those of the commits in between.

        where     on columns of the system table; of ``audit_log`` and ``binlog`` on those of the table
        columns   of ``audit_log`` and ``binlog`` those of the table; ``rowkind`` is always there, first
        state     see `Table.scan`; for system tables that a state has
        """
        asked = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp}
        if self.name in (Layout.AUDIT_LOG, Layout.BINLOG):
            return self._with_kinds(where, columns, asked, limit, incremental, mode)
        if incremental is not None or mode != IncrementalMode.AUTO:
            raise InvalidInputError(f"{self.name} has no rows between two states; audit_log and binlog have")
        time_ms = None if timestamp is None else epoch_ms(timestamp)
        if self.name == "ro":
            return scan_table(
                self.table, where=where, columns=columns, snapshot=snapshot, tag=tag, timestamp_ms=time_ms, limit=limit,
                compacted=True,
            )  # fmt: skip
        if self.name == "row_tracking":
            return self._tracked(where, columns, limit, snapshot=snapshot, tag=tag, timestamp_ms=time_ms)
        rows = self._of_metadata({"snapshot_id": snapshot, "tag": tag, "timestamp_ms": time_ms})
        return SystemRows(_selected(rows, self.fields, where, columns, limit))

    def _of_metadata(self, travel: dict[str, Any]) -> pa.Table:
        metadata, newest = self.table.metadata, self.table.schema
        if any(v is not None for v in travel.values()):
            if self.name not in OF_A_STATE:
                raise InvalidInputError(
                    f"{self.name} shows what is there now; older states have {', '.join(OF_A_STATE)}"
                )
            snapshot = time_travel(metadata, **travel)
            schema = newest if snapshot is None else metadata.load_schema(snapshot.schema_id)
            return system_rows(AskedState(metadata, snapshot, schema, travel), self.name)
        return on_newest(metadata, lambda s: system_rows(AskedState(metadata, s, newest), self.name))

    def _tracked(
        self, where: str | Predicate | None, columns: Sequence[str] | None, limit: int | None, **state: Any
    ) -> SystemRows:
        """Read the rows of one state with what row tracking knows of each."""
        if not self.table.schema.table_options.row_tracking_enabled:
            raise UnsupportedError("row_tracking: the table has not option row-tracking.enabled", path=self.table.uri)
        scan = scan_table(self.table, **state)
        fields = (*scan.plan.schema.fields, *self.fields[-len(ROW_TRACKING) :])
        empty = to_arrow_schema(fields).empty_table()
        tables = [_selected(t.cast(empty.schema), fields, where, columns, None) for t in (empty, *tracked_rows(scan))]
        return SystemRows(pa.concat_tables(tables).slice(0, limit))

    def _with_kinds(
        self,
        where: str | Predicate | None,
        columns: Sequence[str] | None,
        asked: dict[str, Any],
        limit: int | None,
        incremental: tuple[StateName, StateName | None] | None,
        mode: IncrementalMode | str,
    ) -> ChangeScan:
        layout = Layout(self.name)
        names = None if columns is None else [c for c in columns if c not in (SYSTEM_ROW_KIND, SEQUENCE_NUMBER)]
        if incremental is None:
            if mode != IncrementalMode.AUTO:
                raise InvalidInputError("mode needs incremental, the two states whose changes are read")
            return scan_with_kinds(self.table.scan(where=where, columns=names, limit=limit, **asked), layout)
        if any(v is not None for v in asked.values()):
            raise InvalidInputError("incremental=(after, upto) cannot be combined with another state")
        found = self.table.changes(*incremental, mode=mode, where=where, columns=names, limit=limit)
        return replace(found, layout=layout)

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows, as they are now, in tables of bounded size."""
        return self.scan().batches()

    def to_arrow(self) -> pa.Table:
        """Read all rows, as they are now."""
        return self.scan().to_arrow()

    def to_reader(self) -> pa.RecordBatchReader:
        """Stream all rows; columns and rows are of one state."""
        return self.scan().to_reader()

    def list(self) -> Listing:
        """Read all rows as a list of mappings, which shells and notebooks show as a table."""
        return Listing(self.to_arrow().to_pylist())

    def __repr__(self) -> str:
        return f"SystemTable({self.table.uri}${self.name})"


def open_any(table: Table | SystemTable | PathLike) -> Table | SystemTable:
    """Open a table by its path, or a system table by ``TABLE$files``; what is open already is returned."""
    if isinstance(table, (Table, SystemTable)):
        return table
    return Table.open(table) if split_system_name(path_text(table))[1] is None else SystemTable.open(table)


def warehouse_system(warehouse: Warehouse, name: str) -> SystemRows:
    """Read a system table of a warehouse; see `Warehouse.system`."""

    def tables() -> dict[str, TableMetadata]:
        return {n: warehouse.table(n).metadata for n in warehouse.tables()}

    return SystemRows(
        warehouse_rows(as_text(name, name="a system table").lower(), tables, {"warehouse": warehouse.uri})
    )


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """A system table of a warehouse, whose rows are made when they are asked for."""

    warehouse: Warehouse
    name: str

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return to_arrow_schema(warehouse_fields(self.name))

    def to_arrow(self) -> pa.Table:
        """Make the rows."""
        return self.warehouse.system(self.name).to_arrow()


def _selected(
    rows: pa.Table,
    fields: Sequence[Field],
    where: str | Predicate | None,
    columns: Sequence[str] | None,
    limit: int | None,
) -> pa.Table:
    """Filter, project and cut rows in memory.

    errors   InvalidInputError naming a column that there is not
    """
    if where is not None:
        rows = filter_table(bind_to_fields(where, fields), rows)
    if columns is not None:
        unknown = [c for c in columns if c not in rows.column_names]
        if unknown:
            raise InvalidInputError(f"there is no column {unknown[0]!r}; there are {', '.join(rows.column_names)}")
        rows = rows.select(list(columns))
    return rows if limit is None else rows.slice(0, limit)
