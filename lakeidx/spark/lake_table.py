"""Delete, update and merge of a table in Spark, by the names and arguments of Delta Lake's ``DeltaTable``.

    from lakeidx.spark import LakeTable
    orders = LakeTable.forPath(spark, "/lake/shop.db/orders")
    orders.alias("t").merge(changes.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

Spark joins the frame with the table's rows, in its tasks; no row of either comes to the driver. A verb commits only if nobody has
written rows since it read, and else runs again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakeidx.api.expressions import check_assignments
from lakeidx.api.verbs import check_deletable, check_updatable
from lakeidx.batch.upsert import BatchResult
from lakeidx.errors import CommitConflictError, InvalidInputError, UnsupportedError
from lakeidx.landing.row_kinds import KIND_COLUMN
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.spark.datasource import read_table
from lakeidx.spark.frame_upsert import write_frame
from lakeidx.spark.values import spark_schema
from lakeidx.table.handle import TableHandle

#: SQL text, or a column of Spark.
Expression: TypeAlias = str | Column
Assignments: TypeAlias = Mapping[str, Expression]

log = logging.getLogger(__name__)
_TRIES, _WAIT_SECONDS = 10, 0.05
_MATCHED, _NOT_MATCHED, _BY_SOURCE = "matched", "not matched", "not matched by source"
_TWICE = "two rows of the source are for one row of the table: leave one of them"
_KINDS = {"update": "+U", "delete": "-D", "insert": "+I"}
_CLAUSE = "__lakeidx_clause"


def _column(expression: Expression) -> Column:
    return sf.expr(expression) if isinstance(expression, str) else expression


@dataclass(frozen=True, slots=True)
class _Clause:
    """Clause of a merge; `columns` None: all that the source has."""

    of: str
    action: str
    condition: Expression | None
    columns: Assignments | None = None


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
        return self._named(read_table(self._spark, self._path))

    def delete(self, condition: Expression | None = None) -> BatchResult | None:
        """Delete the rows that a condition holds for, all without one; None when there is no such row."""
        check_deletable(self._handle.schema)
        return self._run("DELETE", lambda: self._where(condition).withColumn(KIND_COLUMN, sf.lit("-D")))

    def update(
        self,
        condition: Expression | None = None,
        set: Assignments | None = None,
    ) -> BatchResult | None:
        """Change columns of the rows that a condition holds for, all without one; None when there is no such row.

        set      by column: SQL text over the row's columns, or a column of Spark
        errors   InvalidInputError for a column of the key, or one that the table lacks; UnsupportedError by merge engine
        """
        schema = self._handle.schema
        _check_whole_rows(self._handle)
        check_assignments(set or {}, schema.fields_by_name, schema.primary_keys)

        def rows() -> DataFrame:
            found = self._where(condition)
            values = {n: self._value(n, _column((set or {})[n]) if n in (set or {}) else found[n]) for n in self._names}
            return found.select(*(c.alias(n) for n, c in values.items()), sf.lit("+U").alias(KIND_COLUMN))

        return self._run("UPDATE", rows)

    def merge(self, source: DataFrame, condition: Expression) -> MergeBuilder:
        """Begin a merge; the condition and the clauses name columns by the aliases of the table and of the source."""
        return MergeBuilder(self, source, _column(condition))

    # -- of the builder ------------------------------------------------------------------------------------------------

    @property
    def _names(self) -> tuple[str, ...]:
        return self._handle.schema.field_names

    def _named(self, frame: DataFrame) -> DataFrame:
        return frame if self._name is None else frame.alias(self._name)

    def _committed(self) -> DataFrame:
        """Return all rows that are committed, also those that readers see after a compaction."""
        return self._named(read_table(self._spark, self._path, options={"read.committed": "true"}))

    def _where(self, condition: Expression | None) -> DataFrame:
        frame = self._committed()
        return frame if condition is None else frame.where(_column(condition))

    def _value(self, name: str, value: Column) -> Column:
        """Return a value in its column's type."""
        return value.cast(spark_schema([self._handle.schema.field(name)]).fields[0].dataType)

    def _run(self, operation: str, make: Callable[[], DataFrame]) -> BatchResult | None:
        """Write the rows that a verb makes of the newest state; made again where others have written rows in between."""
        metadata = self._handle.metadata
        for tried in range(_TRIES):
            snapshot = metadata.latest_snapshot()
            read_on = 0 if snapshot is None else snapshot.id
            try:
                return write_frame(make(), self._path, operation=operation, read_on=read_on)
            except CommitConflictError as error:
                if tried + 1 == _TRIES:
                    raise
                log.info("%s: the rows are read again: %s", operation, error.message)
                time.sleep(random.random() * _WAIT_SECONDS * 2**tried)  # noqa: S311 - jitter
            except PySparkException as error:
                if _TWICE in str(error):
                    raise InvalidInputError(_TWICE, path=self._path) from None
                raise
        raise AssertionError("unreachable")


