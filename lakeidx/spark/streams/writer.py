"""``writeStream.format("lakeidx")``: upserts each micro-batch, exactly once over restarts.

A micro-batch that Spark runs again must be known again. Spark tells a Python sink the number of a batch only when it is committed,
and never which query it is of. Both are in the query's checkpoint: its ``metadata`` has an id, made anew where there is no
checkpoint, and the newest file of ``offsets`` has the number of the batch that runs. So a batch of the table is named by the two,
and a query that begins again at 0, with a new checkpoint under an old path, is another query.

Spark makes the sink anew for each batch, and once more for its commit, when the table may have other columns. So what a task
returns also has the writer that its rows were staged by.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakeidx.errors import InternalError, InvalidInputError, LakeIdxError
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from lakeidx.spark.task_errors import one_line
from lakeidx.storage import open_store

_OTHERWISE = "or write by .foreachBatch(lambda rows, n: upsert(rows, path, batch_id=f'name-{n}'))"
_EXAMPLE = '.option("checkpointLocation", "/lake/checkpoints/orders")'


@dataclass
class _StreamRows(WriterCommitMessage):
    """Rows that one task staged, and their writer."""

    writer: TableWriter
    staged: WriterCommitMessage


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch; in the output mode complete, it replaces the table.

    given   options by their names in lower case
    """

    def __init__(self, given: Mapping[str, str], columns: pa.Schema, *, overwrite: bool) -> None:
        if "batch-id" in given:
            raise InvalidInputError("batch-id: a stream has many batches, which it names by its checkpoint")
        self.options = ReadOptions.parse({**given, "batch-id": "of the checkpoint"}, writes=True)
        checkpoint = given.get("checkpointlocation")
        if checkpoint is None:
            raise InvalidInputError(
                "a stream into a table names its batches by its checkpoint, of which Spark tells lakeidx only what is an option: "
                f"{_EXAMPLE}, {_OTHERWISE}"
            )
        query, self.number = running_batch(checkpoint, self.options.storage)
        named = replace(self.options, batch_id=f"{query}-{self.number}")
        self.writer = TableWriter(named, columns, overwrite=overwrite, whole=True)

    @one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return _StreamRows(self.writer, self.writer.write(iterator))

    @one_line
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Run all staged rows through assignment, write and commit."""
        if batchId != self.number:
            raise InternalError(f"the checkpoint says that batch {self.number} runs, and Spark commits batch {batchId}")
        writer, staged = self._staged(messages)
        writer.commit(staged)

    @one_line
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the staged files; nothing was published."""
        writer, staged = self._staged(messages)
        writer.abort(staged)

    def _staged(self, messages: Sequence[WriterCommitMessage | None]) -> tuple[TableWriter, list[WriterCommitMessage]]:
        found = [m for m in messages if isinstance(m, _StreamRows)]
        return found[0].writer if found else self.writer, [m.staged for m in found]


def running_batch(checkpoint: str, storage: Mapping[str, str]) -> tuple[str, int]:
    """Return the id of the query that has a checkpoint, and the number of the batch that it runs.

    errors   InvalidInputError when lakeidx cannot read it
    """
    try:
        store = open_store(checkpoint, storage or None)
        query = str(json.loads(store.get(f"{checkpoint}/metadata"))["id"])
        numbers = [int(f.name) for f in store.list(f"{checkpoint}/offsets") if f.name.isdigit()]
        return query, max(numbers)
    except (LakeIdxError, ValueError, KeyError, TypeError) as error:
        said = error.message if isinstance(error, LakeIdxError) else "it is not what Spark writes"
        raise InvalidInputError(
            f"the checkpoint cannot be read ({said}): {_EXAMPLE} names one in a folder or an object store that lakeidx reaches, "
            f"{_OTHERWISE}",
            path=checkpoint,
        ) from error
