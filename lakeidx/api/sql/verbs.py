"""INSERT, INSERT OVERWRITE, UPDATE, DELETE and MERGE INTO, each by the call of `lakeidx.Table` that does it.

An INSERT upserts by key. What a condition says that lakeidx does not test itself, and every subquery, DuckDB computes: of the keys
that it finds an UPDATE is a merge, a DELETE one by keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lakeidx.api.expressions import as_column, cast_sql, quoted
from lakeidx.api.merge import clause_of
from lakeidx.api.sql.conditions import where_text
from lakeidx.api.sql.names import Places
from lakeidx.api.sql.query import Query
from lakeidx.api.sql.statement import WITH, Node, Statement
from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.predicate.parse import LakeidxWhere
from lakeidx.results import Result
from lakeidx.types import Field, to_arrow

#: Arguments of the calls that write: `runner`, where the stages of a verb run, and `limits`, beyond which its batch is held.
Writing: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class VerbResult(Result):
    """Rows that a verb has changed.

    upserted   rows of an INSERT of which nobody looked whether their keys were known: tables of fixed buckets
    batch      that wrote them; None when there was nothing to write
    """

    inserted: int
    updated: int
    deleted: int
    upserted: int = 0
    batch: BatchResult | None = None

    @classmethod
    def of(cls, batch: BatchResult | None, *, known: bool = False) -> VerbResult:
        """Make the result of a batch; `known`: all of its rows replace others."""
        if batch is None:
            return cls(0, 0, 0)
        if known:
            return cls(0, batch.inserts + batch.updates + batch.upserts, batch.deletes, batch=batch)
        return cls(batch.inserts, batch.updates, batch.deletes, batch.upserts, batch)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers, and the snapshots that have the rows."""
        more = {} if self.batch is None else {"snapshots": list(self.batch.snapshots)}
        counts = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        return {**counts, **({"upserted": self.upserted} if self.upserted else {}), **more}

    def __str__(self) -> str:
        return ", ".join(f"{n:,} {name}" for name, n in self.as_dict().items() if isinstance(n, int))

    def __repr__(self) -> str:
        return f"VerbResult({self})"


# -- INSERT --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Insertion:
    """An INSERT taken apart.

    table     the node of its table
    columns   that values are given for, None = all; by_name: by the names of the query's columns
    fixed     partition columns with one value for all rows, as SQL literals
    """

    table: Node
    query: Node
    overwrite: bool
    columns: tuple[str, ...] | None
    by_name: bool
    fixed: Mapping[str, Node]

    @classmethod
    def of(cls, statement: Statement, tree: Node) -> Insertion:
        """Take an INSERT apart; InvalidInputError for clauses that are not understood."""
        known = ("this", "expression", "overwrite", "by_name", WITH)
        statement.only(tree, known, "INSERT")
        target, columns = tree.this, None
        if isinstance(target, exp.Schema):
            target, columns = target.this, tuple(c.name for c in target.expressions)
        if not isinstance(target, exp.Table) or tree.expression is None:
            raise statement.error("INSERT INTO takes a table, then VALUES or a query", tree)
        partition = target.args.get("partition")
        statement.only(target, ("this", "db", "catalog", "partition"), "INSERT INTO")
        if tree.args.get("by_name") and columns is not None:
            raise statement.error("give BY NAME or a list of columns, not both", target)
        fixed = {}
        for part in () if partition is None else partition.expressions:
            if isinstance(part, exp.EQ) and isinstance(part.right, exp.Literal):
                fixed[part.left.name] = part.right
            elif not isinstance(part, (exp.Column, exp.Identifier)):
                raise statement.error("PARTITION takes columns, and literals: PARTITION (day = '2026-11-01')", part)
        query = tree.expression.copy()
        if tree.args.get(WITH) is not None:
            if not isinstance(query, exp.Query):
                raise statement.error("WITH stands before a query", tree.args[WITH])
            query = _with_of(tree, exp.select("*").from_(query.subquery("lakeidx_query")))
        return cls(target, query, bool(tree.args.get("overwrite")), columns, bool(tree.args.get("by_name")), fixed)

    def targets(self, statement: Statement, fields: Sequence[Field], given: Sequence[str]) -> list[str]:
        """Return the table's column that each column of the query is for.

        given    names of the query's columns
        errors   InvalidInputError for unknown ones, and for more or fewer than there are
        """
        known = {f.name.lower(): f.name for f in fields}
        wanted = given if self.by_name else self.columns
        for name in (*(wanted or ()), *self.fixed):
            if name.lower() not in known:
                raise statement.error(f"the table has no column {name!r}; {did_you_mean(name, known.values())}",
                                      statement.find([name]))  # fmt: skip
        fixed = {known[n.lower()] for n in self.fixed}
        names = (
            [known[n.lower()] for n in wanted] if wanted is not None else [n for n in known.values() if n not in fixed]
        )
        if len(names) != len(given):
            raise statement.error(f"{len(names)} columns take {len(given)} values: {', '.join(names)}", self.query)
        twice = {n for n in names if names.count(n) > 1} | (fixed & set(names))
        if twice:
            raise statement.error(f"column {min(twice)} is there twice", statement.find(twice))
        return names


