"""Queries of statements: DuckDB computes them over Arrow scans, to which it hands down columns and conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError as NotInDuckdb

from lakeidx.api.sql.names import Places
from lakeidx.api.sql.statement import Node, Statement
from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.table.scan.table_scan import ArrowStream

#: Files that may stand in the place of a table, as in Spark: ``parquet.`folder/file.parquet` ``.
_READERS = {"parquet": "read_parquet", "csv": "read_csv", "json": "read_json_auto"}
#: What changes something, or makes a table: not in a query.
_NO_QUERY = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Into, exp.Command)
_BATCH_ROWS = 1 << 17


class QueryResult(ArrowStream):
    """Rows of a query, which is computed when they are read; an Arrow stream that DuckDB, Polars, pandas and others take.

    It can be read any number of times: the states that it reads were found when the statement began.
    """

    def __init__(self, arrow_schema: pa.Schema, read: Callable[[], pa.RecordBatchReader]) -> None:
        self._schema = arrow_schema
        self._read = read

    @classmethod
    def of(cls, rows: pa.Table) -> QueryResult:
        """Make a result of rows in memory."""
        return cls(rows.schema, rows.to_reader)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self._schema

    def batches(self) -> Iterator[pa.Table]:
        """Compute the rows, and yield them in tables of bounded size."""
        for batch in self.to_reader():
            yield pa.Table.from_batches([batch])

    def to_reader(self) -> pa.RecordBatchReader:
        """Compute the rows as a stream."""
        return self._read()

    def __repr__(self) -> str:
        return f"QueryResult({', '.join(f'{f.name} {f.type}' for f in self.arrow_schema)})"


class Query:
    """A query with what its names stand for, ready to run.

    tree        sqlglot's, of Spark's dialect; it is not changed
    committed   table of the tree that is read with what its next compaction makes visible
    """

    def __init__(self, statement: Statement, tree: Node, places: Places, *, committed: Node | None = None) -> None:
        self.statement = statement
        try:
            import duckdb
        except ImportError as error:
            raise InvalidInputError("SQL needs DuckDB: pip install 'lakeidx[sql]'") from error
        self._error = duckdb.Error
        self._connection = duckdb.connect()
        # Times with a zone are as UTC says, wherever this runs; and no name stands for a variable of this program.
        self._connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
        self._read_tables: list[Any] = []
        for part in tree.find_all(*_NO_QUERY):
            raise statement.error(f"a query has no {part.key.upper()} in it", part)
        marked = None if committed is None else id(committed)
        tree, committed = _copy(tree, marked)
        for hint in list(tree.find_all(exp.Hint)):
            hint.pop()
        self._bind(tree, places, committed)
        self.sql = self._in_duckdb(tree)

    def _bind(self, tree: Node, places: Places, committed: Node | None) -> None:
        """Register what the tables of a query stand for, and let it name them so."""
        local = {c.alias_or_name.lower() for c in tree.find_all(exp.CTE)}
        spaces: dict[str, set[str]] = {}
        found = [t for t in tree.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
        for number, table in enumerate(found):
            if not table.db and table.name.lower() in local:
                continue
            name, space = table.name, table.db
            if space.lower() in _READERS and not table.catalog and ("/" in name or "." in name):
                table.set("this", exp.Anonymous(this=_READERS[space.lower()], expressions=[exp.Literal.string(name)]))
            else:
                hidden = f"lakeidx_{number}"
                rows = places.rows(self.statement, table, committed=table is committed)
                self._connection.register(hidden, rows)
                self._read_tables.append(rows)
                table.set("this", exp.to_identifier(hidden, quoted=True))
                table.set("version", None)
                if not table.alias:
                    spaces.setdefault(name.lower(), set()).add(space.lower())
                    table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
            table.set("db", None)
            table.set("catalog", None)
        _drop_databases(self.statement, tree, spaces)

    def _in_duckdb(self, tree: Node) -> str:
        try:
            return str(tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE))
        except NotInDuckdb as error:
            raise self.statement.error(f"DuckDB, which computes queries, cannot do this: {error}") from None

    def relation(self, sql: str | None = None) -> Any:
        """Let DuckDB read the query, or another one that has it in it; nothing is computed."""
        with _Refusing(self):
            return self._connection.sql(sql or self.sql)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, which may be there twice."""
        return [str(n) for n in self.relation().columns]

    def explain(self) -> str:
        """Return DuckDB's plan, with the columns and conditions that each scan gets."""
        with _Refusing(self):
            return str(self._connection.sql(self.sql).explain())

    def result(self, sql: str | None = None) -> QueryResult:
        """Return the result, which is computed when it is read."""
        relation = self.relation(sql)
        with _Refusing(self):
            # No name is there twice, as DuckDB numbers them: a row as JSON has each once.
            schema = pa.schema([pa.field(f.name, f.type) for f in relation.limit(0).to_arrow_table().schema])

        def read() -> pa.RecordBatchReader:
            with _Refusing(self):
                reader = self.relation(sql).to_arrow_reader(_BATCH_ROWS)
            return pa.RecordBatchReader.from_batches(schema, self._read(reader, schema.names))

        return QueryResult(schema, read)

    def _read(self, reader: pa.RecordBatchReader, names: list[str]) -> Iterator[pa.RecordBatch]:
        while True:
            with _Refusing(self):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            # Columns of one name have numbers in the schema.
            yield batch.rename_columns(names)

    def as_error(self, error: BaseException) -> LakeIdxError | None:
        """Return DuckDB's error as one of lakeidx; None for one that is none of DuckDB's."""
        if isinstance(error, LakeIdxError) or not isinstance(error, (self._error, pa.ArrowException)):
            return None
        for rows in self._read_tables:
            if getattr(rows, "error", None) is not None:
                # A scan has failed, and not the query.
                found: LakeIdxError = rows.error
                return found
        reason = " ".join(re.sub(r"\s*(LINE \d+:|Candidate bindings).*", "", str(error), flags=re.DOTALL).split())
        return self.statement.about(reason)


class _Refusing:
    """Turns an error of DuckDB into one of lakeidx that names line and column."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        found = None if error is None else self._query.as_error(error)
        if found is not None:
            raise found from None


def _copy(tree: Node, marked: int | None) -> tuple[Node, Node | None]:
    """Return a copy of a tree, and what became of one of its nodes."""
    nodes = list(tree.walk())
    copy = tree.copy()
    twin = next((c for n, c in zip(nodes, copy.walk(), strict=True) if id(n) == marked), None)
    return copy, twin


def _drop_databases(statement: Statement, tree: Node, spaces: dict[str, set[str]]) -> None:
    """Let columns name their tables without the database, ``shop.orders.id``; refuse what would then be two tables' column."""
    for column in tree.find_all(exp.Column):
        named = spaces.get(column.table.lower(), set())
        if not column.db or column.db.lower() not in named:
            continue
        if len(named) > 1:
            raise statement.error(f"tables of two databases are named {column.table}: give them aliases", column)
        column.set("db", None)
