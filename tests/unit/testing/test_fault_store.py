from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakeidx.errors import CommitUnknownError, UnavailableError
from lakeidx.storage import LocalStore
from lakeidx.testing.fault_store import FaultStore


@pytest.fixture
def store() -> FaultStore:
    return FaultStore(LocalStore(sync=False))


def test_before_nothing_happened(store: FaultStore, tmp_path: Path) -> None:
    fault = store.fail("put", "snapshot-7")
    path = str(tmp_path / "snapshot-7")
    store.put(str(tmp_path / "other"), b"1")
    with pytest.raises(UnavailableError, match="fault injected into put") as caught:
        store.put(path, b"1")
    assert caught.value.path == path
    assert not store.exists(path)
    store.put(path, b"1")
    assert fault.hits == 1


def test_after_it_happened(store: FaultStore, tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot-7")
    store.fail("put_if_absent", when="after", error=CommitUnknownError("lost"))
    with pytest.raises(CommitUnknownError):
        store.put_if_absent(path, b"1")
    assert store.get(path) == b"1"


def test_times_skip_and_heal(store: FaultStore, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    store.fail(["get", "size"], lambda p: p.endswith("/f"), times=2, skip=1, error=lambda: UnavailableError("no"))
    store.put(path, b"1")
    assert store.get(path) == b"1"
    for call in (store.size, store.get):
        with pytest.raises(UnavailableError):
            call(path)
    assert store.get(path) == b"1"
    store.fail(times=1000)
    with pytest.raises(UnavailableError):
        store.list(str(tmp_path))
    store.heal()
    assert len(store.list(str(tmp_path))) == 1


def test_anything_may_happen_in_between(store: FaultStore, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    store.fail("put_if_absent", act=lambda verb, p: store.inner.put(p, b"the other writer"))
    assert not store.put_if_absent(path, b"mine")
    assert store.get(path) == b"the other writer"


def test_deletes_can_stop_half_way(store: FaultStore, tmp_path: Path) -> None:
    paths = [str(tmp_path / f"f{n}") for n in range(4)]
    for p in paths:
        store.put(p, b"1")
    store.fail("delete", skip=2)
    with pytest.raises(UnavailableError):
        store.delete_many(paths)
    assert [i.name for i in store.list(str(tmp_path))] == ["f2", "f3"]
    assert ("delete", paths[2]) in store.calls


def test_faults_do_not_travel(store: FaultStore, tmp_path: Path) -> None:
    store.fail(times=100)
    copy = pickle.loads(pickle.dumps(store))
    copy.put(str(tmp_path / "f"), b"1")
    assert copy.get(str(tmp_path / "f")) == b"1"
