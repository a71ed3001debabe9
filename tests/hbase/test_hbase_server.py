"""The HBase key index against a real HBase: standalone, with its Thrift server, started by deploy/hbase/hbase.sh."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError
from lakeidx.key_index.hbase.client import (
    HBaseLocations,
    RateLimiter,
    StoredLocation,
    create_location_table,
)
from lakeidx.key_index.hbase.hbase_index import HBaseKeyIndex
from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.index_history import GLOBAL_TYPES, IndexedTable, Model, apply, fixed_history
from tests.kit.ports import free_ports
from tests.unit.key_index.fake_table import FakeTable
from tests.unit.key_index.hbase_cases import HBaseCases

pytestmark = [pytest.mark.hbase, pytest.mark.slow]
SCRIPT = Path(__file__).parents[2] / "deploy" / "hbase" / "hbase.sh"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a running Thrift server; LAKEIDX_HBASE_PORT names one that runs already."""
    given = os.environ.get("LAKEIDX_HBASE_PORT")
    if given:
        yield int(given)
        return
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    folder, (port,) = tmp_path_factory.mktemp("hbase"), free_ports(1)
    subprocess.run([str(SCRIPT), "start", str(folder), str(port)], check=True, timeout=HANGS_SECONDS)
    try:
        yield port
    finally:
        subprocess.run([str(SCRIPT), "stop", str(folder)], check=False, timeout=HANGS_SECONDS)


@pytest.fixture
def options(server: int) -> dict[str, str]:
    """Options of a new HBase table; limits out of the way."""
    made = {
        "index.hbase.thrift.host": "127.0.0.1",
        "index.hbase.thrift.port": str(server),
        "hoodie.index.hbase.get.batch.size": "1000",
        "hoodie.index.hbase.put.batch.size": "1000",
        "index.hbase.max-requests-per-second": "1000000",
        "index.hbase.timeout-ms": str(1000 * HANGS_SECONDS),
    }
    # The master may still be coming up behind a Thrift server that answers.
    end = time.monotonic() + HANGS_SECONDS
    while True:
        # A table whose creation got no answer may be there: the next attempt makes another.
        made["hoodie.index.hbase.table"] = f"t_{uuid.uuid4().hex}"
        try:
            create_location_table(HBaseOptions(made))
            return made
        except UnavailableError:
            if time.monotonic() > end:
                raise


class TestRealHBase(HBaseCases):
    @pytest.fixture
    def options(self, options: dict[str, str]) -> dict[str, str]:
        return options

    @pytest.fixture
    def locations(self, options: dict[str, str]) -> HBaseLocations:
        return HBaseLocations(HBaseOptions(options), connections=2)


def test_columns_are_hudis(options: dict[str, str]) -> None:
    """Read with happybase alone: family, qualifiers and values as Hudi's index has them."""
    import happybase

    locations = HBaseLocations(HBaseOptions(options), connections=1)
    locations.put([("ключ".encode(), StoredLocation("20260101000000001", "f-0", "p=é", 0))])
    connection = happybase.Connection("127.0.0.1", int(options["index.hbase.thrift.port"]))
    row = connection.table(options["hoodie.index.hbase.table"]).row("ключ".encode())
    assert row == {
        b"_s:commit_ts": b"20260101000000001",
        b"_s:file_name": b"f-0",
        b"_s:partition_path": "p=é".encode(),
    }
    connection.close()


def test_a_new_table_has_a_filter_and_the_block_cache(options: dict[str, str]) -> None:
    """Thrift makes tables without, whose gets read blocks of every file from the disk."""
    import happybase

    connection = happybase.Connection("127.0.0.1", int(options["index.hbase.thrift.port"]))
    family = connection.table(options["hoodie.index.hbase.table"]).families()[b"_s"]
    connection.close()
    assert (family["bloom_filter_type"], family["block_cache_enabled"], family["max_versions"]) == (b"ROW", True, 10)


def test_rows_that_no_index_writer_leaves(options: dict[str, str]) -> None:
    import happybase

    connection = happybase.Connection("127.0.0.1", int(options["index.hbase.thrift.port"]))
    connection.table(options["hoodie.index.hbase.table"]).put(b"half", {b"_s:commit_ts": b"1"})
    connection.close()
    assert HBaseLocations(HBaseOptions(options), connections=1).get([b"half", b"none"]) == {}


def test_tables_that_cannot_serve(options: dict[str, str]) -> None:
    import happybase

    missing = HBaseOptions({**options, "hoodie.index.hbase.table": "no_such_table", "index.hbase.attempts": "1"})
    with pytest.raises(NotFoundError, match="no_such_table"):
        HBaseLocations(missing, connections=1)
    with pytest.raises(InvalidInputError, match="exists"):
        create_location_table(HBaseOptions(options))
    name = f"t_{uuid.uuid4().hex}"
    connection = happybase.Connection("127.0.0.1", int(options["index.hbase.thrift.port"]))
    connection.create_table(name, {"_s": {"max_versions": 1}})
    connection.close()
    with pytest.raises(InvalidInputError, match="VERSIONS"):
        HBaseLocations(HBaseOptions({**options, "hoodie.index.hbase.table": name}), connections=1)


def test_a_connection_that_breaks_is_made_again(options: dict[str, str]) -> None:
    locations = HBaseLocations(HBaseOptions(options), connections=1)
    locations.put([(b"k", StoredLocation("1", "f", "p", 0))])
    with locations._pool.connection() as connection:
        connection.transport.close()
    assert locations.get([b"k"])[b"k"].file_id == "f"


def test_limits_hold(options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that is put takes a permit of the limit; how permits make requests wait, a test with a clock of its own shows."""
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(RateLimiter, "acquire", lambda self, permits: taken.append((self._limit, permits)))
    slow = {**options, "index.hbase.max-requests-per-second": "100", "hoodie.index.hbase.put.batch.size": "50"}
    table = FakeTable(tmp_path / "t", ("STRING",))
    key_index = HBaseKeyIndex()
    batch = table.batch([("a", (f"k{i}",)) for i in range(250)])
    key_index.load(batch, np.zeros(250, np.int32), table.context(slow))
    assert {limit for limit, _ in taken} == {100}
    assert sum(permits for _, permits in taken) >= 250


def test_a_history_through_the_stages(options: dict[str, str], tmp_path: Path) -> None:
    """Updates, inserts, deletes and moves between partitions, batch by batch: the table is the dictionary's. A batch that dies
    after its locations were put is run again."""
    given = {**GLOBAL_TYPES["hbase"], **options}
    table = IndexedTable.make(tmp_path, "hbase", given)
    model: Model = {}
    for number, batch in enumerate(fixed_history(13)):
        if number == 3:
            with (
                mock.patch("lakeidx.batch.stages.commit.commit_changes", side_effect=KeyboardInterrupt),
                pytest.raises(KeyboardInterrupt),
            ):
                table.upsert(batch, f"b{number}")
        table.upsert(batch, f"b{number}")
        table.upsert(batch, f"b{number}")
        apply(model, batch, over_partitions=True)
        table.check(model)
