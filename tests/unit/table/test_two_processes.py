"""Two processes commit to one table at once, fifty rounds: every batch lands once, no key is in two buckets."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from lakeidx.api.table import Table
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.table.view import load_view
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.small_tables import content, make_table, upsert

pytestmark = pytest.mark.slow

ROUNDS = 50


def _write(uri: str, worker: int) -> None:
    table = Table.open(uri)
    for i in range(ROUNDS):
        # Both write key i at about the same time, and each a key of its own.
        upsert(table, [(1, i, f"{worker}-{i}"), (1, 1000 * worker + i, f"own {i}")], batch_id=f"w{worker}-{i}")


def test_every_batch_lands_once(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"dynamic-bucket.target-row-num": "7", "commit.max-retries": "100"})
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_write, args=(table.uri, w)) for w in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANGS_SECONDS)
        assert worker.exitcode == 0
    table = Table.open(table.uri)
    users = [s.commit_user for s in table.metadata.snapshots()]
    assert len(users) == len(set(users)) == 2 * ROUNDS
    found = content(table)
    assert set(found) == {(1, i) for i in range(ROUNDS)} | {(1, 1000 * w + i) for w in (1, 2) for i in range(ROUNDS)}
    assert all(found[(1, i)] in (f"1-{i}", f"2-{i}") for i in range(ROUNDS))
    view = load_view(table.metadata, table.snapshot)
    hashes = [decode_hash_index(table.store.get(table.paths.index_path(e.file_name)), e.file_name) for e in view.index]
    together = np.concatenate(hashes)
    assert len(together) == len(np.unique(together)) == 3 * ROUNDS
