"""``spark.read.format("lakeidx")``: tables as a Spark data source, in Python and Arrow, without a jar.

    from lakeidx.spark.datasource import register
    register(spark)
    spark.read.format("lakeidx").option("scan.snapshot-id", "3").load("/lake/db.db/flights")
    frame.write.format("lakeidx").mode("append").save("/lake/db.db/flights")            # upserts
    spark.readStream.format("lakeidx").load("/lake/db.db/flights")                      # follows the snapshots

Filters: Spark keeps what a reader was pushed with the *loaded* frame, not with the query. Of two queries on one
``frame = spark.read...load(TABLE)`` the second would be answered with the first one's filter (seen on Spark 4.3:
``frame.where("k < 5").count(); frame.count()``). Rows would be missing, so filters are taken only on request: by
``.option("where", "k < 5")`` or `read_table`, which are part of the frame and always safe, or by
``.option("filter-pushdown", "true")`` for a frame that is used in one query only.

Options: `lakeidx.spark.read_options`. Spark's Python data sources have no column push-down of their own: name the columns
by ``.schema("a BIGINT, b STRING")``, by ``.option("columns", "a,b")``, or use `read_table`, and only those are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructField, StructType

from lakeidx.errors import LakeIdxError
from lakeidx.spark.catalog_tables import options_of, options_of_write, with_options
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_reader import PushingTableReader, TableReader, read_schema
from lakeidx.spark.task_errors import one_line
from lakeidx.spark.values import arrow_schema, spark_schema
from lakeidx.spark.workers.python import check_worker_python, python_errors
from lakeidx.types import Field, Root

FORMAT = "lakeidx"
#: Found when a frame is written: Spark starts several processes to plan and read, and each would load the whole pipeline
#: for it, which takes longer than all that reading needs.
_WRITER = "lakeidx.spark.table_writer:TableWriter"
_STREAM_READER = "lakeidx.spark.stream_reader:TableStreamReader"
#: Where Spark keeps the type of a CHAR column, a string otherwise: CharVarcharUtils of Spark 4.0.
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class LakeIdxDataSource(DataSource):
    """A table of lakeidx or Paimon."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return FORMAT

    @one_line
    def schema(self) -> StructType:
        """Return the columns that are read, in Spark's types."""
        options = ReadOptions.parse(self.options)
        found = read_schema(options.open(), options)
        names = found.field_names if options.columns is None else [found.field(n).name for n in options.columns]
        return with_options(_with_metadata(options.layout.fields(found, names)), self.options)

    @one_line
    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader of the columns in `schema`."""
        options = self._options(schema)
        made = PushingTableReader if options.filter_pushdown else TableReader
        return made(options, schema.names, arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a reader that follows the snapshots; it raises what is wrong with its options when it is used."""
        try:
            options = self._options(schema)
        except LakeIdxError as error:
            return _RefusedStream(error, self.options)
        made: DataSourceStreamReader = resolve_name(_STREAM_READER)(options, schema.names, arrow_schema(schema))
        return made

    @one_line
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make a writer of one batch."""
        options = ReadOptions.parse(options_of_write(self.options))
        made: DataSourceWriter = resolve_name(_WRITER)(options, arrow_schema(schema), overwrite=overwrite)
        return made

    def _options(self, schema: StructType) -> ReadOptions:
        return ReadOptions.parse(options_of(self.options, schema))


class _RefusedStream(DataSourceStreamReader):
    """A stream that cannot begin: Spark 4.3 hides an error of `streamReader` behind one of its own."""

    def __init__(self, error: LakeIdxError, options: Mapping[str, str]) -> None:
        self.options = options
        self._error = error

    @one_line
    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    @one_line
    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    @one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        raise self._error

    @one_line
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        raise self._error


def register(spark: SparkSession) -> None:
    """Register the format in a session, and let readers push filters down if they request it (Spark 4.1).

    errors   InvalidInputError when the workers of a local session run another Python than this one
    """
    check_worker_python(spark)
    try:
        spark.dataSource.register(LakeIdxDataSource)
    except PySparkException as error:
        # Spark 4.0 refuses a name that it has found by itself, in `pyspark_lakeidx`; later ones replace it.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    spark.conf.set(_PUSHDOWN, "true")


def read_table(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read some columns and rows of a table as a data frame."""
    register(spark)
    reader = spark.read.format(FORMAT).options(**(options or {}))
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    if where is not None:
        reader = reader.option("where", where)
    with python_errors():
        return reader.load(uri)


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
