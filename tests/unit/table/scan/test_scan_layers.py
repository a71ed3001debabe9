"""Scans: damaged indexes, buckets by their own number, row order over threads, limits, explain; index rebuild."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.container import decode_index_container
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import run_file_index_rebuild, spec_of_options, spec_to_build, spec_to_drop
from lakeidx.tasks.in_parallel import run_ordered
from lakeidx.tasks.runner import LocalRunner
from tests.kit.command_line import answer, call, lines
from tests.kit.small_tables import table_spec

SPEC = table_spec("k BIGINT, v INT, f BOOLEAN", ["k"], options={"bucket": "2"})


def make(folder: Path, options: dict[str, str] | None = None) -> Table:
    """400 rows, v = k % 7, compacted into one file per bucket."""
    table = Table.create(f"{folder}/d.db/t", {**SPEC, "options": {**SPEC["options"], **(options or {})}})
    keys = list(range(400))
    table.upsert(pa.table({"k": keys, "v": pa.array([2 * (k % 7) for k in keys], pa.int32())}), missing="null")
    run_compaction(table.metadata, LocalRunner(1), full=True)
    return table


def test_rebuild_adds_replaces_and_drops(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = {f.file_name for b in table.scan().plan.buckets for f in b.files()}
    runner = LocalRunner(1)
    # Odd numbers are inside the bounds of v but nowhere in it: only an index can tell.
    assert table.scan(where="v = 5").explain().metrics.read.files == 2
    assert run_file_index_rebuild(table.metadata, runner, spec_to_build(table.schema, "bitmap", ["v"])).rewritten == 2
    explained = table.scan(where="v = 5").explain()
    assert explained.metrics.read.files == 0
    assert explained.metrics.indexes[("bitmap", "v")].spared == 2
    run_file_index_rebuild(table.metadata, runner, spec_to_build(table.schema, "bloom-filter", ["k"]))
    files = [f for b in table.scan().plan.buckets for f in b.files()]
    assert {f.file_name for f in files} == before
    for b in table.scan().plan.buckets:
        for f in b.files():
            (name,) = f.extra_files
            container = decode_index_container(Path(table.uri, f"bucket-{b.bucket}", name).read_bytes())
            assert {c: set(kinds) for c, kinds in container.items()} == {"v": {"bitmap"}, "k": {"bloom-filter"}}
    assert run_file_index_rebuild(table.metadata, runner, spec_to_drop("bitmap", [])).rewritten == 2
    assert table.scan(where="v = 5").explain().metrics.read.files == 2
    assert run_file_index_rebuild(table.metadata, runner, spec_of_options(table.schema)).rewritten == 2
    left = [f for b in table.scan().plan.buckets for f in b.files()]
    assert not any(f.extra_files or decode_index_container(f.embedded_index or b"") for f in left)
    assert run_file_index_rebuild(table.metadata, runner, spec_of_options(table.schema)).snapshot_ids == ()
    assert table.scan().to_arrow().num_rows == 400
    # No manifest entry that was deleted comes again: Java would take it for deleted for good.
    added, deleted = [], []  # type: ignore[var-annotated]
    for snapshot in table.metadata.snapshots():
        for meta in table.metadata.load_manifest_list(snapshot.delta_manifest_list):
            for entry in table.metadata.load_manifest(meta.file_name):
                (added if entry.kind == 0 else deleted).append(entry.identifier)
    assert len(set(added)) == len(added)
    assert set(deleted) < set(added)
    with pytest.raises(InvalidInputError, match="nope"):
        spec_to_build(table.schema, "bitmap", ["nope"])


def test_the_command_line_lists_rebuilds_and_explains(tmp_path: Path) -> None:
    table = make(tmp_path)
    rebuilt = answer("index", "rebuild", table.uri, "--type", "bitmap", "--columns", "v", "--no-progress")
    assert rebuilt["rewritten"] == 2
    found = lines("scan", table.uri, "--where", "v = 5", "--explain", "--format", "jsonl")
    layers = {line["layer"]: line for line in found}
    assert layers["bitmap index of v"]["spared"] == 2
    assert layers["file index"]["kept"] == 0
    call("index", table.uri, "--format", "jsonl")
    call("index", "rebuild", table.uri, "--type", "none", "--columns", "v", code=2)


def test_results_come_in_order_and_errors_in_their_turn() -> None:
    def work(n: int) -> Iterator[int]:
        for i in range(20):
            if n == 7 and i == 3:
                raise InvalidInputError("seven")
            yield 100 * n + i

    results = run_ordered(range(10), work, lambda _: 1, threads=3, budget_bytes=5)
    seen = [next(results) for _ in range(143)]
    with pytest.raises(InvalidInputError, match="seven"):
        next(results)
    assert seen == [100 * n + i for n in range(7) for i in range(20)] + [700, 701, 702]


def test_a_scan_that_is_abandoned_stops_its_threads() -> None:
    made: list[int] = []

    def work(n: int) -> Iterator[int]:
        for i in range(1000):
            made.append(n)
            yield i

    results = run_ordered(range(50), work, lambda _: 1, threads=2, budget_bytes=10)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert len(made) < 1000
