"""A sink by itself: how a checkpoint names its batches, and what a batch that comes again adds (`tests/spark/test_stream_sink.py`
has queries).
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.spark.streams.writer import StreamWriter, running_batch

COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64())])


def make_checkpoint(folder: Path, query: str, number: int) -> str:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    for n in range(number + 1):
        (folder / "offsets" / str(n)).write_text("v1")
        (folder / "offsets" / f".{n}.crc").write_text("")
    return str(folder)


def sums(folder: Path) -> Table:
    """A table that adds up what is written: a batch that counts twice shows."""
    fields = [{"name": "k", "type": "BIGINT"}, {"name": "n", "type": "BIGINT"}]
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    return Table.create(f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": options})


def write(
    table: Table,
    checkpoint: str,
    number: int,
    *,
    commit: bool = True,
    overwrite: bool = False,
    each: int = 1,
    **more: str,
) -> None:
    """One batch as Spark does it: the commit is by a writer of its own."""
    options = {"path": table.uri, "checkpointlocation": checkpoint, **more}
    rows = pa.RecordBatch.from_pydict({"k": [1, 2], "n": [each, each]}, COLUMNS)
    message = StreamWriter(options, COLUMNS, overwrite=overwrite).write(iter([rows]))
    if commit:
        StreamWriter(options, COLUMNS, overwrite=overwrite).commit([message, None], number)


def totals(table: Table) -> list[int]:
    return [r["n"] for r in Table.open(table.uri).scan().to_arrow().sort_by("k").to_pylist()]


def test_a_batch_counts_once_and_a_new_query_counts_again(tmp_path: Path) -> None:
    table = sums(tmp_path)
    first = make_checkpoint(tmp_path / "c", "a", 0)
    write(table, first, 0, commit=False)  # Dies after its rows were staged.
    write(table, first, 0)
    write(table, first, 0)  # Died before Spark noted the batch.
    assert totals(table) == [1, 1]
    write(table, make_checkpoint(tmp_path / "c", "a", 1), 1)
    assert totals(table) == [2, 2]
    # The checkpoint was deleted: another query, under the same path, from 0.
    for file in (tmp_path / "c" / "offsets").iterdir():
        file.unlink()
    write(table, make_checkpoint(tmp_path / "c", "b", 0), 0)
    assert totals(table) == [3, 3]
    write(table, make_checkpoint(tmp_path / "c", "b", 1), 1, overwrite=True)
    assert totals(table) == [1, 1]


def test_a_batch_comes_again_after_the_table_got_a_column(tmp_path: Path) -> None:
    table = sums(tmp_path)
    checkpoint = make_checkpoint(tmp_path / "c", "a", 0)
    write(table, checkpoint, 0)
    table.alter(add={"more": "INT"})
    write(table, checkpoint, 0)
    assert totals(table) == [1, 1]


def test_the_table_gets_a_column_between_the_rows_and_their_commit(tmp_path: Path) -> None:
    table = sums(tmp_path)
    checkpoint = make_checkpoint(tmp_path / "c", "a", 0)
    options = {"path": table.uri, "missing": "null", "checkpointlocation": checkpoint}
    rows = pa.RecordBatch.from_pydict({"k": [1, 2], "n": [1, 1]}, COLUMNS)
    message = StreamWriter(options, COLUMNS, overwrite=False).write(iter([rows]))
    table.alter(add={"more": "INT"})
    StreamWriter(options, COLUMNS, overwrite=False).commit([message], 0)
    assert totals(table) == [1, 1]


def test_where_a_checkpoint_may_be(tmp_path: Path) -> None:
    made = make_checkpoint(tmp_path / "c", "a", 12)
    for spelled in (made, f"{made}/", f"file:{made}", f"file://{made}"):
        assert running_batch(spelled, {}) == ("a", 12)


def test_rows_that_differ_when_a_batch_comes_again(tmp_path: Path) -> None:
    table = sums(tmp_path)
    checkpoint = make_checkpoint(tmp_path / "c", "a", 0)
    write(table, checkpoint, 0)
    with pytest.raises(InvalidInputError, match="ingested with other content"):
        write(table, checkpoint, 0, each=5)
    write(table, checkpoint, 0, each=5, replay="skip")
    assert totals(table) == [1, 1]


def test_a_checkpoint_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    uri = sums(tmp_path).uri
    (tmp_path / "c").mkdir()
    says = 'option\\("checkpointLocation", "/lake/checkpoints/orders"\\).*foreachBatch.*upsert'

    def refused(**checkpoint: str) -> None:
        with pytest.raises(InvalidInputError, match=says) as raised:
            StreamWriter({"path": uri, **checkpoint}, COLUMNS, overwrite=False)
        assert "\n" not in str(raised.value)

    refused()
    for place in (f"{tmp_path}/c", "hdfs://name/c"):
        refused(checkpointlocation=place)
    (tmp_path / "c" / "metadata").write_text("{}")
    refused(checkpointlocation=f"{tmp_path}/c")
    with pytest.raises(InvalidInputError, match="batch-id: a stream has many batches"):
        StreamWriter({"path": uri, "batch-id": "1"}, COLUMNS, overwrite=False)