def insert(statement: Statement, tree: Node, places: Places, how: Writing) -> VerbResult:
    """Run INSERT INTO, which upserts by key, or INSERT OVERWRITE, which replaces the partitions that the rows are of."""
    parts = Insertion.of(statement, tree)
    table = places.table(statement, parts.table)
    query = Query(statement, parts.query, places)
    fields = table.schema.fields
    names = parts.targets(statement, fields, query.columns)
    rows = rows_for(query, names, {f.name: f for f in fields}, parts.fixed)
    if not parts.overwrite:
        missing = "refuse" if len(rows.schema.names) == len(fields) else "null"
        return VerbResult.of(table.upsert(rows, missing=missing, **how))
    partitioned = bool(table.schema.partition_keys)
    where = " AND ".join(
        exp.EQ(this=exp.column(real_name(n, fields), quoted=True), expression=v.copy()).sql(dialect=LakeidxWhere)
        for n, v in parts.fixed.items()
    )
    batch = table.overwrite(rows, whole_table=not partitioned, where=where or None, **how)
    return VerbResult.of(batch)


def _with_of(tree: Node, query: Node) -> Node:
    """Let a query see what a statement has in its WITH."""
    if tree.args.get(WITH) is not None:
        query.set(WITH, tree.args[WITH].copy())
    return query


def real_name(name: str, fields: Sequence[Field]) -> str:
    """Return a column's name as the table has it, of one in any case."""
    return next(f.name for f in fields if f.name.lower() == name.lower())


def rows_for(
    query: Query, names: Sequence[str], fields: Mapping[str, Field], fixed: Mapping[str, Node] | None = None
) -> pa.RecordBatchReader:
    """Return the rows of a query for columns of a table, in their types, as a stream.

    names    the column that each column of the query is for, by position
    fixed    more columns, with a literal each
    """
    numbered = [f"c{n}" for n in range(len(names))]
    values = {name: quoted(number) for name, number in zip(names, numbered, strict=True)}
    values |= {real_name(n, list(fields.values())): v.sql(dialect="duckdb") for n, v in (fixed or {}).items()}
    columns = ", ".join(f"{cast_sql(sql, fields[n].type)} AS {quoted(n)}" for n, sql in values.items())
    found = query.result(f"SELECT {columns} FROM ({query.sql}) AS q({', '.join(map(quoted, numbered))})")  # noqa: S608 - made of a statement
    schema = pa.schema([(n, to_arrow(fields[n].type)) for n in found.arrow_schema.names])

    def read() -> Iterator[pa.RecordBatch]:
        for batch in found.to_reader():
            arrays = [as_column(batch.column(n), fields[n]) for n in schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, read())


# -- UPDATE, DELETE ----------------------------------------------------------------------------------------------------


def update(statement: Statement, tree: Node, places: Places, how: Writing) -> VerbResult:
    """Run an UPDATE."""
    statement.only(tree, ("this", "expressions", "where", WITH), "UPDATE")
    table = places.table(statement, changed_table(statement, tree.this))
    schema, assigned = table.schema, assignments_of(statement, tree, table.schema)
    where = _simple_where(tree, table)
    if where is not None and not any(v.find(exp.Query) for v in assigned.values()):
        sets = {n: unqualified(v, tree.this).sql(dialect="duckdb") for n, v in assigned.items()}
        return VerbResult.of(_batch_of(table.update(sets, where=where or None, **how)), known=True)
    values = values_to_set(assigned)

    def changed() -> pa.Table:
        query = _keys_of(statement, tree, table, places, values)
        names = [*schema.primary_keys, *assigned]
        rows = rows_for(query, names, schema.fields_by_name).read_all()
        return rows.rename_columns([*schema.primary_keys, *(v.alias for v in values)])

    merge = table.merge(changed, on=list(schema.primary_keys))
    merge.when_matched_update({n: f"source.{v.alias}" for n, v in zip(assigned, values, strict=True)})
    return VerbResult.of(merge.execute(**how), known=True)


