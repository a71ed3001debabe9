"""Buckets whose tasks read their rows from the parts hold the same rows, in the same order, as those that rows are sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.stages import part_work
from lakeidx.batch.upsert import make_context, upsert_files
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner

TARGET_ROWS = 20_000
SPEC: dict[str, Any] = {
    "fields": [
        {"name": "k", "type": "BIGINT"},
        {"name": "v", "type": "STRING"},
        {"name": "n", "type": "BIGINT"},
    ],
    "primaryKeys": ["k"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": str(TARGET_ROWS)},
}
SPEC_NAMES = ("k", "v", "n")


class SendingRunner(LocalRunner):
    """Runs in this process as if its tasks were in others, and counts the rows that are sent."""

    in_memory = False

    def __init__(self, parallelism: int) -> None:
        super().__init__(parallelism)
        self.sent = 0

    def shuffle(self, split: Any, items: Any, combine: Any, **more: Any) -> Any:
        def counted(item: Any) -> Any:
            for routed in split(item):
                if set(SPEC_NAMES) <= set(routed.rows.column_names):
                    self.sent += routed.rows.num_rows
                yield routed

        return super().shuffle(counted, items, combine, **more)


def landing(folder: Path, *, again: bool = True) -> list[str]:
    """Write two files in key order; with `again`, some keys of each bucket come again in later rows of both files."""
    keys = np.arange(120_000)
    if again:
        late = np.random.default_rng(5).choice(keys[:100_000], 60, replace=False)
        # Behind rows of their bucket, of others, and in the other file.
        keys = np.insert(keys, np.sort(np.random.default_rng(6).integers(1_000, 120_000, len(late))), late)
        keys = np.insert(keys, 500, keys[20])
    texts = pa.array([None if k % 13 == 0 else "abc"[k % 3] * 5 for k in keys.tolist()])
    rows = pa.table({"k": keys, "v": texts, "n": np.arange(len(keys))})
    out = []
    for number, piece in enumerate((rows.slice(0, 70_000), rows.slice(70_000))):
        out.append(str(folder / f"{number}.parquet"))
        pq.write_table(piece, out[-1], row_group_size=9_000)
    return out


def load(folder: Path, files: list[str], *, tasks: int = 0) -> tuple[Table, SendingRunner]:
    """Load files into a new table; `tasks`: that place the rows, 0: this process does."""
    table, runner = Table.create(f"{folder}/wh/d.db/t", SPEC), SendingRunner(tasks or 1)
    upsert_files(make_context(table.metadata, "b", runner=runner, driver_bytes=0 if tasks else None), files)
    return table, runner


def buckets(table: Table) -> dict[int, list[tuple[int, pa.Table]]]:
    """Return (first sequence number, rows as they lie) of each file of each bucket."""
    out: dict[int, list[tuple[int, pa.Table]]] = {}
    for entry in load_view(table.metadata, Table.open(table.uri).snapshot).entries:
        path = table.paths.data_file({}, entry.bucket, entry.file.file_name)
        out.setdefault(entry.bucket, []).append((entry.file.min_sequence_number, pq.read_table(path)))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [0, 2])
@pytest.mark.parametrize("again", [False, True])
def test_rows_that_are_read_from_the_parts_equal_rows_that_are_sent(
    tmp_path: Path, again: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = landing(tmp_path, again=again)
    read, some = load(tmp_path / "read", files, tasks=tasks)
    monkeypatch.setattr(part_work, "_MOST_READ", 0.0)
    sent, every = load(tmp_path / "sent", files, tasks=tasks)
    assert every.sent == (120_061 if again else 120_000)
    # Those that come again, or have the hash of an earlier key, and less than a long run at the border of two buckets.
    assert (20 if again else -1) < some.sent < 1500
    assert buckets(read) == buckets(sent)
    # Of two tasks one has a few rows more than fit three buckets.
    assert len(buckets(read)) == (7 if tasks else 6)


def test_a_batch_of_mixed_rows_is_sent(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).permutation(60_000)
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"k": keys, "v": pa.nulls(len(keys), pa.string()), "n": keys}), path)
    first = landing(tmp_path, again=False)
    table, _ = load(tmp_path, first)
    runner = SendingRunner(1)
    upsert_files(make_context(table.metadata, "c", runner=runner), [path])
    assert runner.sent == 60_000


def test_a_row_group_that_many_targets_share_is_read_once_and_sent(tmp_path: Path) -> None:
    keys = np.arange(120_000)
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"k": keys, "v": pa.nulls(len(keys), pa.string()), "n": keys}), path)
    table, runner = load(tmp_path, [path])
    assert runner.sent == 120_000
    assert len(buckets(table)) == 6
