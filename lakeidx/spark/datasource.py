"""``spark.read.format("lakeidx")``: tables as a Spark data source, in Python and Arrow, without a jar.

    from lakeidx.spark.datasource import register
    register(spark)
    spark.read.format("lakeidx").option("scan.snapshot-id", "3").load("/lake/db.db/flights")
    frame.write.format("lakeidx").mode("append").save("/lake/db.db/flights")            # upserts
    spark.readStream.format("lakeidx").load("/lake/db.db/flights")                      # follows the snapshots
    stream.writeStream.format("lakeidx").option("checkpointLocation", ...).start("/lake/db.db/flights")  # upserts

A frame is one state of the table, found when it is loaded: Spark pickles the source then, and plans the frame's queries with that
pickle. Of a frame with ``.schema(...)`` and of a name of its catalog it makes the source with the first query.

Filters: Spark 4.3 makes one plan of a Python source for all uses of a frame; one that is planned with the filters of one use lacks
rows of the others. So readers take none: give them by ``.option("where", "k < 5")`` or `read_table`, as parts of the frame.

Options: `lakeidx.spark.read_options`. Spark's Python data sources have no column push-down of their own: name the columns
by ``.schema("a BIGINT, b STRING")``, by ``.option("columns", "a,b")``, or use `read_table`, and only those are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructField, StructType

from lakeidx.errors import InvalidInputError, LakeIdxError
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.spark.catalog_tables import only_in_catalog, options_of_read, options_of_write, with_options
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.task_errors import one_line
from lakeidx.spark.values import arrow_schema, spark_schema
from lakeidx.spark.workers.python import check_worker_python, python_errors
from lakeidx.types import Field, Root

if TYPE_CHECKING:
    from lakeidx.spark.table_reader import ReadState

FORMAT = "lakeidx"
#: Where Spark keeps the type of a CHAR column, a string otherwise: CharVarcharUtils of Spark 4.0.
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


class LakeIdxDataSource(DataSource):
    """A table of lakeidx or Paimon."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._found: ReadState | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Find what is read before Spark pickles the source of a frame; with columns of its own `schema` was not called."""
        if "path" in self.options:
            # What is not there is told by whoever reads it.
            with suppress(LakeIdxError):
                options = ReadOptions.parse(self.options)
                if options.system is None:
                    self._find(options)
        return self.__dict__

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return FORMAT

    @one_line
    def schema(self) -> StructType:
        """Return the columns that are read, in Spark's types."""
        # Spark starts several processes to plan, read and write; what each does not need takes longer to load than to use.
        from lakeidx.spark.table_reader import system_table

        options = ReadOptions.parse(self.options)
        if options.system is not None:
            return _with_metadata(system_table(options).fields)
        found = self._find(options).schema
        names = found.field_names if options.columns is None else [found.field(n).name for n in options.columns]
        return with_options(_with_metadata(options.layout.fields(found, names)), self.options)

    @one_line
    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader of the columns in `schema`."""
        from lakeidx.spark.table_reader import SystemReader, TableReader

        options = self._options(schema)
        if options.system is not None:
            return SystemReader(options, schema.names, arrow_schema(schema))
        state = self._find(options)
        only_named = only_in_catalog(schema, (*state.schema.field_names, *options.layout.kind_columns))
        return TableReader(options, state, [n for n in schema.names if n not in only_named], arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a reader that follows the snapshots; it raises what is wrong with its options when it is used."""
        try:
            options = self._options(schema)
            if options.system is not None:
                raise InvalidInputError(f"${options.system} is read whole, not as a stream; audit_log and binlog are")
        except LakeIdxError as error:
            return _RefusedStream(error, self.options)
        from lakeidx.spark.streams.reader import TableStreamReader

        return TableStreamReader(options, schema.names, arrow_schema(schema))

    @one_line
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make a writer of one batch."""
        from lakeidx.spark.table_writer import TableWriter

        options = ReadOptions.parse(options_of_write(self.options), writes=True)
        return TableWriter(options, arrow_schema(schema), overwrite=overwrite)

    @one_line
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make a writer of one micro-batch."""
        from lakeidx.spark.streams.writer import StreamWriter

        given = {k.lower(): v for k, v in options_of_write(self.options).items()}
        return StreamWriter(given, arrow_schema(schema), overwrite=overwrite)

    def _find(self, options: ReadOptions) -> ReadState:
        if self._found is None:
            from lakeidx.spark.table_reader import ReadState

            self._found = ReadState.find(options)
        return self._found

    def _options(self, schema: StructType) -> ReadOptions:
        return ReadOptions.parse(options_of_read(self.options, schema))


class _RefusedStream(DataSourceStreamReader):
    """A stream that cannot begin: Spark 4.3 hides an error of `streamReader` behind one of its own."""

    def __init__(self, error: LakeIdxError, options: Mapping[str, str]) -> None:
        self.options = options
        self._error = error

    @one_line
    def _refuse(self, *_: Any) -> Any:
        raise self._error

    initialOffset = latestOffset = partitions = read = _refuse  # type: ignore[assignment]


def register(spark: SparkSession) -> None:
    """Register the format in a session.

    errors   InvalidInputError when the workers of a local session run another Python than this one
    """
    check_worker_python(spark)
    spark.dataSource.register(LakeIdxDataSource)


def read_table(
    spark: SparkSession,
    uri: PathLike,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read some columns and rows of a table as a data frame; `explain(True)` of the frame names them.

    errors   InvalidInputError for a setting of the session that Spark's Python sources fail with
    """
    register(spark)
    if int(spark.conf.get(_ARROW_ROWS) or 1) < 1:
        raise InvalidInputError(
            f"{_ARROW_ROWS} = 0: Spark reads Python sources with at least 1 only, spark.conf.unset({_ARROW_ROWS!r})"
        )
    reader = spark.read.format(FORMAT).options(**(options or {}))
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    if where is not None:
        reader = reader.option("where", where)
    what = "all columns" if columns is None else f"columns {', '.join(columns)}"
    rows = "all rows" if where is None else f"rows where {where}"
    with python_errors():
        # Spark's plan of a Python source has no place for what it reads but a name.
        return reader.load(path_text(uri)).alias(f"lakeidx reads {what}; {rows}")


def _with_metadata(fields: Sequence[Field]) -> StructType:
    """Return the columns with what Spark keeps beside their types.

    The table's comments, for DESCRIBE and `printSchema`; and CHAR(n), so that Spark compares such columns as it does others: it
    pads literals and values that were stored without blanks.
    """
    more: dict[str, dict[str, str]] = {f.name: {"comment": f.description} for f in fields if f.description}
    for f in fields:
        if f.type.root is Root.CHAR:
            more.setdefault(f.name, {})[_CHAR_TYPE] = f"char({f.type.length})"
    return StructType([
        StructField(c.name, c.dataType, c.nullable, more.get(c.name)) for c in spark_schema(fields).fields
    ])  # fmt: skip
