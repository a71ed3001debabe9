"""Delete, update and merge of a table in Spark, by the names and arguments of Delta Lake's ``DeltaTable``.

    from lakeidx.spark import LakeTable
    orders = LakeTable.forPath(spark, "/lake/shop.db/orders")
    orders.alias("t").merge(changes.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

Of the table only the columns are read that something asks for, and of its files those that the condition leaves: of a merge on the
whole primary key the rows of the source's keys, which tasks look up. No row comes to the driver. A verb commits only if nobody has
written rows since it read, and else runs again.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from sqlglot import exp

from lakeidx.api.expressions import check_assignments
from lakeidx.api.merge import BY_SOURCE, MATCHED, NOT_MATCHED, MergeClause
from lakeidx.api.verbs import check_deletable, check_updatable, columns_of_deletes
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.errors import CommitConflictError, InvalidInputError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.predicate.parse import LakeidxWhere
from lakeidx.spark.catalog_tables import quoted
from lakeidx.spark.datasource import read_table
from lakeidx.spark.frame_upsert import write_frame
from lakeidx.spark.joins import find_rows
from lakeidx.spark.statements.matching import Matching, condition_text, named_in
from lakeidx.spark.values import spark_schema
from lakeidx.table.handle import TableHandle
from lakeidx.types import INT_ROOTS, Root

#: SQL text, or a column of Spark.
Expression: TypeAlias = str | Column
Assignments: TypeAlias = Mapping[str, Expression]

log = logging.getLogger(__name__)
_TRIES, _WAIT_SECONDS = 10, 0.05
_TWICE = "two rows of the source are for one row of the table: leave one of them"
_NO_NULL = "merge engine partial-update keeps the old value where a row has null"
#: What a task raises, as Spark hands it on.
_RAISED = re.compile(r"lakeidx: (.+?)(?: SQLSTATE|\n|$)")
#: Names the table where the caller does not.
_UNNAMED = "__lakeidx_table"
#: Columns of which the source's values choose files, and values of a partition column that are named one by one.
_CHOOSING, _NAMED_VALUES = (*INT_ROOTS, Root.DATE, Root.VARCHAR), 1000
_KINDS = {"update": "+U", "delete": "-D", "insert": "+I"}
_CLAUSE, _COUNT = "__lakeidx_clause", "__lakeidx_count"


def _column(expression: Expression) -> Column:
    return (
        expression
        if isinstance(expression, Column)
        else sf.expr(expression)
        if isinstance(expression, str)
        else sf.lit(expression)
    )


class LakeTable:
    """A table of lakeidx in a session; `alias` names it in expressions."""

    def __init__(self, spark: SparkSession, path: PathLike, name: str | None = None) -> None:
        self._spark = spark
        self._path = path_text(path)
        self._name = name
        self._handle = TableHandle.open(self._path)

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: PathLike) -> LakeTable:
        """Open the table in a directory, a path or URI."""
        return cls(sparkSession, path)

    def alias(self, aliasName: str) -> LakeTable:
        """Name the table in expressions."""
        return LakeTable(self._spark, self._path, aliasName)

    def toDF(self) -> DataFrame:
        """Return the newest state as a frame."""
        frame = read_table(self._spark, self._path)
        return frame if self._name is None else frame.alias(self._name)

    def delete(self, condition: Expression | None = None) -> BatchResult | None:
        """Delete the rows that a condition holds for, all without one; None when there is no such row."""
        check_deletable(self._schema)
        needed = _columns_of_deletes(self._schema)
        return self._run(
            "DELETE",
            lambda: self._where(condition, needed, ()).select(*needed, sf.lit("-D").alias(KIND_COLUMN)),
        )

    def update(
        self,
        condition: Expression | None = None,
        set: Assignments | None = None,
    ) -> BatchResult | None:
        """Change columns of the rows that a condition holds for, all without one; None when there is no such row.

        set      by column: SQL text over the row's columns, or a column of Spark
        errors   InvalidInputError for a column of the key, or one that the table lacks; UnsupportedError by merge engine
        """
        schema = self._schema
        check_updatable(schema)
        given = self._resolved(set or {})
        check_assignments(given, schema.fields_by_name, schema.primary_keys)
        kept = [n for n in self._kept_by_update() if n not in given]
        written = [n for n in schema.field_names if n in kept or n in given]

        def rows() -> DataFrame:
            found = self._where(condition, kept, given.values())
            values = [self._assigned(n, given[n]) if n in given else found[n].alias(n) for n in written]
            return found.select(*values, sf.lit("+U").alias(KIND_COLUMN))

        return self._run("UPDATE", rows)

    def merge(self, source: DataFrame | Callable[[], DataFrame], condition: Expression) -> MergeBuilder:
        """Begin a merge; the condition and the clauses name columns by the aliases of the table and of the source.

        source   a frame, which Spark keeps while the merge runs; or what makes it, again with each try
        """
        return MergeBuilder(self, source, condition)

    # -- of the builder ------------------------------------------------------------------------------------------------

    @property
    def _schema(self) -> TableSchema:
        return self._handle.schema

    @property
    def _alias(self) -> str:
        return self._name or _UNNAMED

    def _committed(self, columns: Iterable[str], where: Iterable[str] = ()) -> DataFrame:
        """Return rows that are committed, also those that readers see after a compaction."""
        names = [n for n in self._schema.field_names if n in {*columns}]
        text = " AND ".join(f"({w})" for w in where) or None
        return read_table(self._spark, self._path, columns=names, where=text, options={"read.committed": "true"})

    def _empty(self) -> DataFrame:
        """Return a frame that expressions over the table can be resolved with."""
        return self._spark.createDataFrame([], spark_schema(self._schema.fields)).alias(self._alias)

    def _where(self, condition: Expression | None, columns: Iterable[str], values: Iterable[Expression]) -> DataFrame:
        """Return the rows that a condition holds for, with some columns and those that expressions name."""
        names = self._schema.field_names
        said = [e for e in (condition, *values) if e is not None]
        needed = {*columns}.union(*(named_in(e, self._alias, names) for e in said))
        if condition is None:
            return self._committed(needed).alias(self._alias)
        holds = _column(condition)
        text = condition_text(condition, self._empty() if isinstance(condition, str) else self._empty().where(holds))
        where = Matching(self._schema, self._alias, (), text).where()
        return self._committed(needed, where).alias(self._alias).where(holds)

    def _resolved(self, columns: Assignments) -> dict[str, Expression]:
        """Return assignments by the table's names, which may come in another case, and behind the table's alias."""
        known = {n.lower(): n for n in self._schema.field_names}
        out = {}
        for given, value in columns.items():
            before, _, bare = given.rpartition(".")
            name = bare if before.lower() == self._alias.lower() and given not in known.values() else given
            real = name if name in known.values() else known.get(name.lower(), name)
            if real in out:
                raise InvalidInputError(f"column {real} is set twice")
            out[real] = value
        return out

    def _kept_by_update(self) -> list[str]:
        """Return the columns that an update writes as they are: all, since a row is written whole."""
        partial = self._schema.table_options.merge_engine == "partial-update"
        return list(self._schema.primary_keys if partial else self._schema.field_names)

    def _assigned(self, name: str, value: Expression, *, update: bool = True) -> Column:
        """Return what a column becomes, in its type."""
        kind = spark_schema([self._schema.field(name)]).fields[0].dataType
        found = _column(value).cast(kind)
        if update and self._schema.table_options.merge_engine == "partial-update":
            refused = sf.raise_error(sf.lit(f"lakeidx: set {name}: {_NO_NULL}")).cast(kind)
            found = sf.when(found.isNull(), refused).otherwise(found)
        return found.alias(name)

    def _run(self, operation: str, make: Callable[[], DataFrame]) -> BatchResult | None:
        """Write the rows that a verb makes of the newest state; made again where others have written rows in between."""
        metadata = self._handle.metadata
        for tried in range(_TRIES):
            snapshot = metadata.latest_snapshot()
            read_on = 0 if snapshot is None else snapshot.id
            try:
                return write_frame(make(), self._path, {"missing": "null"}, operation=operation, read_on=read_on)
            except CommitConflictError as error:
                if tried + 1 == _TRIES:
                    raise
                log.info("%s: the rows are read again: %s", operation, error.message)
                time.sleep(random.random() * _WAIT_SECONDS * 2**tried)  # noqa: S311 - jitter
            except PySparkException as error:
                raised = _RAISED.search(str(error))
                if raised is not None:
                    raise InvalidInputError(raised[1], path=self._path) from None
                raise
        raise AssertionError("unreachable")


class MergeBuilder:
    """A merge that is put together clause by clause; of a row the first clause counts whose condition holds."""

    def __init__(self, table: LakeTable, source: DataFrame | Callable[[], DataFrame], condition: Expression) -> None:
        self._table = table
        self._source = source
        self._condition = condition
        self._clauses: list[MergeClause] = []

    def whenMatchedUpdate(
        self,
        condition: Expression | None = None,
        set: Assignments | None = None,
    ) -> MergeBuilder:
        """Change columns of matched rows."""
        return self.with_clause(MergeClause(MATCHED, "update", condition, set or {}))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> MergeBuilder:
        """Change matched rows to what the source has."""
        return self.with_clause(MergeClause(MATCHED, "update", condition))

    def whenMatchedDelete(self, condition: Expression | None = None) -> MergeBuilder:
        """Delete matched rows."""
        return self.with_clause(MergeClause(MATCHED, "delete", condition))

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Assignments | None = None
    ) -> MergeBuilder:
        """Insert rows that the table does not have; columns without a value are null."""
        return self.with_clause(MergeClause(NOT_MATCHED, "insert", condition, values or {}))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> MergeBuilder:
        """Insert rows that the table does not have as the source has them."""
        return self.with_clause(MergeClause(NOT_MATCHED, "insert", condition))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Expression | None = None,
        set: Assignments | None = None,
    ) -> MergeBuilder:
        """Change columns of rows that the source does not have."""
        return self.with_clause(MergeClause(BY_SOURCE, "update", condition, set or {}))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> MergeBuilder:
        """Delete rows that the source does not have."""
        return self.with_clause(MergeClause(BY_SOURCE, "delete", condition))

    def execute(self) -> BatchResult | None:
        """Run the merge as one batch; None when no row is changed.

        errors   InvalidInputError for no clause, unknown columns, a source that matches one row twice; UnsupportedError by
                 merge engine
        """
        schema, kept = self._table._schema, list[DataFrame]()
        if not self._clauses:
            raise InvalidInputError("a merge needs a clause, such as whenMatchedUpdateAll()")
        check_updatable(schema)
        if any(c.action == "delete" for c in self._clauses):
            check_deletable(schema)
        try:
            return self._table._run("MERGE", lambda: self._rows(kept))
        finally:
            for frame in kept:
                frame.unpersist()

    def with_clause(self, clause: MergeClause) -> MergeBuilder:
        """Add a clause as `lakeidx.api.merge.clause_of` makes it, of Spark's SQL."""
        self._clauses.append(clause)
        return self

    def _rows(self, kept: list[DataFrame]) -> DataFrame:
        """Return the rows of the batch with their kinds; the job fails where a key has two.

        kept   gets what Spark is told to keep: a source that is read twice must be the same rows
        """
        table, schema = self._table, self._table._schema
        source = self._source() if callable(self._source) else self._source
        clauses = [self._checked(c, source) for c in self._clauses]
        condition = _column(self._condition)
        text = condition_text(
            self._condition, source if isinstance(self._condition, str) else table._empty().join(source, condition)
        )
        matching = Matching(schema, table._alias, source.columns, text)
        equal = matching.equal(source)
        by_key = {*schema.primary_keys} <= {*equal}
        if by_key and {*equal} == {*schema.primary_keys} and len(matching) == len(equal) and self._is_upsert(source):
            insert = next(c for c in clauses if c.action == "insert")
            rows = source.select(*(_column(c).alias(n) for n, c in (insert.columns or {}).items()))
            return _each_key_once(rows, schema.primary_keys)
        needed = self._needed(clauses)
        by_source = any(c.of == BY_SOURCE for c in clauses)
        if equal and not by_source:
            source = source.persist()
            kept.append(source)
        if by_key and not by_source:
            keys = source.select(*(equal[k].alias(k) for k in schema.primary_keys)).dropna()
            target = find_rows(keys, table._handle, needed)
        else:
            where = [] if by_source else [*matching.where(), *_around(schema, source, equal)]
            target = table._committed(needed, where)
        return self._joined(clauses, target, source, condition)

    def _joined(self, clauses: list[MergeClause], target: DataFrame, source: DataFrame, condition: Column) -> DataFrame:
        by_source = any(c.of == BY_SOURCE for c in clauses)
        mark_t, mark_s = "__lakeidx_target", "__lakeidx_source"
        # The marks are put on before the aliases, which name what is below them.
        target = target.withColumn(mark_t, sf.lit(True)).alias(self._table._alias)
        source = source.withColumn(mark_s, sf.lit(True))
        # Of a source that is in both sides Spark renames the columns on the right: the caller's are those on the left.
        both = source.join(target, condition, "full_outer" if by_source else "left_outer")
        sides = {
            MATCHED: sf.col(mark_t).isNotNull() & sf.col(mark_s).isNotNull(),
            NOT_MATCHED: sf.col(mark_t).isNull(),
            BY_SOURCE: sf.col(mark_s).isNull(),
        }
        chosen = [sides[c.of] if c.condition is None else sides[c.of] & _column(c.condition) for c in clauses]
        number = reduce(lambda out, n: sf.when(chosen[n], n).otherwise(out), reversed(range(len(chosen))), sf.lit(-1))
        columns = []
        for field in self._table._schema.fields:
            value = sf.lit(None).cast(spark_schema([field]).fields[0].dataType)
            for n, clause in enumerate(clauses):
                found = self._value_of(clause, field.name, target)
                value = value if found is None else sf.when(sf.col(_CLAUSE) == n, found).otherwise(value)
            columns.append(value.alias(field.name))
        kinds = [sf.lit(_KINDS[c.action]) for c in clauses]
        kind = sf.element_at(sf.array(*kinds), sf.col(_CLAUSE) + 1).alias(KIND_COLUMN)
        rows = both.withColumn(_CLAUSE, number).where(sf.col(_CLAUSE) >= 0).select(*columns, kind)
        return _each_key_once(rows, self._table._schema.primary_keys)

    def _checked(self, clause: MergeClause, source: DataFrame) -> MergeClause:
        """Return a clause with all of its columns, by the table's names.

        errors   InvalidInputError for unknown columns, and keys that an update would change
        """
        if clause.action == "delete":
            return clause
        schema = self._table._schema
        columns = self._table._resolved(
            {n: source[quoted(n)] for n in source.columns} if clause.columns is None else clause.columns
        )
        star = clause.columns is None and clause.action == "update"
        keys = schema.primary_keys if clause.action == "update" and not star else ()
        check_assignments(columns, schema.fields_by_name, keys)
        # All that the source has changes a row, but not into another one.
        return replace(clause, columns={n: c for n, c in columns.items() if not star or n not in schema.primary_keys})

    def _is_upsert(self, source: DataFrame) -> bool:
        """Return True where no row of the table decides anything: whole rows, changed or inserted."""
        wanted = [MergeClause(MATCHED, "update"), MergeClause(NOT_MATCHED, "insert")]
        both = len(self._clauses) == len(wanted) and all(c in wanted for c in self._clauses)
        return both and self._clauses[0] != self._clauses[1] and len(source.columns) == len(self._table._schema.fields)

    def _needed(self, clauses: Iterable[MergeClause]) -> list[str]:
        """Return the columns of the table that the condition and the clauses read."""
        table = self._table
        said = [self._condition, *(c.condition for c in clauses if c.condition is not None)]
        # What a clause takes from the source as it is has no names in it.
        said += [e for c in self._clauses for e in (c.columns or {}).values()]
        needed = {*table._schema.primary_keys}.union(
            *(named_in(e, table._alias, table._schema.field_names) for e in said)
        )
        for clause in clauses:
            if clause.action == "delete":
                needed |= {*_columns_of_deletes(table._schema)}
            elif clause.action == "update":
                needed |= {*table._kept_by_update()} - {*(clause.columns or {})}
        return [n for n in table._schema.field_names if n in needed]

    def _value_of(self, clause: MergeClause, name: str, target: DataFrame) -> Column | None:
        """Return what a clause gives a column; None for null."""
        if name in (clause.columns or {}):
            return self._table._assigned(name, (clause.columns or {})[name], update=clause.action == "update")
        kept = {
            "insert": (),
            "update": self._table._kept_by_update(),
            "delete": _columns_of_deletes(self._table._schema),
        }
        return target[name] if name in kept[clause.action] else None


