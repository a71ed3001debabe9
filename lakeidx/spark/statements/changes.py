"""Statements that change tables or tell about them, in Spark: what it does not do with a Python source, or by a table's path.

An INSERT is an upsert of a frame, the other verbs are those of `lakeidx.spark.LakeTable`: rows are computed, joined and written in
Spark's tasks, and none comes to this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from lakeidx.api.merge import clause_of
from lakeidx.api.sql.names import Places
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.run import run_among
from lakeidx.api.sql.statement import WITH, LakeidxSql, Statement, one_statement, statements
from lakeidx.api.sql.tables import NewTable, dropped_if_empty, result_of
from lakeidx.api.sql.verbs import (
    Insertion,
    Merging,
    VerbResult,
    Writing,
    assignments_of,
    changed_table,
    query_of_keys,
    real_name,
    unqualified,
    values_to_set,
)
from lakeidx.api.table import Table
from lakeidx.api.warehouse import drop_table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.predicate.parse import LakeidxWhere
from lakeidx.spark.catalog_tables import place_of_name, quoted
from lakeidx.spark.datasource import FORMAT
from lakeidx.spark.frame_upsert import upsert
from lakeidx.spark.lake_table import LakeTable, MergeBuilder
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.values import arrow_schema, spark_schema
from lakeidx.types import column_specs

#: Statements by their first words.
KINDS = (
    "INSERT", "UPDATE", "DELETE", "MERGE INTO", "CREATE TABLE", "ALTER TABLE", "TRUNCATE TABLE", "DROP TABLE", "COMMENT ON", "SHOW",
    "DESCRIBE", "CALL",
)  # fmt: skip
_VERB_WORDS = ("INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE", "DROP")


def is_change(query: str) -> bool:
    """Return True for a statement that is none of Spark's SELECT; one that cannot be read is taken for a SELECT."""
    try:
        first = statements(query)[0]
        if first.word(0) != "WITH":
            return first.word(0) in {"DESC", *(k.split()[0] for k in KINDS)}
        return isinstance(first.parse(), tuple(_VERBS))
    except InvalidInputError:
        return False