class MergeBuilder:
    """A merge that is put together clause by clause; of a row the first clause counts whose condition holds."""

    def __init__(self, table: LakeTable, source: DataFrame, condition: Column) -> None:
        self._table = table
        self._source = source
        self._condition = condition
        self._clauses: list[_Clause] = []

    def whenMatchedUpdate(
        self,
        condition: Expression | None = None,
        set: Assignments | None = None,
    ) -> MergeBuilder:
        """Change columns of matched rows."""
        return self._with(_Clause(_MATCHED, "update", condition, set or {}))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> MergeBuilder:
        """Change matched rows to what the source has."""
        return self._with(_Clause(_MATCHED, "update", condition))

    def whenMatchedDelete(self, condition: Expression | None = None) -> MergeBuilder:
        """Delete matched rows."""
        return self._with(_Clause(_MATCHED, "delete", condition))

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Assignments | None = None
    ) -> MergeBuilder:
        """Insert rows that the table does not have; columns without a value are null."""
        return self._with(_Clause(_NOT_MATCHED, "insert", condition, values or {}))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> MergeBuilder:
        """Insert rows that the table does not have as the source has them."""
        return self._with(_Clause(_NOT_MATCHED, "insert", condition))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Expression | None = None,
        set: Assignments | None = None,
    ) -> MergeBuilder:
        """Change columns of rows that the source does not have."""
        return self._with(_Clause(_BY_SOURCE, "update", condition, set or {}))

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> MergeBuilder:
        """Delete rows that the source does not have."""
        return self._with(_Clause(_BY_SOURCE, "delete", condition))

    def execute(self) -> BatchResult | None:
        """Run the merge as one batch; None when no row is changed.

        errors   InvalidInputError for no clause, unknown columns, a source that matches one row twice; UnsupportedError by
                 merge engine
        """
        schema = self._table._handle.schema
        if not self._clauses:
            raise InvalidInputError("a merge needs a clause, such as whenMatchedUpdateAll()")
        _check_whole_rows(self._table._handle)
        if any(c.action == "delete" for c in self._clauses):
            check_deletable(schema)
        for clause in self._clauses:
            given = dict.fromkeys(self._source.columns) if clause.columns is None else clause.columns
            keys = schema.primary_keys if clause.action == "update" and clause.columns is not None else ()
            if clause.action != "delete":
                check_assignments(given, schema.fields_by_name, keys)
        return self._table._run("MERGE", self._rows)

    def _with(self, clause: _Clause) -> MergeBuilder:
        self._clauses.append(clause)
        return self

    def _rows(self) -> DataFrame:
        """Return the rows of the batch with their kinds; the job fails where a key has two."""
        by_source = any(c.of == _BY_SOURCE for c in self._clauses)
        mark_t, mark_s = "__lakeidx_target", "__lakeidx_source"
        # The marks are put on before the aliases, which name what is below them.
        target = self._table._committed().withColumn(mark_t, sf.lit(True))
        target = self._table._named(target)
        source = self._source.withColumn(mark_s, sf.lit(True))
        both = target.join(source, self._condition, "full_outer" if by_source else "right_outer")
        sides = {
            _MATCHED: sf.col(mark_t).isNotNull() & sf.col(mark_s).isNotNull(),
            _NOT_MATCHED: sf.col(mark_t).isNull(),
            _BY_SOURCE: sf.col(mark_s).isNull(),
        }
        chosen = [sides[c.of] if c.condition is None else sides[c.of] & _column(c.condition) for c in self._clauses]
        number = reduce(lambda out, n: sf.when(chosen[n], n).otherwise(out), reversed(range(len(chosen))), sf.lit(-1))
        columns = [
            reduce(
                lambda out, n, name=name: sf.when(sf.col(_CLAUSE) == n, self._value_of(n, name, target, source)).otherwise(out),  # type: ignore[misc]
                range(len(self._clauses)), sf.lit(None),
            ).alias(name)
            for name in self._table._names
        ]  # fmt: skip
        kinds = [sf.lit(_KINDS[c.action]) for c in self._clauses]
        kind = sf.element_at(sf.array(*kinds), sf.col(_CLAUSE) + 1).alias(KIND_COLUMN)
        rows = both.withColumn(_CLAUSE, number).where(sf.col(_CLAUSE) >= 0).select(*columns, kind)
        return _each_key_once(rows, self._table._handle.schema.primary_keys)

    def _value_of(self, number: int, name: str, target: DataFrame, source: DataFrame) -> Column:
        clause = self._clauses[number]
        if clause.action == "delete":
            value = target[name]
        elif clause.columns is None:
            value = source[name] if name in source.columns else target[name]
        elif name in clause.columns:
            value = _column(clause.columns[name])
        else:
            value = target[name] if clause.action == "update" else sf.lit(None)
        return self._table._value(name, value)


def _check_whole_rows(table: TableHandle) -> None:
    check_updatable(table.schema)
    if table.schema.table_options.merge_engine == "partial-update":
        raise UnsupportedError(
            "LakeTable writes whole rows, in which merge engine partial-update takes a null for no value: use lakeidx.Table",
            path=table.metadata.paths.root,
        )


def _each_key_once(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import Window

    count = sf.count(sf.lit(1)).over(Window.partitionBy(*keys))
    kind = sf.when(count > 1, sf.raise_error(sf.lit(_TWICE)).cast("string")).otherwise(sf.col(KIND_COLUMN))
    return rows.withColumn(KIND_COLUMN, kind)
