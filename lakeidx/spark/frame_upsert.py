"""Upserting a Spark DataFrame with every stage in Spark's tasks, for batches of any size and for streams.

    from lakeidx.spark import upsert
    upsert(frame, "/lake/shop.db/orders")
    stream.writeStream.foreachBatch(lambda rows, n: upsert(rows, "/lake/shop.db/orders", batch_id=f"orders-{n}"))

``frame.write.format("lakeidx")`` stages rows in tasks as well, but Spark runs what comes after them in a process that can start no
tasks, only processes beside it. Here the caller's session runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from lakeidx.batch.committed_batch import BatchResult
from lakeidx.errors import LakeIdxError
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.spark.catalog_tables import refresh_names
from lakeidx.spark.jobs import described
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.runner import RESULT_SCHEMA, SparkRunner, collected, result_row
from lakeidx.spark.table_writer import TableWriter
from lakeidx.spark.values import TIME_ZONE, arrow_schema, check_names
from lakeidx.spark.workers.python import check_worker_python, python_errors


def upsert(
    frame: DataFrame,
    table: PathLike,
    *,
    batch_id: str | None = None,
    replay: str = "refuse",
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
    parallelism: int | None = None,
) -> BatchResult:
    """Upsert the rows of a data frame as one batch; row kinds in column ``_kind`` when present.

    table         its directory, as a path or URI
    batch_id      a batch that was committed under it changes nothing; of a stream, made from the number of the micro-batch
    replay        other rows under a batch id that is known: refuse, or skip to leave them out. Those count that came first, also
                  when that batch still has to be committed; for frames that differ each time they are computed
    overwrite     replace the partitions that the rows touch (the table, when it has no partitions)
    options       as of ``frame.write.format("lakeidx")``
    parallelism   slots of the cluster; default as Spark says
    errors        InvalidInputError for rows or columns that the table does not take; as `lakeidx.batch.upsert.finish_batch`
    """
    given = {**(options or {}), "replay": replay, **({} if batch_id is None else {"batch-id": batch_id})}
    result = write_frame(frame, table, given, overwrite=overwrite, parallelism=parallelism)
    assert result is not None
    return result


def write_frame(
    frame: DataFrame,
    table: PathLike,
    options: Mapping[str, str] | None = None,
    *,
    overwrite: bool = False,
    parallelism: int | None = None,
    operation: str | None = None,
    read_on: int | None = None,
) -> BatchResult | None:
    """Write a frame as one batch; see `upsert`.

    operation, read_on   of a verb: see `lakeidx.batch.context.BatchContext`
    returns              None for a verb without rows: then nothing is written
    """
    session = frame.sparkSession
    check_worker_python(session)
    check_names(frame)
    table = path_text(table)
    given = {**(options or {}), "path": table}
    zone = session.conf.get(TIME_ZONE)
    columns = arrow_schema(frame.schema)
    writer = TableWriter(ReadOptions.parse(given, writes=True), columns, overwrite=overwrite, time_zone=zone)
    writer.operation, writer.read_on = operation, read_on
    stage = f"ingest: batch {writer.batch_id} of {table}"
    # pyspark takes a dot in the name of a column for a path.
    numbered = frame.toDF(*map(str, range(len(columns))))
    try:
        with described(session, stage), python_errors():
            found = collected(numbered.mapInArrow(_staging(writer, columns.names), RESULT_SCHEMA))
        messages = [message for _, message in found]
        if read_on is not None and not any(m.rows for m in messages):
            return None
        result = writer.finish(messages, SparkRunner(session, parallelism=parallelism))
    except BaseException:
        writer.abort([])
        raise
    refresh_names(session, table)
    return result


def _staging(writer: TableWriter, names: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task that stages its rows, and returns the parts."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield result_row(0, True, writer.write(b.rename_columns(names) for b in batches))
        except LakeIdxError as error:
            yield result_row(0, False, error)

    return run
