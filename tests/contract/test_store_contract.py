"""The contract of object stores over a local disk, memory, a real S3 server (mark `s3`), a stand-in for
Google's store, and Azure's emulator (mark `azure`)."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.storage import ObjectStore, join, open_store
from lakeidx.storage.memory import MemoryStore
from lakeidx.storage.probe import forget_probes
from lakeidx.testing.store_contract import StoreContract
from tests.kit.azurite import run_azurite
from tests.kit.object_server import TOKEN, ObjectServer, object_server
from tests.kit.s3_server import S3Server, s3_server

__all__ = ["s3_server"]  # a fixture, found by its name


@pytest.fixture(scope="module")
def google() -> Iterator[ObjectServer]:
    with object_server(TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def stand_in() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture(scope="module")
def azurite() -> Iterator[dict[str, Any]]:
    with run_azurite() as options:
        yield options


class TestLocalStore(StoreContract):
    """A local disk, by plain path."""

    @pytest.fixture
    def base(self, tmp_path: Path) -> str:
        return str(tmp_path / "ware house" / "t")

    @pytest.fixture
    def store(self, base: str) -> ObjectStore:
        return open_store(base)


class TestFileUri(StoreContract):
    """A local disk, by file URI."""

    @pytest.fixture
    def base(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}/t"

    @pytest.fixture
    def store(self, base: str) -> ObjectStore:
        return open_store(base)


class TestMemory(StoreContract):
    """The memory of this process; a forked child has a copy of it."""

    @pytest.fixture
    def base(self) -> str:
        return "/t"

    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore()

    def test_pickled_and_forked(self, store: ObjectStore, base: str) -> None:
        store.put(join(base, "f"), b"data")
        copy = pickle.loads(pickle.dumps(store))
        assert copy.get(join(base, "f")) == b"data"
        packed = pickle.dumps(MemoryStore())
        with pytest.raises(UnsupportedError, match="in the process that made it"):
            pickle.loads(packed)


@pytest.mark.s3
class TestS3Store(StoreContract):
    """A real S3 server."""

    forks = False
    rounds = 5  # this server lets the losers of a race wait for seconds

    @pytest.fixture
    def base(self, s3_server: S3Server) -> str:
        return s3_server.fresh_uri("contract ü")

    @pytest.fixture
    def store(self, s3_server: S3Server, base: str) -> ObjectStore:
        return open_store(base, s3_server.storage_options)

    def test_environment_names(self, s3_server: S3Server, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in s3_server.environment.items():
            monkeypatch.setenv(name, value)
        store = open_store(base)
        assert store.put_if_absent(join(base, "f"), b"1")
        assert open_store(base.replace("s3://", "s3a://")).get(join(base, "f").replace("s3://", "s3a://")) == b"1"
        assert s3_server.secret not in repr(store)


@pytest.mark.slow
class TestMinio(StoreContract):
    """A stand-in that does as MinIO: pages of its own size, and nothing below an object."""

    forks = False

    @pytest.fixture
    def base(self) -> str:
        return f"s3://lake/contract ü {uuid.uuid4().hex}"

    @pytest.fixture
    def store(self, stand_in: ObjectServer, base: str) -> ObjectStore:
        stand_in.page, stand_in.minio = 3, True
        return open_store(base, stand_in.options)

    def test_nothing_is_put_below_a_file(self, store: ObjectStore, base: str) -> None:
        store.put(join(base, "f"), b"1")
        with pytest.raises(InvalidInputError, match="the store refused the request"):
            store.put_if_absent(join(base, "f", "g"), b"2")
        assert [f.name for f in store.walk(base)] == ["f"]


@pytest.mark.slow
class TestGoogle(StoreContract):
    """A stand-in that speaks what the client sends to Google; the real store was not tried."""

    forks = False

    @pytest.fixture
    def base(self) -> str:
        return f"gs://lake/contract ü {uuid.uuid4().hex}"

    @pytest.fixture
    def store(self, google: ObjectServer, base: str) -> ObjectStore:
        google.page = 3
        return open_store(base, {"endpoint_url": google.url, "token": TOKEN})


@pytest.mark.azure
class TestAzure(StoreContract):
    """Azure's emulator."""

    forks = False

    @pytest.fixture
    def base(self, azurite: dict[str, Any]) -> str:
        return f"{azurite['uri']}/contract ü {uuid.uuid4().hex}"

    @pytest.fixture
    def store(self, azurite: dict[str, Any], base: str) -> ObjectStore:
        return open_store(base, {name: value for name, value in azurite.items() if name != "uri"})


@pytest.fixture(scope="module", autouse=True)
def _probes_forgotten() -> Iterator[None]:
    forget_probes()
    yield
    forget_probes()