def _columns_of_deletes(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns of a row that deletes its key: those it needs, and what may not be null."""
    needed = {*columns_of_deletes(schema)}
    return tuple(f.name for f in schema.fields if f.name in needed or not f.type.nullable)


def _around(schema: TableSchema, source: DataFrame, equal: Mapping[str, Column]) -> Iterator[str]:
    """Yield conditions that hold for every row that the source may match: ranges of its values, and partitions by name."""
    chosen = [n for n in equal if schema.field(n).type.root in _CHOOSING]
    if not chosen:
        return
    named = {n: sf.slice(sf.collect_set(equal[n]), 1, _NAMED_VALUES + 1) for n in chosen if n in schema.partition_keys}
    ends = [f(equal[n]) for n in chosen for f in (sf.min, sf.max)]
    found = source.agg(*ends, *named.values()).first()
    assert found is not None
    for number, name in enumerate(chosen):
        low, high = found[2 * number], found[2 * number + 1]
        column: Any = exp.column(name, quoted=True)
        if low is None:
            continue
        values = found[len(ends) + list(named).index(name)] if name in named else []
        part = (
            column.isin(*map(_literal, values))
            if 0 < len(values) <= _NAMED_VALUES
            else column.between(*map(_literal, (low, high)))
        )
        yield part.sql(dialect=LakeidxWhere)


def _literal(value: object) -> Any:
    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(str(value))


def _each_key_once(rows: DataFrame, keys: Collection[str]) -> DataFrame:
    from pyspark.sql import Window

    count = sf.count(sf.lit(1)).over(Window.partitionBy(*map(quoted, keys)))
    refused = sf.raise_error(sf.lit(f"lakeidx: {_TWICE}")).cast("boolean")
    counted = rows.withColumn(_COUNT, count)
    return counted.where(sf.when(sf.col(_COUNT) > 1, refused).otherwise(sf.lit(True))).drop(_COUNT)
