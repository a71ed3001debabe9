"""SQL statements in Spark: SELECT with its columns and conditions given to the tables that it reads, and those that change tables.

    sql(spark, "SELECT sum(total) FROM orders WHERE day = '2026-11-02'")
    sql(spark, "SELECT count(*) FROM lakeidx.`/lake/shop.db/orders` VERSION AS OF 3")

Spark gives a Python source no columns, and its conditions only at the risk of wrong rows (`lakeidx.spark.datasource`). So the
statement is read here, and every name of a table of lakeidx becomes a frame of `read_table` with what the statement surely needs.
Spark runs the whole statement all the same: a condition that is not understood here is only not given to the table.

Spark does not change tables of a Python source, or tell about them by their path, so that is done here. An INSERT is an upsert of a
frame, the other verbs are those of `lakeidx.spark.LakeTable`; rows are computed, joined and written in Spark's tasks, and none
comes to this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from lakeidx.api.merge import clause_of
from lakeidx.api.sql.conditions import where_text
from lakeidx.api.sql.names import Places
from lakeidx.api.sql.query import QueryResult
from lakeidx.api.sql.run import run_among
from lakeidx.api.sql.statement import WITH, LakeidxSql, Statement, one_statement, statements
from lakeidx.api.sql.tables import NewTable, dropped_if_empty, result_of
from lakeidx.api.sql.verbs import (
    Insertion,
    Merging,
    VerbResult,
    assignments_of,
    changed_table,
    query_of_keys,
    real_name,
    unqualified,
    values_to_set,
)
from lakeidx.api.table import Table
from lakeidx.api.warehouse import Warehouse, drop_table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate.parse import LakeidxWhere
from lakeidx.spark.catalog_tables import place_of_name, quoted
from lakeidx.spark.datasource import FORMAT, read_table
from lakeidx.spark.frame_upsert import upsert
from lakeidx.spark.lake_table import LakeTable, MergeBuilder
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.runner import SparkRunner
from lakeidx.spark.table_reader import ReadState
from lakeidx.spark.values import arrow_schema, spark_schema
from lakeidx.table.scan.layout import Layout
from lakeidx.table.system.of_warehouse import WAREHOUSE_TABLES
from lakeidx.types import column_specs

Node = Any  # a node of sqlglot's tree; the name of their common class differs between releases

_TIME_TRAVEL = {"VERSION": "versionAsOf", "TIMESTAMP": "timestampAsOf"}
_ESCAPES = "\\"
_EXPLAIN = "EXPLAIN"


def sql(spark: SparkSession, query: str, *, sources: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Run a statement over tables of lakeidx, and others: a SELECT with columns and conditions pushed into the former, or a verb.

    query    SELECT (with WITH, UNION, joins and subqueries); INSERT INTO (which upserts by key), INSERT OVERWRITE, UPDATE, DELETE,
             MERGE INTO, CREATE and DROP TABLE (by its path), ALTER and TRUNCATE TABLE, COMMENT ON, SHOW, DESCRIBE, CALL, each for a
             table of lakeidx. Such a table is a name of the session's catalog, or ``lakeidx.`/lake/shop.db/orders` ``. In a SELECT
             ``$files`` … and ``$branch_NAME`` may end either, and ``VERSION AS OF`` an id or a tag, or ``TIMESTAMP AS OF`` an ISO
             time, follow; ``lakeidx.`/lake/sys.tables` `` is a system table of a warehouse. Other names are those of the session:
             views, tables of Spark
    sources  frames that it may name as a table, by name
    returns  a frame: of a SELECT its rows, and ``explain(True)`` says what each table reads; of a verb one row with ``inserted``,
             ``updated``, ``deleted`` and ``upserted`` (rows of keys of which nobody looked whether they were known)
    errors   InvalidInputError for another statement, or one that cannot be read; those of the verbs name line and column
    """
    given = sources or {}
    wrong = next((n for n, frame in given.items() if not isinstance(frame, DataFrame)), None)
    if wrong is not None:
        raise InvalidInputError(
            f"source {wrong} is a {type(given[wrong]).__name__}: spark.createDataFrame makes a frame of it"
        )
    return _run_change(spark, query, given) if _is_change(query) else select(spark, query, sources=given)


