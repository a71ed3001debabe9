"""Running a statement: which kind it is, and who does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from lakeidx.api.arrow_input import as_table
from lakeidx.api.sql import tables, verbs
from lakeidx.api.sql.names import Places
from lakeidx.api.sql.procedures import call
from lakeidx.api.sql.query import Query, QueryResult
from lakeidx.api.sql.statement import Node, Statement
from lakeidx.api.sql.verbs import VerbResult, Writing
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from lakeidx.api.warehouse import Warehouse

_KINDS = (
    "SELECT, INSERT, UPDATE, DELETE, MERGE INTO, CREATE, ALTER, TRUNCATE and DROP TABLE, COMMENT ON, SHOW, DESCRIBE, EXPLAIN "
    "and CALL"
)
#: Spark's words for more or less of a plan; there is one.
_HOW_TO_EXPLAIN = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")
_VERBS = {exp.Insert: verbs.insert, exp.Update: verbs.update, exp.Delete: verbs.delete, exp.Merge: verbs.merge}


@dataclass(frozen=True, slots=True)
class _OfWarehouse:
    """The tables of a warehouse by ``database.table``."""

    warehouse: Warehouse

    def open(self, parts: Sequence[str]) -> Table:
        if len(parts) != 2:
            raise InvalidInputError(f"write the table as database.table, not {'.'.join(parts)!r}")
        return self.warehouse.table(".".join(parts))

    def system(self, name: str) -> pa.Table | None:
        return as_table(self.warehouse.system(name))


def run_statement(
    statement: Statement, warehouse: Warehouse, sources: Mapping[str, Any] | None, how: Writing
) -> QueryResult | VerbResult:
    """Run one statement; see `lakeidx.Warehouse.sql`."""
    return run_among(statement, Places(_OfWarehouse(warehouse), sources or {}), warehouse, how)


def run_among(
    statement: Statement, places: Places, warehouse: Warehouse | None, how: Writing
) -> QueryResult | VerbResult:
    """Run one statement whose names stand for `places`; without a warehouse no table comes or goes."""
    try:
        return _run(statement, places, warehouse, how)
    except (InvalidInputError, NotFoundError, UnsupportedError) as error:
        # What a call has refused is about the statement.
        if not error.message.startswith("line "):
            error.message = statement.about(error.message).message
        raise


def _run(statement: Statement, places: Places, warehouse: Warehouse | None, how: Writing) -> QueryResult | VerbResult:
    first = statement.word(0)
    if first == "SHOW":
        return tables.show(statement, places, warehouse)
    if first == "CALL":
        return call(statement, places, warehouse)
    if first == "EXPLAIN":
        return _explained(statement.behind(1 + (statement.word(1) in _HOW_TO_EXPLAIN)), places)
    if first == "ALTER":
        return tables.alter_named(statement, places, warehouse)
    if first in ("DESCRIBE", "DESC"):
        return tables.describe(statement, places)
    tree = statement.parse()
    for kind, verb in _VERBS.items():
        if isinstance(tree, kind):
            return verb(statement, tree, places, how)
    if isinstance(tree, exp.Create) and warehouse is not None:
        return tables.create_table(statement, tree, places, warehouse)
    if isinstance(tree, exp.Drop) and warehouse is not None:
        return tables.drop_named(statement, tree, warehouse)
    if isinstance(tree, exp.TruncateTable):
        return tables.truncate(statement, tree, places, how)
    if isinstance(tree, exp.Comment):
        return tables.comment_on(statement, tree, places)
    if _is_query(tree):
        return Query(statement, tree, places).result()
    raise statement.error(f"statements are {_KINDS}")


def is_verb(statement: Statement) -> bool:
    """Return True for INSERT, UPDATE, DELETE, MERGE INTO and CREATE TABLE AS, whose result has no rows."""
    if statement.word(0) not in ("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "WITH"):
        return False
    tree = statement.parse()
    return type(tree) in _VERBS or (isinstance(tree, exp.Create) and tree.expression is not None)


def _is_query(tree: Node) -> bool:
    """Return True for what has rows: SELECT, UNION, VALUES."""
    return isinstance(tree, (exp.Query, exp.Values))


def _explained(statement: Statement, places: Places) -> QueryResult:
    """Explain a query, or a verb by the query that it reads with; nothing is written."""
    tree = statement.parse()
    if _is_query(tree):
        lines = Query(statement, tree, places).explain()
    elif type(tree) in _VERBS:
        lines = verbs.explain_verb(statement, tree, places)
    else:
        raise statement.error("EXPLAIN takes a query, INSERT, UPDATE, DELETE or MERGE INTO")
    return QueryResult.of(pa.table({"plan": pa.array(lines.rstrip().split("\n"), pa.string())}))
