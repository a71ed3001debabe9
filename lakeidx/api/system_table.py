"""Paimon's system tables ``audit_log`` and ``binlog``: a table's rows with their kinds in front, by the path ``TABLE$audit_log``.

SystemTable.open("/lake/db.db/users$audit_log").scan(incremental=(3, 7)).to_arrow()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.predicate import Predicate
from lakeidx.table.scan.changes import ChangeScan, scan_with_kinds
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.layout import SYSTEM_ROW_KIND, Layout, split_system_name
from lakeidx.table.scan.states import StateName
from lakeidx.table.times import Moment


class SystemTable:
    """One system table; it is only read.

    table    whose rows it shows
    layout   `Layout.AUDIT_LOG` or `Layout.BINLOG`
    """

    def __init__(self, table: Table, layout: Layout) -> None:
        self.table = table
        self.layout = layout

    @classmethod
    def open(cls, uri: PathLike, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Open ``TABLE$audit_log`` or ``TABLE$binlog``.

        errors   InvalidInputError for another path; NotFoundError when the directory is not a table
        """
        root, layout = split_system_name(path_text(uri))
        if layout is None:
            raise InvalidInputError("not a system table: write TABLE$audit_log or TABLE$binlog", path=root)
        return cls(Table.open(root, storage_options), layout)

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
    ) -> ChangeScan:
        """Plan the rows of one state, or with `incremental` those of the commits in between; see `Table.scan`.

        where     on columns of the table
        columns   of the table; ``rowkind`` is always there, first, and ``_SEQUENCE_NUMBER`` by the table's option
        state     rows of one state have the kind they are stored with; deleted rows are there until a full compaction
        """
        names = None if columns is None else [c for c in columns if c not in (SYSTEM_ROW_KIND, SEQUENCE_NUMBER)]
        if incremental is None:
            if mode != IncrementalMode.AUTO:
                raise InvalidInputError("mode needs incremental, the two states whose changes are read")
            state = self.table.scan(
                where=where, columns=names, snapshot=snapshot, tag=tag, timestamp=timestamp, limit=limit
            )
            return scan_with_kinds(state, self.layout)
        if any(v is not None for v in (snapshot, tag, timestamp)):
            raise InvalidInputError("incremental=(after, upto) cannot be combined with another state")
        found = self.table.changes(*incremental, mode=mode, where=where, columns=names, limit=limit)
        return replace(found, layout=self.layout)

    def __repr__(self) -> str:
        return f"SystemTable({self.table.uri}${self.layout.value})"
