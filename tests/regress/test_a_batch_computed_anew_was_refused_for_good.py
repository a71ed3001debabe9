"""A query of Spark died between a batch and its log of it, and its rows differ each time: every restart was refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.rollback import roll_back_table
from tests.kit.small_tables import make_table, upsert

pytest.importorskip("pyspark")

from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])


def batch(table: Table, value: str, keys: int = 3, **options: str) -> None:
    """Write as Spark does, under the same id each time."""
    given = ReadOptions.parse({"path": table.uri, "batch-id": "b1", **options})
    writer = TableWriter(given, SCHEMA, overwrite=False)
    rows = pa.record_batch([[1] * keys, list(range(keys)), [value] * keys], schema=SCHEMA)
    writer.commit([writer.write(iter([rows]))])


def found(table: Table) -> list[str]:
    return [r["v"] for r in Table.open(table.uri).scan().to_arrow().sort_by("k").to_pylist()]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path)
    upsert(made, [(1, 0, "before")])
    return made


def test_rows_that_come_again_otherwise_are_left_out(table: Table) -> None:
    batch(table, "first")
    for keys in (3, 5):
        with pytest.raises(InvalidInputError, match="batch 'b1' was ingested with other content"):
            batch(table, "second", keys)
        batch(table, "second", keys, replay="skip")
    assert found(table) == ["first"] * 3
    assert Table.open(table.uri).metadata.latest_snapshot_id() == 2


def test_a_batch_that_died_before_its_commit_is_finished_as_it_was(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lakeidx.batch.upsert.finish_batch", dies)
        with pytest.raises(KeyboardInterrupt):
            batch(table, "first")
    assert found(table) == ["before"]
    batch(table, "second", replay="skip")
    assert found(table) == ["first"] * 3


def test_a_batch_that_was_rolled_back_takes_the_new_rows(table: Table) -> None:
    batch(table, "first")
    roll_back_table(table.metadata, table.schema, snapshot_id=1)
    batch(table, "second", replay="skip")
    assert found(table) == ["second"] * 3


@pytest.mark.parametrize(
    ("options", "says"),
    [({"replay": "yes", "batch-id": "b"}, "replay: write refuse or skip"), ({"replay": "skip"}, "give batch-id, too")],
)
def test_what_does_not_say_what_is_skipped(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        ReadOptions.parse({"path": "/t", **options})
