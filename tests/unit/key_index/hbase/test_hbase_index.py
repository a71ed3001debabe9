"""The HBase key index over a stand-in with HBase's versions, and the client's limits and tries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.hbase.client import (
    LEAST_VERSIONS,
    HBaseLocations,
    RateLimiter,
    StoredLocation,
    put_batch_size,
    put_batches,
)
from lakeidx.key_index.hbase.options import HBaseOptions
from tests.unit.key_index.hbase_cases import HBaseCases


class StandIn(HBaseLocations):
    """Rows with the newest few versions, each put at a later time; no more versions than the client asks for."""

    def __init__(self) -> None:
        self.rows: dict[bytes, list[StoredLocation]] = {}
        self.time = 0

    def get(self, keys: Sequence[bytes]) -> dict[bytes, StoredLocation]:
        return {k: self.rows[k][0] for k in keys if k in self.rows}

    def get_older(self, key: bytes, timestamp: int) -> StoredLocation | None:
        return next((v for v in self.rows.get(key, []) if v.timestamp < timestamp), None)

    def put(self, rows: Sequence[tuple[bytes, StoredLocation]]) -> None:
        for key, value in rows:
            self.time += 1
            version = StoredLocation(value.commit_ts, value.file_id, value.partition, self.time)
            self.rows[key] = [version, *self.rows.get(key, [])][:LEAST_VERSIONS]

    def delete(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self.rows.pop(key, None)


class TestStandIn(HBaseCases):
    @pytest.fixture
    def locations(self) -> HBaseLocations:
        return StandIn()

    @pytest.fixture
    def options(self) -> dict[str, str]:
        return {}


def test_a_caller_without_a_permit_waits() -> None:
    now = [0.0]
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        now[0] += seconds

    limiter = RateLimiter(100, clock=lambda: now[0], sleep=sleep)
    limiter.acquire(60)
    limiter.acquire(40)
    assert now[0] == 0.0
    limiter.acquire(1)
    assert 0.99 < now[0] < 1.02
    # 99 are left of this second, the rest takes two more.
    limiter.acquire(299)
    assert 2.9 < now[0] < 3.1
    assert set(naps) == {0.005}


@pytest.mark.parametrize(
    ("most", "most_bytes", "sizes"),
    [(4, 1000, [4, 4, 2]), (100, 75, [3, 3, 3, 1]), (100, 10, [1] * 10), (10, 250, [10])],
)
def test_what_is_put_at_once_is_bounded_by_rows_and_bytes(most: int, most_bytes: int, sizes: list[int]) -> None:
    rows = [(b"key%d" % i, StoredLocation("commit", "id", "p=1", 0)) for i in range(10)]
    assert 3 * len("key0") + len("commit") + len("id") + len("p=1") == 23
    cut = list(put_batches(rows, most, most_bytes=most_bytes))
    assert [len(c) for c in cut] == sizes
    assert [row for c in cut for row in c] == rows
    assert list(put_batches([], most)) == []


def test_puts_are_cut_by_options_and_tasks() -> None:
    assert put_batch_size(HBaseOptions({}), tasks=4) == 100
    auto = HBaseOptions({"hoodie.index.hbase.put.batch.size.autocompute": "true"})
    # int(0.5 * servers * 1000) requests over the tasks, rounded up.
    assert put_batch_size(auto, tasks=3) == 167
    assert put_batch_size(auto, tasks=3, region_servers=4) == 667
    assert put_batch_size(auto, tasks=10_000) == 1


def test_no_table_named() -> None:
    with pytest.raises(InvalidInputError, match=r"hoodie\.index\.hbase\.table"):
        HBaseLocations(HBaseOptions({}), connections=1)
