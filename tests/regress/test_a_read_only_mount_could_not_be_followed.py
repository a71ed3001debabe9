"""A stream of a table that its reader may not write to: a warning that it has no read lease, whatever says no."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, LakeIdxError, UnavailableError
from lakeidx.storage.files import translate
from lakeidx.table.stream.consumer import LEASE_MS, LEASE_PREFIX
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import make_table, upsert

DENIED = [errno.EROFS, errno.EACCES, errno.EPERM]
FULL = [errno.ENOSPC, errno.EDQUOT]


def refusal(number: int, path: str = "x") -> LakeIdxError:
    """Return the error of a local store, with its cause."""
    cause = OSError(number, os.strerror(number), path)
    error = translate(cause, path)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("number", DENIED)
def test_what_may_never_be_written_is_no_passing_fault(number: int) -> None:
    assert isinstance(refusal(number), InvalidInputError)


@pytest.mark.parametrize("number", [*FULL, errno.EIO])
def test_what_may_pass_is_tried_again(number: int) -> None:
    assert isinstance(refusal(number), UnavailableError)


@pytest.mark.parametrize("number", [*DENIED, *FULL])
def test_the_table_is_followed_without_a_lease(tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    # A lease that another reader left when it died.
    dead = Path(table.uri) / f"consumer/consumer-{LEASE_PREFIX}dead"
    dead.parent.mkdir()
    dead.write_text('{"nextSnapshot": 1}', encoding="utf-8")
    long_ago = time.time() - 10 * LEASE_MS / 1000
    os.utime(dead, (long_ago, long_ago))
    store = FaultStore(table.store)
    denied = ("put", "put_if_absent") if number in FULL else ("put", "put_if_absent", "delete")
    store.fail(denied, error=lambda: refusal(number), times=100)
    steps = Table(store, table.paths).follow()
    assert next(iter(steps)).position.snapshot == 1
    steps.close()
    assert "no read lease" in caplog.text


def test_a_passing_fault_of_the_lease_is_an_error(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    store = FaultStore(table.store)
    store.fail("put", "/consumer/", error=lambda: refusal(errno.EIO), times=100)
    with pytest.raises(UnavailableError):
        next(iter(Table(store, table.paths).follow()))
