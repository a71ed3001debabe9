"""What goes is said before it goes; of snapshots that is shown in `tests.unit.table.stream.test_consumer`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakeidx.api import Table
from lakeidx.format.paths import TablePaths
from lakeidx.storage import open_store
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.history import changelog_ids
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.position import Position
from lakeidx.table.stream.start import Start, StartMode
from lakeidx.testing.fault_store import FaultStore


def test_an_expiry_of_changelogs_and_a_stream_that_begin_at_once(tmp_path: Path) -> None:
    """Of changelogs that outlive their snapshots, too, what goes is said first, and consumers are looked at after that."""
    options = {"bucket": "1", "changelog-producer": "input", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1",
               "changelog.num-retained.min": "9", "changelog.num-retained.max": "9"}  # fmt: skip
    table = Table.create(
        f"{tmp_path}/d.db/t", {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": options}
    )
    for k in range(5):
        table.upsert(pa.table({"k": [k]}))
    expire_table(table.metadata, table.schema, now_ms=1 << 60)
    assert changelog_ids(table.metadata) == [1, 2, 3, 4]
    table.alter(set={"changelog.num-retained.min": "2", "changelog.num-retained.max": "2"})
    store = FaultStore(open_store(table.uri))
    expiring = TableMetadata(store, TablePaths.of(table.uri, table.schema))
    streams: list[Position] = []

    def begin(verb: str, path: str) -> None:
        streams.append(StreamConsumer(table.metadata).begin(Start(StartMode.FROM_SNAPSHOT, snapshot=0)))

    store.fail("put", "changelog/EARLIEST", when="before", act=begin)
    assert expire_table(expiring, table.schema, now_ms=1 << 60).changelogs == ()
    assert Path(table.paths.changelog_earliest).read_text() == "1"
    for lease in (Path(table.uri) / "consumer").glob("*"):
        lease.unlink()
    store.heal()
    store.fail("put", "changelog/EARLIEST", when="after", act=begin)
    assert expire_table(expiring, table.schema, now_ms=1 << 60).changelogs == (1, 2, 3)
    assert [p.snapshot for p in streams] == [0, 3]