def values_to_set(assigned: Mapping[str, Node]) -> list[Node]:
    """Return what columns become as columns of a query, under names of their own."""
    return [v.copy().as_(f"lakeidx_set_{n}") for n, v in enumerate(assigned.values())]


def assignments_of(statement: Statement, tree: Node, schema: TableSchema) -> dict[str, Node]:
    """Return what the SET of an UPDATE gives each column."""
    assigned = {}
    for part in tree.expressions:
        if not isinstance(part, exp.EQ) or not isinstance(part.left, exp.Column):
            raise statement.error("SET takes column = expression", part)
        name = unqualified(part.left, tree.this).name
        if name.lower() not in {n.lower() for n in schema.field_names}:
            raise statement.error(f"the table has no column {name!r}; {did_you_mean(name, schema.field_names)}", part)
        real = real_name(name, schema.fields)
        if real in assigned:
            raise statement.error(f"column {real} is set twice", part)
        assigned[real] = part.right
    return assigned


def delete(statement: Statement, tree: Node, places: Places, how: Writing) -> VerbResult:
    """Run a DELETE."""
    statement.only(tree, ("this", "where", WITH), "DELETE")
    table = places.table(statement, changed_table(statement, tree.this))
    where = _simple_where(tree, table)
    if where is not None:
        return VerbResult.of(_batch_of(table.delete(where=where or "TRUE", **how)))
    query = _keys_of(statement, tree, table, places, [])
    keys = rows_for(query, table.schema.primary_keys, table.schema.fields_by_name)
    return VerbResult.of(_batch_of(table.delete(keys, **how)))


def _batch_of(result: Any) -> BatchResult | None:
    assert result is None or isinstance(result, BatchResult)
    return result


def changed_table(statement: Statement, node: Node) -> Node:
    """Return the table that a verb changes; InvalidInputError for what is none."""
    if not isinstance(node, exp.Table):
        raise statement.error("the name of a table must stand here", node)
    statement.only(node, ("this", "db", "catalog", "alias"), "the table that is changed")
    return node


def unqualified(node: Node, target: Node) -> Node:
    """Return a copy of an expression over one table whose columns do not name it."""
    copy = node.copy()
    for column in list(copy.find_all(exp.Column)):
        parts = [p for p in column.parts if not isinstance(p, exp.Star)]
        above = [p.name.lower() for p in parts[:-1]]
        own = [target.alias_or_name.lower()]
        if not target.alias and above[:2] == [target.db.lower(), *own]:
            own = above[:2]
        if above[: len(own)] == own and len(parts) == len(column.parts):
            rest = [p.copy() for p in parts[len(own) :]]
            bare = exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(rest), strict=False)))
            if column is copy:
                return bare
            column.replace(bare)
    return copy


def _simple_where(tree: Node, table: Table) -> str | None:
    """Return the condition as a scan takes it, "" for none; None for one that DuckDB has to test."""
    where, target = tree.args.get("where"), tree.this
    if where is None:
        return ""
    names = {"", target.alias_or_name.lower()}
    return where_text(where.this, names, table.schema) if not any(c.db for c in where.find_all(exp.Column)) else None


def _keys_of(statement: Statement, tree: Node, table: Table, places: Places, values: Sequence[Node]) -> Query:
    query = query_of_keys(tree, table.schema, values)
    return Query(statement, query, places, committed=query.find(exp.From).this)


def query_of_keys(tree: Node, schema: TableSchema, values: Sequence[Node] = ()) -> Node:
    """Return the query of the keys that the condition of a verb holds for, and of values of their rows."""
    if not schema.primary_keys:
        raise InvalidInputError("rows can be changed in tables with a primary key only")
    target = tree.this.copy()
    keys = [exp.column(k, table=target.alias or None, quoted=True) for k in schema.primary_keys]
    query = exp.select(*keys, *values).from_(target)
    if tree.args.get("where") is not None:
        query.set("where", tree.args["where"].copy())
    return _with_of(tree, query)


# -- MERGE ---------------------------------------------------------------------------------------------------------------