def select(
    spark: SparkSession, query: str, committed: str | None = None, sources: Mapping[str, DataFrame] | None = None
) -> DataFrame:
    """Run a SELECT.

    committed   directory of a table that is read with what readers see after a compaction, for verbs
    errors      InvalidInputError for another statement, or one that cannot be read
    """
    if query.lstrip()[: len(_EXPLAIN)].upper() == _EXPLAIN:
        raise InvalidInputError(
            "EXPLAIN is a method of the frame of a query: lakeidx.spark.sql(spark, query).explain(True)"
        )
    try:
        tokens = sqlglot.tokenize(query, read=LakeidxSql)
        (tree,) = sqlglot.parse(query, read=LakeidxSql)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else "more than one statement"
        raise InvalidInputError(f"lakeidx.spark.sql cannot read the statement ({said}); spark.sql runs it") from None
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise InvalidInputError(f"lakeidx.spark.sql takes SELECT, {', '.join(KINDS)}; spark.sql runs the others")
    # Texts are read here as Spark reads them, but for some of its escapes.
    words = {t.text.lower() for t in tokens} | ({_ESCAPES} if _ESCAPES in query else set())
    local = {c.alias_or_name.lower() for c in tree.find_all(exp.CTE)}
    frames: dict[str, DataFrame] = {}
    text, done = "", 0
    found = [t for t in tree.find_all(exp.Table) if t.parts and t.parts[0].meta]
    for table in sorted(found, key=lambda t: t.parts[0].meta["start"]):
        if not table.db and table.name.lower() in local:
            continue
        given = (sources or {}).get(".".join(p.name for p in table.parts))
        frame = _frame(spark, table, words, committed) if given is None else given
        if frame is None:
            continue
        name = f"lakeidx_{len(frames)}"
        frames[name] = frame
        text += _escaped(query[done : table.parts[0].meta["start"]]) + "{" + name + "}"
        done = _end(query, tokens, table)
        if not table.alias:
            text += f" AS `{table.name.rstrip('/').rpartition('/')[2].replace('`', '``')}`"
    if not frames:
        return spark.sql(query)
    named: Mapping[str, Any] = frames
    return spark.sql(text + _escaped(query[done:]), **named)


def _escaped(text: str) -> str:
    """Return a part of the statement as it stands between names of frames."""
    return text.replace("{", "{{").replace("}", "}}")


def _end(query: str, tokens: Sequence[Any], table: Node) -> int:
    """Return where a table's name ends in the statement, with the time that stands behind it."""
    end = int(table.parts[-1].meta["end"]) + 1
    version = table.args.get("version")
    if version is None:
        return end
    behind = [t for t in tokens if t.start >= end]
    of = next(n for n, t in enumerate(behind) if t.text.upper() == "OF")
    return int(behind[of + 1].end) + 1


def _frame(spark: SparkSession, table: Node, words: set[str], committed: str | None) -> DataFrame | None:
    """Return what a statement reads of a table; None for a table that Spark reads itself."""
    if table.args.get("sample") is not None and not table.alias:
        return None
    path = table.name if _is_path(table) else place_of_name(spark, [p.name for p in table.parts])
    if path is None:
        return None
    folder, _, name = path.rstrip("/").rpartition("/sys.")
    if folder and name in WAREHOUSE_TABLES:
        return spark.createDataFrame(Warehouse(folder).system(name).to_arrow())
    version = table.args.get("version")
    options: dict[str, str] = {}
    if version is not None:
        if not isinstance(version.expression, exp.Literal):
            raise InvalidInputError(f"{table.name}: VERSION AS OF and TIMESTAMP AS OF take a number or a text")
        options = {_TIME_TRAVEL[str(version.name).upper()]: version.expression.name}
    elif path.rstrip("/") == committed:
        options = {"read.committed": "true"}
    asked = ReadOptions.parse({**options, "path": path})
    if asked.layout is not Layout.PLAIN or asked.system is not None:
        return read_table(spark, path, options=options)
    schema = ReadState.find(asked).schema
    of_catalog = not _is_path(table) and "$" not in table.name
    if of_catalog and set(spark.table(".".join(quoted(p.name) for p in table.parts)).columns) - set(schema.field_names):
        # Columns that only the catalog has are read by its name.
        return None
    where = " AND ".join(f"({c})" for c in (_conditions(table, schema) if _ESCAPES not in words else ()))
    return read_table(spark, path, columns=_columns(table, schema, words), where=where or None, options=options)


def _is_path(table: Node) -> bool:
    return bool(table.db.lower() == FORMAT and "/" in table.name and not table.catalog)


def _select_of(table: Node) -> Node | None:
    """Return the SELECT in whose FROM or JOIN a table stands itself."""
    place = table.parent
    direct = isinstance(place, (exp.From, exp.Join)) and isinstance(place.parent, exp.Select)
    return place.parent if direct else None


def _columns(table: Node, schema: TableSchema, words: set[str]) -> list[str] | None:
    """Return the columns that may be needed: those whose names occur anywhere in the statement; None: all."""
    select = _select_of(table)
    around = select if select is not None else table.root()
    stars = (s for s in around.find_all(exp.Star) if select is None or s.find_ancestor(exp.Select) is select)
    if any(not isinstance(s.parent, exp.Count) for s in stars) or around.find(exp.Pivot) is not None or "|>" in words:
        return None
    if any(j.method.upper() == "NATURAL" for j in table.root().find_all(exp.Join)):
        return None
    wanted = [n for n in schema.field_names if n.lower() in words]
    # Rows are counted by some column.
    return wanted or [(*schema.primary_keys, *schema.field_names)[0]]


