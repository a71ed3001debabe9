"""Where streams begin, by the history of a table made by hand."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.stream.position import Position
from lakeidx.table.stream.start import Start, StartMode
from lakeidx.tasks.runner import LocalRunner

SPEC = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshots 1, 2 (APPEND), 3 (COMPACT), 4 (APPEND)."""
    made = Table.create(f"{tmp_path}/d.db/t", SPEC)
    for k in (1, 2):
        made.upsert(pa.table({"k": [k]}))
    run_compaction(made.metadata, LocalRunner(1), full=True)
    made.upsert(pa.table({"k": [3]}))
    return made


def found(table: Table, text: str) -> tuple[int, bool, int | None]:
    position = Start.parse(table.metadata, text).position(table.metadata)
    if position.snapshot in table.metadata.snapshot_ids():
        assert position.identity == table.metadata.load_snapshot(position.snapshot).identity
    return position.snapshot, position.whole, position.units


def test_each_start_begins_at_its_snapshot(table: Table) -> None:
    table.create_tag("two", snapshot=2)
    times = [s.time_millis for s in table.metadata.snapshots()]
    iso = datetime.datetime.fromtimestamp(times[3] / 1000, datetime.UTC).isoformat()
    assert found(table, "latest-full") == (4, True, 0)
    assert found(table, "latest") == (4, False, None)
    assert found(table, "compacted-full") == (3, True, 0)
    assert found(table, "earliest") == found(table, "1") == (0, False, None)
    assert found(table, "3") == found(table, "two") == (2, False, None)
    assert found(table, "5") == (4, False, None)
    assert found(table, iso) == (3, False, None)
    assert found(table, "2001-01-01") == (0, False, None)
    whole = Start(StartMode.FROM_SNAPSHOT_FULL, snapshot=2).position(table.metadata)
    assert (whole.snapshot, whole.whole, whole.units) == (2, True, 0)


def test_starts_that_have_expired_are_the_oldest_there_is(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    Path(table.paths.snapshot_path(1)).unlink()
    Path(table.paths.snapshot_path(2)).unlink()
    assert found(table, "earliest") == found(table, "2001-01-01") == (2, False, None)
    assert not caplog.records
    assert found(table, "1") == (2, False, None)
    assert [r.getMessage().split(": ")[1] for r in caplog.records] == [
        "snapshot 1 has expired; beginning with 3, the oldest"
    ]
    with pytest.raises(NotFoundError, match="snapshot 2 does not exist"):
        Start(StartMode.FROM_SNAPSHOT_FULL, snapshot=2).position(table.metadata)


def test_a_table_without_a_snapshot_is_followed_from_its_first_commit(tmp_path: Path) -> None:
    empty = Table.create(f"{tmp_path}/d.db/t", SPEC)
    for text in ("latest-full", "latest", "compacted-full", "earliest", "5", "2001-01-01"):
        assert Start.parse(empty.metadata, text).position(empty.metadata) == Position(0)


def test_what_is_no_start_is_named(table: Table) -> None:
    with pytest.raises(
        InvalidInputError, match="'soon': start with latest-full, latest, compacted-full, earliest, a snap"
    ):
        Start.parse(table.metadata, "soon")
    with pytest.raises(InvalidInputError, match="snapshot 6 does not exist yet; the newest is 4: start with latest"):
        found(table, "6")
    with pytest.raises(InvalidInputError, match="from-snapshot needs a snapshot id"):
        Start(StartMode.FROM_SNAPSHOT).position(table.metadata)
    with pytest.raises(InvalidInputError, match="from-timestamp needs a time"):
        Start(StartMode.FROM_TIMESTAMP).position(table.metadata)
