"""SELECT in Spark, with the columns and conditions that it names given to the tables that it reads; the door of all statements.

    sql(spark, "SELECT sum(total) FROM orders WHERE day = '2026-11-02'")
    sql(spark, "SELECT count(*) FROM lakeidx.`/lake/shop.db/orders` VERSION AS OF 3")

Spark gives a Python source no columns, and its conditions only at the risk of wrong rows (`lakeidx.spark.datasource`). So the
statement is read here, and every name of a table of lakeidx becomes a frame of `read_table` with what the statement surely needs.
Spark runs the whole statement all the same: a condition that is not understood here is only not given to the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from lakeidx.api.sql.conditions import where_text
from lakeidx.api.sql.statement import LakeidxSql
from lakeidx.api.warehouse import Warehouse
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.spark.catalog_tables import place_of_name, quoted
from lakeidx.spark.datasource import FORMAT, read_table
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.statements.changes import KINDS, is_change, run_change
from lakeidx.spark.table_reader import ReadState
from lakeidx.table.scan.layout import Layout
from lakeidx.table.system.of_warehouse import WAREHOUSE_TABLES

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
    return run_change(spark, query, given) if is_change(query) else select(spark, query, sources=given)


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
