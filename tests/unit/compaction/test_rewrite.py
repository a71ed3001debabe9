"""One bucket's compaction, carried out: what it reads, writes and says must be committed."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.compaction.bucket import BucketCompaction
from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.compaction.rewrite import compact_bucket
from lakeidx.data.read_data_file import read_data_file
from lakeidx.format.data_file import FileSource
from lakeidx.format.manifest import FileKind
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import filled_table, make_table, upsert
from tests.kit.upserts import upsert_table


def work_of(table: Table, *, full: bool = True, shrink: bool = False) -> list[BucketCompaction]:
    view = load_view(table.metadata, table.snapshot)
    return plan_buckets(table.metadata, table.schema, view, full=full, shrink=shrink, now_ms=0)


def random_text(i: int) -> str:
    """Text that does not compress much."""
    return hashlib.sha256(str(i).encode()).hexdigest()[:24]


def test_the_entries_replace_every_input_by_sorted_files_of_the_top_level(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, k, "a") for k in (3, 1, 2)])
    upsert(table, [(1, 2, "b"), (1, 1, None)], ["+U", "-D"])
    (work,) = work_of(table)
    done = compact_bucket(work)
    removed = [e for e in done.changes.compact if e.kind is FileKind.DELETE]
    added = [e for e in done.changes.compact if e.kind is FileKind.ADD]
    assert {e.file.file_name for e in removed} == work.all_files
    (file,) = (e.file for e in added)
    assert (file.level, file.row_count, file.delete_row_count) == (work.task.max_level, 2, 0)
    assert file.file_source == int(FileSource.COMPACT)
    # Java keeps the sequence numbers of the records that won.
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3)
    path = table.paths.data_file({"p": 1}, work.bucket, file.file_name)
    rows = pa.concat_tables(read_data_file(table.store, path, file, table.schema, table.schema))
    assert rows.to_pydict() == {
        "_SEQUENCE_NUMBER": [3, 0], "_VALUE_KIND": [2, 0], "p": [1, 1], "k": [2, 3], "v": ["b", "a"],
    }  # fmt: skip
    assert (done.rows_in, done.rows_out, done.bytes_in) == (5, 2, sum(e.file.file_size for e in removed))
    assert done.changes.compact_index == ()


def test_deletes_stay_where_older_rows_may_lie_below(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"num-sorted-run.compaction-trigger": "2", "bucket": "1"})
    upsert(table, [(1, k, random_text(k)) for k in range(5000)])
    run_compaction(table.metadata, LocalRunner(1), full=True)
    for k in range(3):
        upsert(table, [(1, k, None)], ["-D"])
    (work,) = work_of(table, full=False)
    assert len(work.kept) == 1
    done = compact_bucket(work)
    (file,) = (e.file for e in done.changes.compact if e.kind is FileKind.ADD)
    assert (file.row_count, file.delete_row_count) == (3, 3)


@pytest.mark.parametrize("distinct", [3, 5000])
def test_text_that_repeats_and_text_that_does_not_come_out_as_they_went_in(tmp_path: Path, distinct: int) -> None:
    """Few values stay dictionaries from file to file, with a dictionary of its own in each."""
    table = make_table(tmp_path, options={"bucket": "1"})
    expected: dict[Any, Any] = {}
    for batch in range(3):
        values = [(1, k, None if k % 11 == 0 else f"{batch}-{k % distinct}-é") for k in range(batch * 1000, 6000)]
        expected |= {k: v for _, k, v in values}
        upsert(table, values)
    (work,) = work_of(table)
    done = compact_bucket(work)
    (file,) = (e.file for e in done.changes.compact if e.kind is FileKind.ADD)
    path = table.paths.data_file({"p": 1}, 0, file.file_name)
    rows = pq.read_table(path, columns=["k", "v"], partitioning=None).to_pydict()
    assert dict(zip(rows["k"], rows["v"], strict=True)) == expected
    assert rows["k"] == sorted(rows["k"])


@pytest.mark.slow
def test_outputs_roll_at_the_target_size_in_key_order(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "1", "target-file-size": "64 kb"})
    n = 30_000
    batch = pa.table({"p": pa.array([1] * n, pa.int32()), "k": pa.array(range(n), pa.int64()),
                      "v": pa.array([random_text(i) for i in range(n)])})  # fmt: skip
    upsert_table(make_context(table.metadata, "b1"), batch)
    upsert_table(make_context(table.metadata, "b2"), batch.slice(0, n // 2))
    (work,) = work_of(table)
    done = compact_bucket(work)
    files = [e.file for e in done.changes.compact if e.kind is FileKind.ADD]
    assert len(files) > 2
    assert sum(f.row_count for f in files) == n
    firsts = [
        pq.read_table(table.paths.data_file({"p": 1}, 0, f.file_name), columns=["k"], partitioning=None).column(0)
        for f in files
    ]
    joined = [k for column in firsts for k in column.to_pylist()]
    assert joined == list(range(n))


def test_a_rewrite_and_its_result_pickle(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")], [(1, 1, "b")])
    (work,) = work_of(table, shrink=True)
    done = compact_bucket(pickle.loads(pickle.dumps(work)))
    assert pickle.loads(pickle.dumps(done)).rows_out == 1


_MEMORY = """
import sys
from lakeidx.api.table import Table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.tasks.runner import LocalRunner
from tests.kit.peak_memory import peak_mib
report = run_compaction(Table.open(sys.argv[1]).metadata, LocalRunner(1), full=True)
print(report.rows_in, report.rows_out, peak_mib())
"""


@pytest.mark.slow
def test_a_bucket_of_ten_million_rows_compacts_under_a_gibibyte(tmp_path: Path) -> None:

    table = make_table(tmp_path, options={"bucket": "1"})
    step = 2_500_000
    for i in range(4):
        # Interleaved runs: every batch has keys of the whole range.
        k = np.arange(step, dtype=np.int64) * 4 + i
        v = pa.array(k * 2654435761 % (1 << 32)).cast(pa.string())
        batch = pa.table({"p": pa.array(np.ones(step, np.int32)), "k": pa.array(k), "v": v})
        upsert_table(make_context(table.metadata, f"b{i}"), batch)
        del batch, v, k
    done = subprocess.run([sys.executable, "-c", _MEMORY, table.uri], capture_output=True, text=True, check=True)
    rows_in, rows_out, peak_mib = map(int, done.stdout.split())
    assert (rows_in, rows_out) == (4 * step, 4 * step)
    assert peak_mib < 1024, f"{peak_mib} MiB"
