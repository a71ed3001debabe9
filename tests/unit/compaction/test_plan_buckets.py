"""What is looked at before a compaction is planned: numbers of sorted runs, and buckets that were written since nothing was due."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lakeidx.api.table import Table
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.plan import plan_compaction
from lakeidx.compaction.plan_buckets import due_buckets, plan_due
from lakeidx.format.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.format.snapshot import Snapshot
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.entry_decoder import entries_of
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import make_table, upsert

SPEC = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "partitionKeys": []}
OPTIONS = [
    {},
    {"num-sorted-run.compaction-trigger": "2"},
    {"compaction.size-ratio": "100000"},
    {"compaction.max-size-amplification-percent": "1"},
    {"compaction.total-size-threshold": "1 kb"},
    {"compaction.incremental-size-threshold": "1 kb"},
    {"compaction.optimization-interval": "1 h"},
    {"compaction.force-up-level-0": "true"},
]


def bucket_files(random: np.random.Generator, schema: TableSchema) -> list[DataFileMeta]:
    none = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    out = []
    for i in range(int(random.integers(1, 9))):
        low, high = (with_arity(encode_row([k], schema.key_types), 1) for k in (10 * i, 10 * i + 9))
        out.append(
            DataFileMeta(
                file_name=f"data-{i}.parquet", file_size=int(random.integers(1, 2000)), row_count=1, min_key=low,
                max_key=high, key_stats=none, value_stats=none, min_sequence_number=i, max_sequence_number=i,
                schema_id=0, level=int(random.choice([0, 0, 0, 1, 5])), delete_row_count=0,
            )
        )  # fmt: skip
    return out


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: next(iter(o), "default"))
def test_buckets_left_out_need_no_compaction(options: dict[str, str]) -> None:
    schema = new_schema({**SPEC, "options": {"bucket": "300", **options}})
    random = np.random.default_rng(5)
    buckets = [bucket_files(random, schema) for _ in range(300)]
    needed = {b for b, files in enumerate(buckets) if plan_compaction(files, schema, full=False, now_ms=0)}
    assert len(needed) > 0
    entry = ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=300, file=buckets[0][0])
    entries = entries_of(replace(entry, bucket=b, file=f) for b, files in enumerate(buckets) for f in files)
    due = due_buckets(entries, compaction_options(schema))
    left = {e.bucket for e in due}
    assert needed <= left
    assert [e.file for e in due] == [f for b, files in enumerate(buckets) if b in left for f in files]
    if options in OPTIONS[:1]:
        assert len(left) < 300, "most buckets are below the trigger"


def _runs(table: Table, partition: int, count: int) -> Snapshot:
    for i in range(count):
        upsert(table, [(partition, 1, f"{i}")])
    found = table.metadata.latest_snapshot()
    assert found is not None
    return found


def _due(table: Table, clean: Snapshot | None = None) -> list[int]:
    fresh = Table.open(table.uri)
    assert fresh.snapshot is not None
    found = plan_due(fresh.metadata, fresh.schema, fresh.snapshot, clean=clean)
    return sorted(decode_partition_dict(w.partition, fresh.schema)["p"] for w in found)


@pytest.mark.slow
def test_only_buckets_written_since_nothing_was_due_are_looked_at(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"num-sorted-run.compaction-trigger": "3"})
    clean = _runs(table, 1, 2)
    _runs(table, 2, 2)
    assert _due(table) == _due(table, clean) == []
    # The runs of before count, too.
    _runs(table, 1, 1)
    assert _due(table) == _due(table, clean) == [1]
    # Partition 1 is due in a snapshot that is called clean, so what is found later shows what was looked at.
    later = _runs(table, 3, 1)
    _runs(table, 2, 1)
    assert _due(table, later) == [2]
    assert _due(table) == [1, 2]
    run_compaction(table.metadata, LocalRunner(1))
    assert _due(table, later) == _due(table) == []


def test_what_time_makes_due_or_an_expired_snapshot_needs_a_look_at_everything(tmp_path: Path) -> None:
    options = {"num-sorted-run.compaction-trigger": "3", "compaction.optimization-interval": "1 ms"}
    table = make_table(tmp_path, options=options)
    clean = _runs(table, 1, 3)
    _runs(table, 2, 1)
    assert 1 in _due(table, clean)
    plain = make_table(tmp_path / "plain", options={"num-sorted-run.compaction-trigger": "3"})
    clean = _runs(plain, 1, 3)
    _runs(plain, 2, 2)
    assert _due(plain, clean) == []
    plain.store.delete(plain.paths.snapshot_path(clean.id + 1))
    assert _due(plain, clean) == [1]