def _conditions(table: Node, schema: TableSchema) -> Iterator[str]:
    """Yield the conditions of a WHERE that hold for every row of a table that it lets through."""
    select = _select_of(table)
    if select is None or table.args.get("sample") is not None or not _keeps_rows(table, select):
        return
    where = select.args.get("where")
    if where is None:
        return
    # Without these a column that is not qualified is this table's, or Spark refuses it as ambiguous.
    plain = not select.args.get("laterals") and not any(j.args.get("using") for j in select.args.get("joins") or [])
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        text = where_text(condition, {table.alias_or_name.lower(), *([""] if plain else [])}, schema)
        if text is not None:
            yield text


def _keeps_rows(table: Node, select: Node) -> bool:
    """Return True when no join makes rows of nulls where this table has none."""
    joins = select.args.get("joins") or []
    sides = {(j.side or "").upper() for j in joins} | {(j.kind or "").upper() for j in joins}
    if not sides - {"", "INNER", "CROSS"}:
        return True
    return isinstance(table.parent, exp.From) and not sides - {"", "INNER", "CROSS", "LEFT", "OUTER", "SEMI", "ANTI"}


#: Statements by their first words.
KINDS = (
    "INSERT", "UPDATE", "DELETE", "MERGE INTO", "CREATE TABLE", "ALTER TABLE", "TRUNCATE TABLE", "DROP TABLE", "COMMENT ON", "SHOW",
    "DESCRIBE", "CALL",
)  # fmt: skip
_VERB_WORDS = ("INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE", "DROP")


def _is_change(query: str) -> bool:
    """Return True for a statement that is none of Spark's SELECT; one that cannot be read is taken for a SELECT."""
    try:
        first = statements(query)[0]
        if first.word(0) != "WITH":
            return first.word(0) in {"DESC", *(k.split()[0] for k in KINDS)}
        return isinstance(first.parse(), tuple(_VERBS))
    except InvalidInputError:
        return False


def _run_change(spark: SparkSession, query: str, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Run a statement that changes a table of lakeidx, or is about one; see `lakeidx.spark.sql`."""
    statement = one_statement(query)
    places = Places(_Catalog(spark), sources)
    tree = statement.parse() if statement.word(0) in _VERB_WORDS else None
    verb = next((v for kind, v in _VERBS.items() if isinstance(tree, kind)), None)
    if verb is None:
        done = run_among(statement, places, None, {"runner": SparkRunner(spark)})
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
        if _is_path_name(parts):
            return Table.open(parts[1])
        place = place_of_name(self._spark, parts)
        if place is None:
            raise NotFoundError(
                f"{'.'.join(parts)} is no table of lakeidx in Spark's catalog; by its path: lakeidx.`/lake/db.db/table`"
            )
        return Table.open(place)

    def system(self, name: str) -> pa.Table | None:
        return None


def _is_path_name(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() == FORMAT and "/" in parts[1]


def _query_frame(spark: SparkSession, query: Any, places: Places, committed: str | None = None) -> DataFrame:
    """Return the rows of a part of a statement, which Spark computes with scans that get columns and conditions."""
    return select(spark, _text(query), committed, places.given)


def _text(node: Any) -> str:
    return str(node.sql(dialect=LakeidxSql))


def _merge(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Join a source with a table, in Spark's tasks."""
    parts = Merging.of(statement, tree)
    table = places.table(statement, changed_table(statement, tree.this))
    mine, other = parts.aliases
    clauses = [clause_of(when, LakeidxSql) for when in parts.clauses(statement, table.schema.field_names)]
    source = partial(_query_frame, spark, parts.source, places)
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
    if not _is_path_name(new.name):
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
    frame = _query_frame(spark, new.query, places)
    made = Table.create(path, {**new.spec, "fields": column_specs(arrow_schema(frame.schema))})
    with dropped_if_empty(made):
        return VerbResult.of(upsert(frame, path))


def _drop(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> QueryResult:
    """Drop a table by its path."""
    statement.only(tree, ("kind", "exists", "purge", "tables", "this"), "DROP TABLE")
    (node,) = tree.args.get("tables") or [tree.this]
    parts = [p.name for p in node.parts]
    if tree.args.get("kind") != "TABLE" or not _is_path_name(parts):
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
    return target.merge(lambda: _query_frame(spark, query, places, table.uri).alias("lakeidx_source"), on)


def _insert(spark: SparkSession, statement: Statement, tree: Any, places: Places) -> VerbResult:
    """Upsert the rows of an INSERT, or replace partitions by them, in Spark's tasks."""
    parts = Insertion.of(statement, tree)
    table = places.table(statement, parts.table)
    fields = table.schema.fields
    frame = _query_frame(spark, parts.query, places)
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
