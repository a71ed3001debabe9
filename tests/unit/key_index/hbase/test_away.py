"""An HBase that is away."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx.cli.main import app
from lakeidx.errors import UnavailableError
from lakeidx.key_index.hbase.client import HBaseLocations, create_location_table
from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.ports import free_ports
from tests.kit.small_tables import table_spec


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
    with pytest.raises(UnavailableError, match="does not answer") as caught:
        HBaseLocations(HBaseOptions(options), connections=1)
    assert caught.value.path == f"127.0.0.1:{port}"
    # The server's thread counts a connection a little after the client has it.
    end = time.monotonic() + HANGS_SECONDS
    while len(calls) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    # A failed attempt may leave the library a new connection for the next one.
    assert 3 <= len(calls) <= 6
    with pytest.raises(UnavailableError):
        create_location_table(HBaseOptions(options))


@pytest.mark.slow
def test_nothing_is_written_while_hbase_is_away(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    spec = tmp_path / "spec.json"
    options = {
        "bucket": "-1",
        "index.type": "hbase",
        "hoodie.index.hbase.table": "t",
        "index.hbase.thrift.host": "127.0.0.1",
        "index.hbase.thrift.port": str(port),
        "index.hbase.attempts": "2",
    }
    spec.write_text(json.dumps(table_spec("id INT, v STRING", ["id"], options=options)))
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
