"""The table for Python users: every operation on a table, in one object.

table = lakeidx.Table.create("/lake/db.db/users", {"fields": [...], "primaryKeys": ["id"], "options": {"bucket": "-1"}})
table.upsert(pa.table({"id": [1, 2], "name": ["Ada", "Alan"]}))
table.scan(where="id = 1").to_arrow()
"""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self

from lakeidx.api.looking import LookingMixin
from lakeidx.api.new_table import advise_new_table
from lakeidx.api.upkeep import UpkeepMixin
from lakeidx.api.writing import WritingMixin
from lakeidx.arguments import PathLike
from lakeidx.batch.index_types import TableIndex, check_index_type
from lakeidx.format.schema.edits import SchemaEdits, TypeSpec
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.maintenance.alter import AlterResult, alter_table

log = logging.getLogger(__name__)


class Table(WritingMixin, LookingMixin, UpkeepMixin):
    """One table, by its directory; cheap to make, pickles, metadata that was read is kept."""

    #: For a table that does not exist yet; see `advise` for one that does.
    advise_files = staticmethod(advise_new_table)

    @classmethod
    def create(
        cls,
        uri: PathLike,
        spec: Mapping[str, Any],
        storage_options: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Self:
        """Create a table; see `TableHandle.create`. What its index type cannot promise is logged.

        errors   besides InvalidInputError, UnsupportedError for index options that cannot be used with the table
        """
        schema = new_schema(spec)
        check_index_type(schema)
        limits = TableIndex.of(schema).limits
        if limits:
            log.warning("index type %s: %s", TableIndex.of(schema).name, limits)
        return super().create(uri, spec, storage_options, exist_ok=exist_ok)

    def alter(
        self,
        *,
        add: Mapping[str, TypeSpec] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        types: Mapping[str, TypeSpec] | None = None,
        nullable: Mapping[str, bool] | None = None,
        comments: Mapping[str, str | None] | None = None,
        defaults: Mapping[str, str | None] | None = None,
        move: Mapping[str, str] | None = None,
        set: Mapping[str, Any] | None = None,
        reset: Sequence[str] = (),
        comment: str | None = None,
        dry_run: bool = False,
    ) -> AlterResult:
        """Change columns and options: all of the changes, as one new schema, or none. Data files stay as they are.

        Fields of a ROW are named by their path (``address.city``), what an ARRAY or MAP holds by ``lines.element.price``.
        add       new columns -> type; rows that are there have null in them
        types     columns -> wider type
        move      columns -> ``first`` or ``after NAME``
        set, reset   options
        dry_run   check and compare only
        errors    InvalidInputError, UnsupportedError naming what cannot change and why; see `SchemaEdits`
        """
        edits = SchemaEdits(
            add=add, drop=drop, rename=rename, types=types, nullable=nullable, comments=comments, defaults=defaults,
            move=move, set=set, reset=reset, comment=comment,
        )  # fmt: skip
        return alter_table(self, edits, dry_run=dry_run)

    def __repr__(self) -> str:
        try:
            schema, snapshot = self.schema, self.snapshot
        except Exception as error:  # a repr must not fail: debuggers and notebooks call it on anything
            return f"Table({self.uri!r}: {error})"
        columns = ", ".join(f"{f.name} {f.type}" for f in schema.fields)
        keys = f", primary key ({', '.join(schema.primary_keys)})" if schema.primary_keys else ""
        state = "empty" if snapshot is None else f"snapshot {snapshot.id}"
        return f"Table({self.uri!r}, {columns}{keys}, {state})"

    def _repr_html_(self) -> str:
        schema, snapshot = self.schema, self.snapshot
        rows = "".join(
            f"<tr><td>{html.escape(f.name)}</td><td>{html.escape(str(f.type))}</td>"
            f"<td>{'key' if f.name in schema.primary_keys else ''}</td><td>{html.escape(f.description or '')}</td></tr>"
            for f in schema.fields
        )
        state = "empty" if snapshot is None else f"snapshot {snapshot.id}"
        return f"<table><caption>{html.escape(self.uri)}: {state}</caption>{rows}</table>"

    def __getstate__(self) -> dict[str, Any]:
        # Open files stay here.
        return {k: v for k, v in self.__dict__.items() if k != "_lookups"}