def merge(statement: Statement, tree: Node, places: Places, how: Writing) -> VerbResult:
    """Run a MERGE INTO."""
    parts = Merging.of(statement, tree)
    table = places.table(statement, changed_table(statement, tree.this))
    names = {n.lower(): n for n in table.schema.field_names}

    def source() -> pa.Table:
        rows = Query(statement, parts.source, places).result().to_arrow()
        return rows.rename_columns([names.get(n.lower(), n) for n in rows.column_names])

    made = table.merge(source, on=str(parts.on.sql(dialect="duckdb")), aliases=parts.aliases)
    for when in parts.clauses(statement, table.schema.field_names):
        made.with_clause(clause_of(when))
    batch = made.execute(**how)
    if batch is None or made.kinds is None:
        return VerbResult.of(batch)
    inserted, updated, deleted = (made.kinds.get(kind, 0) for kind in ("+I", "+U", "-D"))
    return VerbResult(inserted, updated, deleted, batch=batch)


@dataclass(frozen=True, slots=True)
class Merging:
    """A MERGE INTO taken apart.

    source    the query of its source
    aliases   of the table and of the source
    """

    source: Node
    on: Node
    aliases: tuple[str, str]
    whens: tuple[Node, ...]

    @classmethod
    def of(cls, statement: Statement, tree: Node) -> Merging:
        """Take a MERGE apart; InvalidInputError for clauses that are not understood."""
        statement.only(tree, ("this", "using", "on", "whens", WITH), "MERGE")
        using = tree.args["using"]
        if tree.args.get("on") is None or tree.args.get("whens") is None:
            raise statement.error("MERGE INTO t USING s ON condition WHEN ... takes all of these", tree)
        for part in (tree.args["on"], tree.args["whens"]):
            inner = part.find(exp.Query)
            if inner is not None:
                raise statement.error(
                    "conditions and values of a MERGE have no subqueries: put them into its source", inner
                )
        query = _with_of(tree, exp.select("*").from_(using.copy()))
        target, source = tree.this.alias_or_name, using.alias_or_name
        if not source:
            raise statement.error("the source of a MERGE needs an alias", using)
        if target.lower() == source.lower():
            raise statement.error(f"table and source are both named {target}: give one an alias", using)
        bare = [w.copy() for w in tree.args["whens"].expressions]
        on = tree.args["on"].copy()
        for part in (on, *bare):
            for column in part.find_all(exp.Column):
                for node, alias in ((tree.this, target), (using, source)):
                    if column.db and (column.db.lower(), column.table.lower()) == (
                        node.args.get("db") and node.db.lower(),
                        alias.lower(),
                    ):
                        column.set("db", None)
                    if not column.db and column.table.lower() == alias.lower():
                        column.set("table", exp.to_identifier(alias, quoted=True))
        return cls(query, on, (target, source), tuple(bare))

    def clauses(self, statement: Statement, columns: Sequence[str]) -> list[Node]:
        """Return the clauses, whose columns are named as the table's are; errors name the place."""
        known = {n.lower(): n for n in columns}
        out = []
        for when in self.whens:
            statement.only(when, ("matched", "source", "condition", "then"), "WHEN")
            then = when.args["then"]
            if isinstance(then, exp.Insert) and then.this is None and then.expression is not None:
                then.set("this", exp.Tuple(expressions=[exp.column(n, quoted=True) for n in columns]))
            named = [e.left for e in then.expressions if isinstance(e, exp.EQ)] if isinstance(then, exp.Update) else (
                list(then.this.expressions) if isinstance(then, exp.Insert) and then.this is not None else [])  # fmt: skip
            for column in named:
                real = known.get(column.name.lower())
                if real is None:
                    said = f"the table has no column {column.name!r}; {did_you_mean(column.name, columns)}"
                    raise statement.error(said, column)
                identifier = exp.to_identifier(real, quoted=True)
                column.replace(exp.Column(this=identifier) if isinstance(column, exp.Column) else identifier)
            try:
                clause_of(when)
            except InvalidInputError as error:
                raise statement.error(error.message, when) from None
            out.append(when)
        return out


# -- EXPLAIN -----------------------------------------------------------------------------------------------------------


def explain_verb(statement: Statement, tree: Node, places: Places) -> str:
    """Say how a verb reads: the condition that a scan takes, or DuckDB's plan of what it computes; nothing is written."""
    if isinstance(tree, exp.Insert):
        parts = Insertion.of(statement, tree)
        places.table(statement, parts.table)
        return Query(statement, parts.query, places).explain()
    table = places.table(statement, changed_table(statement, tree.this))
    if isinstance(tree, exp.Merge):
        return Query(statement, Merging.of(statement, tree).source, places).explain()
    where = _simple_where(tree, table)
    if where is not None:
        return f"scan of {table.uri}: {where or 'every row'}"
    return _keys_of(statement, tree, table, places, []).explain()
