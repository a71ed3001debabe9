"""Bad input to the index family: filters that are missing, unknown or damaged, and an HBase that is away.

States that belong elsewhere are in test_state.py, Hudi tables in test_hudi_table.py.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from lakeidx.cli.main import app
from lakeidx.errors import CorruptFileError, UnavailableError, UnsupportedError
from lakeidx.format.hudi.footer import BLOOM_FILTER, FILTER_TYPE_CODE
from lakeidx.key_index.bloom.bloom_index import BloomKeyIndex
from lakeidx.key_index.hbase.client import HBaseLocations
from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.key_index.locations import KeyLocations, LiveFile
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports
from tests.unit.key_index.fake_table import FakeTable

FILTERS = {
    "index.type": "bloom",
    "hoodie.index.bloom.num_entries": "20",
    "hoodie.index.bloom.fpp": "0.000001",
    "hoodie.bloom.index.filter.dynamic.max.entries": "40",
}
ROWS = [("a", (k,)) for k in range(8)]


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path / "t")


def _change_footer(file: LiveFile, changes: dict[bytes, bytes | None]) -> None:
    read = pq.read_table(file.path)
    metadata = {**read.schema.metadata, **{k: v for k, v in changes.items() if v is not None}}
    for key, value in changes.items():
        if value is None:
            metadata.pop(key, None)
    pq.write_table(read.replace_schema_metadata(metadata), file.path)
    object.__setattr__(file.meta, "file_size", Path(file.path).stat().st_size)


def _tag(table: FakeTable, *, is_global: bool, options: dict[str, str] | None = None) -> KeyLocations:
    return BloomKeyIndex(is_global=is_global).tag(table.batch(ROWS), table.context(options or {}))


def _three_files(table: FakeTable, changes: dict[bytes, bytes | None]) -> LiveFile:
    table.write("a", 0, [((k,), 0) for k in (0, 1, 7)], options=FILTERS)
    changed = table.write("a", 1, [((k,), 0) for k in (2, 5)], options=FILTERS)
    table.write("a", 2, [((k,), 0) for k in (3, 6)], options=FILTERS)
    _change_footer(changed, changes)
    return changed


@pytest.mark.parametrize("is_global", [False, True])
def test_a_footer_without_a_filter_has_its_keys_read(table: FakeTable, is_global: bool) -> None:
    _three_files(table, {BLOOM_FILTER: None, FILTER_TYPE_CODE: None})
    for bad in ("read-keys", "fail"):
        found = _tag(table, is_global=is_global, options={"index.bad-filter": bad})
        assert found.bucket.tolist() == [0, 0, 1, 2, -1, 1, 2, 0]
        assert (found.metrics.files_without_filter, found.metrics.bad_filters, found.metrics.files_probed) == (1, 0, 2)


BAD: dict[str, dict[bytes, bytes | None]] = {
    "an unknown type code": {FILTER_TYPE_CODE: b"CUCKOO"},
    "no type code, which means SIMPLE": {FILTER_TYPE_CODE: None},
    "no base64": {BLOOM_FILTER: b"****"},
    "cut short": {BLOOM_FILTER: b"/////wAAAAo="},
    "empty": {BLOOM_FILTER: b""},
    "no text": {BLOOM_FILTER: b"\xff\xfe\x00"},
}


@pytest.mark.slow
@pytest.mark.parametrize("is_global", [False, True])
@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_a_filter_that_cannot_be_read(table: FakeTable, changes: dict[bytes, bytes | None], is_global: bool) -> None:
    file = _three_files(table, changes)
    found = _tag(table, is_global=is_global)
    assert found.bucket.tolist() == [0, 0, 1, 2, -1, 1, 2, 0]
    assert (found.metrics.bad_filters, found.metrics.files_without_filter, found.metrics.files_probed) == (1, 0, 2)
    with pytest.raises((CorruptFileError, UnsupportedError)) as caught:
        _tag(table, is_global=is_global, options={"index.bad-filter": "fail"})
    assert caught.value.path == file.path


@pytest.fixture
def hanging_up() -> Iterator[tuple[int, list[int]]]:
    """A server that takes connections and ends them: its port, and one entry per connection."""
    calls: list[int] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                calls.append(1)
                taken.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], calls
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_hbase_is_tried_again_then_unavailable(hanging_up: tuple[int, list[int]]) -> None:
    port, calls = hanging_up
    options = {
        "hoodie.index.hbase.table": "t",
        "index.hbase.thrift.host": "127.0.0.1",
        "index.hbase.thrift.port": str(port),
        "index.hbase.attempts": "3",
    }
    with pytest.raises(UnavailableError, match="does not answer"):
        HBaseLocations(HBaseOptions(options), connections=1)
    # The server's thread counts a connection a little after the client has it.
    end = time.monotonic() + HANGS_SECONDS
    while len(calls) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    # A failed attempt may leave the library a new connection for the next one.
    assert 3 <= len(calls) <= 6


@pytest.mark.slow
def test_nothing_is_written_while_hbase_is_away(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    spec = tmp_path / "spec.json"
    spec.write_text(
        json.dumps(
            {
                "fields": [{"name": "id", "type": "INT"}, {"name": "v", "type": "STRING"}],
                "primaryKeys": ["id"],
                "partitionKeys": [],
                "options": {
                    "bucket": "-1",
                    "index.type": "hbase",
                    "hoodie.index.hbase.table": "t",
                    "index.hbase.thrift.host": "127.0.0.1",
                    "index.hbase.thrift.port": str(port),
                    "index.hbase.attempts": "2",
                },
            }
        )
    )
    uri = tmp_path / "wh" / "db.db" / "t"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "v": "a"}\n')
    run = CliRunner()
    assert run.invoke(app, ["table", "create", str(uri), "--schema", str(spec)]).exit_code == 0
    before = sorted(p.relative_to(uri) for p in uri.rglob("*") if p.is_file())
    for _ in range(2):
        result = run.invoke(app, ["upsert", str(uri), str(rows), "--batch-id", "b1"])
        assert result.exit_code == 2, result.output
        assert "does not answer" in result.stderr
        assert "Traceback" not in result.stderr
        assert sorted(p.relative_to(uri) for p in uri.rglob("*") if p.is_file()) == before
