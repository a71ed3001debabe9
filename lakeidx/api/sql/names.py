"""Names of tables in statements: which table, branch, system table and state each is.

====================================  =================================================================================
written                               is
====================================  =================================================================================
``shop.orders``                       a table of the warehouse, as it is when the statement begins
``shop.orders$files``                 a system table of it, with or without backticks
``sys.tables``                        a table of the catalog itself
``shop.orders$branch_b``              its branch ``b``; system tables of it follow: ``shop.orders$branch_b$files``
``orders VERSION AS OF 3``            a snapshot by its id, or a tag; ``TIMESTAMP AS OF '2026-11-22'`` by time
``changes``                           rows that the caller gave under this name
====================================  =================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from sqlglot import exp

from lakeidx.api.arrow_input import as_table
from lakeidx.api.sql.statement import Node, Statement
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.table.history import tag_names
from lakeidx.table.scan.states import find_fallback, time_travel
from lakeidx.table.times import epoch_ms
from lakeidx.types import Field

if TYPE_CHECKING:
    from lakeidx.api.dataset import TableDataset

_BRANCH = "branch_"
_OF_CATALOG = "sys"


class Catalog(Protocol):
    """Finder of tables by the parts of their names."""

    def open(self, parts: Sequence[str]) -> Table:
        """Open a table; NotFoundError naming those there are."""
        ...

    def system(self, name: str) -> pa.Table | None:
        """Return a table of the catalog itself, ``sys.tables``; None where there is none of this name."""
        ...


@dataclass(frozen=True, slots=True)
class TableName:
    """A name in a statement, taken apart.

    parts    of the table: database and name
    branch   None for the table itself
    system   name of a system table, None for the rows
    """

    parts: tuple[str, ...]
    branch: str | None = None
    system: str | None = None

    @classmethod
    def of(cls, statement: Statement, node: Node) -> TableName:
        """Take the name of a table apart; InvalidInputError for what is no name."""
        if not all(isinstance(p, exp.Identifier) for p in node.parts):
            raise statement.error("the name of a table must stand here", node)
        *above, last = (p.name for p in node.parts)
        name, *more = last.split("$")
        branch = more.pop(0).removeprefix(_BRANCH) if more and more[0].startswith(_BRANCH) else None
        if len(more) > 1 or not name or "" in more or branch == "":
            raise statement.error(f"{last!r} is no name: write table, table$files or table$branch_name$files", node)
        return cls((*above, name), branch, more[0] if more else None)


@dataclass(frozen=True, slots=True)
class Places:
    """Meaning of the names in a statement.

    catalog   finds tables
    given     rows of the caller by names as they are written, as `lakeidx.Table.upsert` takes them
    """

    catalog: Catalog
    given: Mapping[str, Any] = field(default_factory=dict)

    def table(self, statement: Statement, node: Node) -> Table:
        """Open the table that a verb writes or a command is about; errors name the place."""
        name = TableName.of(statement, node)
        if name.system is not None:
            raise statement.error(f"{node.name} is a system table: it is only read", node)
        return self._open(statement, node, name)

    def fields(self, statement: Statement, node: Node) -> tuple[Field, ...]:
        """Return the columns of a table, or of a system table; errors name the place."""
        name = TableName.of(statement, node)
        table = self._open(statement, node, name)
        with _placed(statement, node):
            return table.schema.fields if name.system is None else table.system(name.system).fields

    def rows(self, statement: Statement, node: Node, *, committed: bool = False) -> TableDataset | pa.Table:
        """Return what a query reads under a name, for DuckDB.

        committed   rows as the next compaction leaves them: for verbs that read before they write
        """
        written = ".".join(p.name for p in node.parts)
        if written in self.given:
            return as_table(self.given[written])
        # PyArrow's datasets import pandas, which takes a second.
        from lakeidx.api.dataset import TableDataset

        name = TableName.of(statement, node)
        if len(name.parts) == 2 and name.parts[0].lower() == _OF_CATALOG and not (name.branch or name.system):
            with _placed(statement, node):
                found = self.catalog.system(name.parts[1].lower())
            if found is not None:
                return found
        table = self._open(statement, node, name)
        with _placed(statement, node):
            metadata, asked = table.metadata, _asked(statement, node, table)
            if name.system is not None:
                moment = {
                    {"snapshot_id": "snapshot", "timestamp_ms": "timestamp"}.get(k, k): v for k, v in asked.items()
                }
                return as_table(table.system(name.system).scan(**moment))
            state = time_travel(metadata, **asked)
            schema = table.schema if state is None or not asked else metadata.load_schema(state.schema_id)
            if committed:
                return TableDataset(table, state=(state, schema), least_level=0)
            return TableDataset(table, state=(state, schema), fallback=find_fallback(metadata, schema, state, **asked))

    def _open(self, statement: Statement, node: Node, name: TableName) -> Table:
        with _placed(statement, node):
            table = self.catalog.open(name.parts)
            return table if name.branch is None else table.branch(name.branch)


class _placed:
    """Adds line and column of a name to what is raised about it."""

    def __init__(self, statement: Statement, node: Node) -> None:
        self._at = (statement, node)

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, (InvalidInputError, NotFoundError)) and not error.message.startswith("line "):
            statement, node = self._at
            raise type(error)(statement.error(error.message, node).message) from None


def _asked(statement: Statement, node: Node, table: Table) -> dict[str, Any]:
    """Return which state ``VERSION AS OF`` or ``TIMESTAMP AS OF`` names; nothing for the newest."""
    version = node.args.get("version")
    if version is None:
        return {}
    value = version.expression.unnest()
    while isinstance(value, exp.Cast):
        value = value.this
    if not isinstance(value, exp.Literal) or version.args.get("kind") != "AS OF":
        raise statement.error("VERSION AS OF takes the id of a snapshot or a tag, TIMESTAMP AS OF a time as text", node)
    if str(version.name).upper() == "TIMESTAMP":
        if not value.is_string:
            raise statement.error("TIMESTAMP AS OF takes a time as text: '2026-11-22 10:30:00'", node)
        return {"timestamp_ms": epoch_ms(value.name)}
    if value.name in tag_names(table.metadata):
        return {"tag": value.name}
    if not value.name.isdecimal():
        have = ", ".join(tag_names(table.metadata)) or "none"
        raise InvalidInputError(f"there is no tag {value.name!r}; tags: {have}")
    return {"snapshot_id": int(value.name)}
