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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
import tenacity

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.errors import LakeIdxError, NotFoundError
from lakeidx.storage.probe import forget_probes
from lakeidx.storage.remote import clients
from lakeidx.storage.remote import store as remote
from tests.kit.azurite import run_azurite
from tests.kit.object_server import Act, ObjectServer, object_server
from tests.kit.s3_proxy import faulty_proxy
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.share import WHOLE
from tests.kit.upserts import upsert_table

__all__ = ["s3_server"]  # a fixture, found by its name
FIRST = int(os.environ.get("LAKEIDX_SEED", "0"))
HISTORIES = int(os.environ.get("LAKEIDX_HISTORIES", "1000" if WHOLE else "40"))
#: Of them, on servers of their own.
SERVED = HISTORIES // 10
SPEC: dict[str, Any] = {
    "fields": [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}],
    "primaryKeys": ["k"],
    "partitionKeys": [],
    "options": {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}
ACTS: tuple[Act, ...] = (409, 429, 500, 503, "unheard", "lost", "unsure", "cut", "short")
SHARES = (0.02, 0.08, 0.2)
_KEYS = 12
T = TypeVar("T")


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


def check_two_writers(
    uri: str, options: dict[str, Any], seed: int, fail: Callable[[], None], mend: Callable[[], None]
) -> None:
    """Let two writers commit to a new table while the store fails, and compare it with what they committed."""
    Table.create(uri, SPEC, options)
    writers = [Writer(uri, options, f"{seed}-{n}") for n in range(2)]
    fail()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    mend()
    for writer in writers:
        if writer.error is not None:
            raise writer.error
    found = Table.open(uri, options).scan().to_arrow().to_pylist()
    assert {row["k"]: row["v"] for row in found} == dict(writers[0].sums + writers[1].sums)
    assert len({row["k"] for row in found}) == len(found)
    forget_probes()


def acting(chance: random.Random, share: float, acts: Sequence[T]) -> Callable[[int, str, str], T | Literal["pass"]]:
    """Return what does one of some acts to a share of the requests."""
    lock = threading.Lock()

    def act(number: int, kind: str, key: str) -> T | Literal["pass"]:
        with lock:
            return chance.choice(acts) if chance.random() < share else "pass"

    return act


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
def test_nothing_is_lost_or_doubled(running: ObjectServer, seed: int) -> None:
    running.reset()
    chance = random.Random(seed)
    scheme = chance.choice(("s3", "gs"))
    share, running.page = chance.choice(SHARES), chance.choice((2, 1000))
    options = {**running.options, "max_attempts": 3} if scheme == "s3" else {"endpoint_url": running.url, "token": "t"}

    def fail() -> None:
        running.act, running.lag = acting(chance, share, ACTS), chance.choice((0, 0, 0.02, 0.1))

    def mend() -> None:
        running.act, running.lag = (lambda number, kind, key: "pass"), 0

    check_two_writers(f"{scheme}://b/h{seed}/wh/d.db/t", options, seed, fail, mend)


@pytest.fixture(scope="module")
def azurite() -> Iterator[dict[str, Any]]:
    with run_azurite() as options:
        yield options


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RETRY_WAIT", tenacity.wait_none())
    monkeypatch.setattr(clients, "FIRST_WAIT_SECONDS", 0.001)


def check_behind_proxy(uri: str, options: dict[str, Any], seed: int) -> None:
    """Let two writers reach a server through a proxy that is busy, or loses answers."""
    chance = random.Random(seed)
    where = urlsplit(options["endpoint_url"])
    with faulty_proxy(f"{where.scheme}://{where.netloc}") as proxy:

        def fail() -> None:
            proxy.act = acting(chance, chance.choice(SHARES), ("busy", "lost"))

        def mend() -> None:
            proxy.act = lambda number, method, path: "pass"

        check_two_writers(uri, {**options, "endpoint_url": f"{proxy.url}{where.path}"}, seed, fail, mend)


@pytest.mark.azure
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SERVED))
def test_nothing_is_lost_or_doubled_on_azure(azurite: dict[str, Any], impatient: None, seed: int) -> None:
    options = {name: value for name, value in azurite.items() if name != "uri"}
    check_behind_proxy(f"{azurite['uri']}/h{seed}/wh/d.db/t", options, seed)


@pytest.mark.s3
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SERVED))
def test_nothing_is_lost_or_doubled_on_s3(s3_server: S3Server, impatient: None, seed: int) -> None:
    check_behind_proxy(f"{s3_server.fresh_uri()}/wh/d.db/t", s3_server.storage_options, seed)
