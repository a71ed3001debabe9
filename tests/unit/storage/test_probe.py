"""The probe refuses stores that do not keep the promise of conditional puts."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from lakeidx.errors import CommitUnknownError, UnsupportedError
from lakeidx.storage import LocalStore
from lakeidx.storage.local import local_path
from lakeidx.storage.probe import ensure_safe, forget_probes, probe_conditional_put
from lakeidx.testing.fault_store import FaultStore


class IgnoresTheCondition(LocalStore):
    """As a server that does not know If-None-Match: every put succeeds."""

    def fresh_session(self) -> IgnoresTheCondition:
        return self

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.put(path, data)
        return True


class ChecksThenWrites(LocalStore):
    """Looks first and writes then: fine alone, wrong in a race."""

    def fresh_session(self) -> ChecksThenWrites:
        return self

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if os.path.exists(local_path(path)):
            return False
        time.sleep(0.02)
        self.put(path, data)
        return True


class NeverSucceeds(LocalStore):
    def fresh_session(self) -> NeverSucceeds:
        return self

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return False


class KeepsNothing(LocalStore):
    """The winner is told so, but another's bytes are kept."""

    def __init__(self) -> None:
        super().__init__(sync=False)
        self._first = threading.Lock()

    def fresh_session(self) -> KeepsNothing:
        return self

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._first:
            if os.path.exists(local_path(path)):
                return False
            self.put(path, b"something else")
            return True


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (IgnoresTheCondition(), "racing conditional puts succeeded"),
        (ChecksThenWrites(), "racing conditional puts succeeded"),
        (NeverSucceeds(), "none of the racing"),
        (KeepsNothing(), "is not what the winner"),
    ],
)
def test_bad_stores_are_refused(tmp_path: Path, store: LocalStore, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        probe_conditional_put(store, str(tmp_path), clients=4, rounds=2)
    assert os.listdir(tmp_path) == []


def test_one_client_still_sees_a_replaced_file(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="must not touch"):
        probe_conditional_put(IgnoresTheCondition(), str(tmp_path), clients=1, rounds=1)


class SometimesUnknown(LocalStore):
    def fresh_session(self) -> SometimesUnknown:
        return self

    def put_if_absent(self, path: str, data: bytes) -> bool:
        won = super().put_if_absent(path, data)
        if won and data != b"late":
            raise CommitUnknownError("lost the answer", path=path)
        return won


def test_an_unknown_outcome_is_no_second_winner(tmp_path: Path) -> None:
    probe_conditional_put(SometimesUnknown(), str(tmp_path), clients=4, rounds=2)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_once_per_store_and_process(tmp_path: Path) -> None:
    forget_probes()
    store = FaultStore(LocalStore(str(tmp_path)))
    ensure_safe(store, str(tmp_path))
    asked = len(store.calls)
    assert asked > 0
    ensure_safe(store, str(tmp_path))
    assert len(store.calls) == asked
    forget_probes()
    bad = IgnoresTheCondition(str(tmp_path))
    for _ in range(2):  # a refused store is asked again
        with pytest.raises(UnsupportedError):
            ensure_safe(bad, str(tmp_path))
    forget_probes()