def run_change(spark: SparkSession, query: str, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Run a statement that changes a table of lakeidx, or is about one; see `lakeidx.spark.sql`."""
    statement = one_statement(query)
    places = Places(_Catalog(spark), sources)
    tree = statement.parse() if statement.word(0) in _VERB_WORDS else None
    verb = next((v for kind, v in _VERBS.items() if isinstance(tree, kind)), None)
    if verb is None:
        done = run_among(statement, places, None, Writing(SparkRunner(spark)))
        assert isinstance(done, QueryResult)
        return spark.createDataFrame(done.to_arrow())
    result = verb(spark, statement, tree, places)
    if isinstance(result, QueryResult):
        return spark.createDataFrame(result.to_arrow())
    counts = {
        "inserted": result.inserted,
        "updated": result.updated,
        "deleted": result.deleted,
        "upserted": result.upserted,
    }
    return spark.createDataFrame(pa.table({n: [v] for n, v in counts.items()}))


class _Catalog:
    """Tables of lakeidx by their path, or by their name in Spark's catalog."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def open(self, parts: Sequence[str]) -> Table:
        if _is_path(parts):
            return Table.open(parts[1])
        place = place_of_name(self._spark, parts)
        if place is None:
            raise NotFoundError(
                f"{'.'.join(parts)} is no table of lakeidx in Spark's catalog; by its path: lakeidx.`/lake/db.db/table`"
            )
        return Table.open(place)

    def system(self, name: str) -> pa.Table | None:
        return None


def _is_path(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() == FORMAT and "/" in parts[1]


def _frame(spark: SparkSession, query: Any, places: Places, committed: str | None = None) -> DataFrame:
    """Return the rows of a part of a statement, which Spark computes with scans that get columns and conditions."""
    from lakeidx.spark.statements.select import select

    return select(spark, _text(query), committed, places.given)


def _text(node: Any) -> str:
    return str(node.sql(dialect=LakeidxSql))


def _merge(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Join a source with a table, in Spark's tasks."""
    parts = Merging.of(statement, tree)
    table = places.table(statement, changed_table(statement, tree.this))
    mine, other = parts.aliases
    clauses = [clause_of(when, LakeidxSql) for when in parts.clauses(statement, table.schema.field_names)]
    source = partial(_frame, spark, parts.source, places)
    made = LakeTable(spark, table.uri, mine).merge(lambda: source().alias(other), _text(parts.on))
    for clause in clauses:
        made.with_clause(clause)
    return VerbResult.of(made.execute())


def _update(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Change rows, in Spark's tasks; of a subquery, by the keys that it leads to."""
    statement.only(tree, ("this", "expressions", "where", WITH), "UPDATE")
    table = places.table(statement, changed_table(statement, tree.this))
    assigned = assignments_of(statement, tree, table.schema)
    if _has_subquery(tree):
        values = values_to_set(assigned)
        sets = {n: f"lakeidx_source.{v.alias}" for n, v in zip(assigned, values, strict=True)}
        return VerbResult.of(_by_keys(spark, tree, table, places, values).whenMatchedUpdate(set=sets).execute())
    sets = {n: _text(unqualified(v, tree.this)) for n, v in assigned.items()}
    return VerbResult.of(LakeTable(spark, table.uri).update(_condition(tree), sets))


def _delete(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Delete rows, in Spark's tasks; of a subquery, by the keys that it leads to."""
    statement.only(tree, ("this", "where", WITH), "DELETE")
    table = places.table(statement, changed_table(statement, tree.this))
    if _has_subquery(tree):
        return VerbResult.of(_by_keys(spark, tree, table, places).whenMatchedDelete().execute())
    return VerbResult.of(LakeTable(spark, table.uri).delete(_condition(tree)))


def _create(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult | QueryResult:
    """Make a table by its path, and upsert the rows of a query in Spark's tasks."""
    new = NewTable.of(statement, tree, places)
    if not _is_path(new.name):
        raise statement.error(
            "a table is made by its path, CREATE TABLE lakeidx.`/lake/db.db/table`, and a name of it by spark.sql",
            tree.this,
        )
    path = new.name[1]
    if new.exists and _is_there(path):
        return result_of({"result": [f"{path} is there"]})
    if new.query is None:
        Table.create(path, new.spec, exist_ok=new.exists)
        return result_of({"result": [f"created {path}"]})
    frame = _frame(spark, new.query, places)
    made = Table.create(path, {**new.spec, "fields": column_specs(arrow_schema(frame.schema))})
    with dropped_if_empty(made):
        return VerbResult.of(upsert(frame, path))


def _drop(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> QueryResult:
    """Drop a table by its path."""
    statement.only(tree, ("kind", "exists", "purge", "tables", "this"), "DROP TABLE")
    (node,) = tree.args.get("tables") or [tree.this]
    parts = [p.name for p in node.parts]
    if tree.args.get("kind") != "TABLE" or not _is_path(parts):
        raise statement.error(
            "a table is dropped by its path, DROP TABLE lakeidx.`/lake/db.db/table`; spark.sql drops names", node
        )
    if tree.args.get("exists") and not _is_there(parts[1]):
        return result_of({"result": [f"{parts[1]} is not there"]})
    drop_table(places.table(statement, node))
    return result_of({"result": [f"dropped {parts[1]}"]})


def _is_there(path: str) -> bool:
    try:
        Table.open(path)
    except NotFoundError:
        return False
    return True


def _has_subquery(tree: Any) -> bool:
    return any(
        part.find(exp.Query) is not None for part in (*tree.expressions, *filter(None, [tree.args.get("where")]))
    )


def _condition(tree: Any) -> str | None:
    where = tree.args.get("where")
    return None if where is None else _text(unqualified(where.this, tree.this))


def _by_keys(spark: SparkSession, tree: Any, table: Table, places: Places, values: Sequence[Any] = ()) -> MergeBuilder:
    """Begin a merge with the keys that a verb's condition holds for, and values of their rows."""
    query, keys = query_of_keys(tree, table.schema, values), table.schema.primary_keys
    on = " AND ".join(f"lakeidx_target.{quoted(k)} = lakeidx_source.{quoted(k)}" for k in keys)
    target = LakeTable(spark, table.uri, "lakeidx_target")
    return target.merge(lambda: _frame(spark, query, places, table.uri).alias("lakeidx_source"), on)


def _insert(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Upsert the rows of an INSERT, or replace partitions by them, in Spark's tasks."""
    parts = Insertion.of(statement, tree)
    table = places.table(statement, parts.table)
    fields = table.schema.fields
    frame = _frame(spark, parts.query, places)
    names = parts.targets(statement, fields, frame.columns)
    types = {f.name: f.dataType for f in spark_schema(fields).fields}
    numbered = frame.toDF(*(f"c{n}" for n in range(len(names))))
    columns = [numbered[f"c{n}"].cast(types[name]).alias(name) for n, name in enumerate(names)]
    where = []
    for name, value in parts.fixed.items():
        real = real_name(name, fields)
        columns.append(F.expr(value.sql(dialect="spark")).cast(types[real]).alias(real))
        where.append(exp.EQ(this=exp.column(real, quoted=True), expression=value.copy()).sql(dialect=LakeidxWhere))
    options = {} if parts.overwrite else {"missing": "null"} if len(columns) < len(fields) else {}
    if parts.overwrite and where:
        options["where"] = " AND ".join(where)
    return VerbResult.of(upsert(numbered.select(*columns), table.uri, overwrite=parts.overwrite, options=options))


_VERBS = {
    exp.Create: _create,
    exp.Drop: _drop,
    exp.Insert: _insert,
    exp.Merge: _merge,
    exp.Update: _update,
    exp.Delete: _delete,
}
