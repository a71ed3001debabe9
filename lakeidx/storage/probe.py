"""Probe of conditional puts: commits rest on exactly one of several racing ones being the winner.

A store that ignores ``If-None-Match`` would let two writers commit the same snapshot and lose one of them silently, so it is probed
before the first commit of a process.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lakeidx.errors import CommitUnknownError, LakeIdxError, UnsupportedError
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join

PROBE_PREFIX = ".lakeidx-probe-"
_BARRIER_SECONDS = 600
_LATE_TRIES = 5

_safe: set[str] = set()
_safe_lock = threading.Lock()


def ensure_safe(store: ObjectStore, dir: str) -> None:
    """Probe a store once per process; later calls for the same server and bucket (or disk) return at once.

    dir      where small files may be written and deleted
    errors   UnsupportedError when two clients won, or an existing file was replaced
    """
    place = store.place
    with _safe_lock:
        if place in _safe:
            return
    probe_conditional_put(store, dir, clients=4, rounds=1)
    with _safe_lock:
        _safe.add(place)


def forget_probes() -> None:
    """Probe again on the next `ensure_safe`; for tests."""
    with _safe_lock:
        _safe.clear()


def probe_conditional_put(store: ObjectStore, dir: str, *, clients: int, rounds: int) -> None:
    """Run racing clients, each with a session of its own, on fresh files; everything written is deleted again.

    errors   UnsupportedError when two won a round, when none did, or when the file does not hold what the winner wrote
    """
    base = join(dir, f"{PROBE_PREFIX}{uuid.uuid4().hex}")
    sessions = [store.fresh_session() for _ in range(clients)]
    paths = [join(base, f"round-{n}") for n in range(rounds)]
    try:
        with ThreadPoolExecutor(clients, thread_name_prefix="probe") as pool:
            for path in paths:
                _race(store, sessions, pool, path)
        if rounds and _takes_late_put(store, paths[0]):
            raise UnsupportedError("the store replaced a file that a conditional put must not touch", path=paths[0])
    finally:
        _clean_up(store, base, paths)


def _takes_late_put(store: ObjectStore, path: str) -> bool:
    """Put once more on an existing file; retried when the response is lost, since the put must change nothing."""
    for _ in range(_LATE_TRIES - 1):
        try:
            return store.put_if_absent(path, b"late")
        except CommitUnknownError:
            continue
    return store.put_if_absent(path, b"late")


def _race(store: ObjectStore, sessions: list[ObjectStore], pool: ThreadPoolExecutor, path: str) -> None:
    barrier = threading.Barrier(len(sessions), timeout=_BARRIER_SECONDS)

    def client(n: int) -> Callable[[], bool | None]:
        def run() -> bool | None:
            barrier.wait()
            try:
                return sessions[n].put_if_absent(path, _content(n))
            except CommitUnknownError:
                return None

        return run

    outcomes = [f.result() for f in [pool.submit(client(n)) for n in range(len(sessions))]]
    winners = [n for n, won in enumerate(outcomes) if won]
    if len(winners) > 1:
        raise UnsupportedError(
            f"{len(winners)} of {len(sessions)} racing conditional puts succeeded; this store cannot hold tables",
            path=path,
        )
    candidates = winners or [n for n, won in enumerate(outcomes) if won is None]
    if not candidates:
        raise UnsupportedError("none of the racing conditional puts of a new file succeeded", path=path)
    if store.get(path) not in [_content(n) for n in candidates]:
        raise UnsupportedError("the file's content is not what the winner of the race wrote", path=path)


def _content(n: int) -> bytes:
    return f"client {n}".encode()


def _clean_up(store: ObjectStore, base: str, paths: list[str]) -> None:
    try:
        store.delete_many(paths)
        store.delete_empty_dir(base)
    except LakeIdxError:
        # What the probe found matters more than a few tiny files; orphan cleaning knows their prefix.
        return
