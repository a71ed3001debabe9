"""Random histories of two writers on object stores that fail at random: no row is lost or doubled, and no error is silent.

Each batch adds a one to the sums of some keys, so that one which is lost, or counts twice, shows. LAKEIDX_HISTORIES says how many
(`make test`: a fixed share), LAKEIDX_SEED which is the first.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import tenacity

from lakeidx.api.table import Table
from lakeidx.batch.upsert import make_context, upsert_table
from lakeidx.errors import LakeIdxError, NotFoundError
from lakeidx.storage.probe import forget_probes
from lakeidx.storage.remote import clients
from lakeidx.storage.remote import store as remote
from tests.kit.object_server import Act, ObjectServer, object_server
from tests.kit.share import WHOLE

pytestmark = pytest.mark.slow
FIRST = int(os.environ.get("LAKEIDX_SEED", "0"))
HISTORIES = int(os.environ.get("LAKEIDX_HISTORIES", "1000" if WHOLE else "40"))
SPEC: dict[str, Any] = {
    "fields": [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
    "primaryKeys": ["k"],
    "partitionKeys": [],
    "options": {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}
ACTS: tuple[Act, ...] = (409, 429, 500, 503, "unheard", "lost", "unsure", "cut", "short")
_KEYS = 12


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectServer]:
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "RETRY_WAIT", tenacity.wait_none())
        patch.setattr(clients, "FIRST_WAIT_SECONDS", 0.001)
        yield server


class Writer(threading.Thread):
    """Commits batches, each under its own name and again until it knows that it is in the table."""

    def __init__(self, uri: str, options: dict[str, Any], seed: str) -> None:
        super().__init__()
        self.uri, self.options, self.random, self.seed = uri, options, random.Random(seed), seed
        self.sums: Counter[int] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for number in range(3):
                keys = self.random.sample(range(_KEYS), self.random.randint(1, 6))
                self._commit(f"{self.seed}-{number}", pa.table({"k": keys, "v": [1] * len(keys)}))
                self.sums.update(keys)
        except BaseException as error:
            self.error = error

    def _commit(self, name: str, rows: pa.Table) -> None:
        for _ in range(60):
            try:
                table = Table.open(self.uri, self.options)
                upsert_table(make_context(table.metadata, name), rows)
                return
            except LakeIdxError as error:
                if isinstance(error, NotFoundError):
                    # A listing that lags does not show the table yet.
                    time.sleep(0.02)
                elif not error.retryable:
                    raise
        raise AssertionError(f"{name} did not come through")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
def test_nothing_is_lost_or_doubled(running: ObjectServer, seed: int) -> None:
    running.reset()
    chance = random.Random(seed)
    scheme = chance.choice(("s3", "gs"))
    share, running.page = chance.choice((0.02, 0.08, 0.2)), chance.choice((2, 1000))
    options = {**running.options, "max_attempts": 3} if scheme == "s3" else {"endpoint_url": running.url, "token": "t"}
    uri = f"{scheme}://b/h{seed}/wh/d.db/t"
    Table.create(uri, SPEC, options)
    lock = threading.Lock()

    def act(number: int, kind: str, key: str) -> Act:
        with lock:
            return chance.choice(ACTS) if chance.random() < share else "pass"

    running.act, running.lag = act, chance.choice((0, 0, 0.02, 0.1))
    writers = [Writer(uri, options, f"{seed}-{n}") for n in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    running.act, running.lag = (lambda number, kind, key: "pass"), 0
    for writer in writers:
        if writer.error is not None:
            raise writer.error
    found = Table.open(uri, options).scan().to_arrow().to_pylist()
    assert {row["k"]: row["v"] for row in found} == dict(writers[0].sums + writers[1].sums)
    assert len({row["k"] for row in found}) == len(found)
    forget_probes()
