"""INSERT, UPDATE, DELETE, MERGE INTO, ALTER TABLE and CALL in Spark, which can do none of them with a Python source of its own.

An INSERT is an upsert of a frame in Spark's tasks. Spark computes the source of a MERGE, which comes to this process, as do the
rows that an UPDATE changes; the stages of their batches run in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from lakeidx.api.sql.names import Places
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.run import run_among
from lakeidx.api.sql.statement import LakeidxSql, Statement, one_statement, statements
from lakeidx.api.sql.verbs import Insertion, VerbResult, Writing, merge, real_name
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.predicate.parse import LakeidxWhere
from lakeidx.spark.catalog_tables import place_of_name, quoted, refresh_names
from lakeidx.spark.datasource import FORMAT
from lakeidx.spark.frame_upsert import upsert
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.values import spark_schema

#: Statements by their first words.
KINDS = ("INSERT", "UPDATE", "DELETE", "MERGE INTO", "ALTER TABLE", "CALL")
_TREES = {"INSERT": exp.Insert, "UPDATE": exp.Update, "DELETE": exp.Delete, "MERGE": exp.Merge}


def is_change(query: str) -> bool:
    """Return True for a statement that is none of Spark's SELECT; one that cannot be read is taken for a SELECT."""
    try:
        first = statements(query)[0]
        if first.word(0) != "WITH":
            return first.word(0) in {k.split()[0] for k in KINDS}
        return isinstance(first.parse(), tuple(_TREES.values()))
    except InvalidInputError:
        return False


def run_change(spark: SparkSession, query: str) -> DataFrame:
    """Run a statement that changes a table of lakeidx; see `lakeidx.spark.sql`."""
    statement = one_statement(query)
    places = Places(_Catalog(spark), _Frames(spark))
    tree = None if statement.word(0) in ("CALL", "ALTER") else statement.parse()
    if isinstance(tree, exp.Insert):
        done: VerbResult | QueryResult = _insert(spark, statement, tree, places)
    elif isinstance(tree, exp.Merge):
        done = merge(
            statement, tree, places, Writing(SparkRunner(spark)), lambda source: _frame(spark, source).toArrow()
        )
    else:
        done = run_among(statement, places, None, Writing(SparkRunner(spark)))
    if isinstance(done, QueryResult):
        return _as_frame(spark, done.to_arrow())
    counts = {"inserted": done.inserted, "updated": done.updated, "deleted": done.deleted, "upserted": done.upserted}
    if tree is not None and done.batch is not None and not isinstance(tree, exp.Insert):
        refresh_names(spark, places.table(statement, tree.this).uri)
    return _as_frame(spark, pa.table({n: [v] for n, v in counts.items()}))


def _as_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows)


class _Catalog:
    """Tables of lakeidx by their path, or by their name in Spark's catalog."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def open(self, parts: Sequence[str]) -> Table:
        if len(parts) == 2 and parts[0].lower() == FORMAT and "/" in parts[1]:
            return Table.open(parts[1])
        place = place_of_name(self._spark, parts)
        if place is None:
            raise NotFoundError(
                f"{'.'.join(parts)} is no table of lakeidx in Spark's catalog; by its path: lakeidx.`/lake/db.db/table`"
            )
        return Table.open(place)

    def system(self, name: str) -> pa.Table | None:
        return None


class _Frames(Mapping[str, Any]):
    """Views and tables of the session that are none of lakeidx, by their names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __contains__(self, name: object) -> bool:
        parts = str(name).split(".")
        written = ".".join(map(quoted, parts))
        known = "/" not in str(name) and self._spark.catalog.tableExists(written)
        return bool(known) and place_of_name(self._spark, parts) is None

    def __getitem__(self, name: str) -> pa.Table:
        return self._spark.table(".".join(map(quoted, name.split(".")))).toArrow()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _frame(spark: SparkSession, query: Any) -> DataFrame:
    """Return the rows of a part of a statement, which Spark computes with scans that get columns and conditions."""
    from lakeidx.spark.statements.select import sql

    return sql(spark, str(query.sql(dialect=LakeidxSql)))


def _insert(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Upsert the rows of an INSERT, or replace partitions by them, in Spark's tasks."""
    parts = Insertion.of(statement, tree)
    table = places.table(statement, parts.table)
    fields = table.schema.fields
    frame = _frame(spark, parts.query)
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
