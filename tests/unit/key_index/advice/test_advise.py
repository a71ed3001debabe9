"""Measures against counts made by hand over real files; predictions and recommendations on plain cases."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.advice.advise import measure_workload, recommend
from lakeidx.key_index.advice.measures import Measures, Needs
from lakeidx.key_index.advice.model import Machine
from lakeidx.key_index.advice.sizing import FPP, NUM_BUCKETS, NUM_ENTRIES, TARGET_ROWS, sizing
from lakeidx.key_index.locations import KeyLocations
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import index_types
from lakeidx.key_index.simple import SimpleKeyIndex
from tests.unit.key_index.fake_table import FakeTable

BASE = Measures(
    rows=6_000_000, bytes=600_000_000, files=12, partitions=1, batch_rows=600_000, key_bytes=18.0, key_column_bytes=6.0,
    spread=1.0, touched_files=12.0, touched_rows=6e6, touched_partitions=1.0, held_files=12.0, update_share=0.9,
    move_share=0.0, largest_file_rows=500_000,
)  # fmt: skip


def _measure(
    table: FakeTable, rows: list[tuple[str, tuple[int]]], *, is_global: bool = False, times: int = 1
) -> Measures:
    batch = table.batch(rows)
    located: KeyLocations = SimpleKeyIndex(is_global=is_global).tag(batch, table.context())
    return measure_workload(batch, located, table.live, batch_rows=times * len(rows))


def test_ordered_and_random_keys(tmp_path: Path) -> None:
    ordered = FakeTable(tmp_path / "ordered")
    for b in range(10):
        ordered.write("a", b, [((k,), 0) for k in range(100 * b, 100 * b + 100)])
    found = _measure(ordered, [("a", (k,)) for k in range(900, 1000, 5)])
    # Every key has one of the ten files as its candidate, and all keys the same one.
    assert found.spread == pytest.approx(0.1)
    assert found.key_order == "ordered"
    assert found.touched_files == pytest.approx(1.0, abs=1e-6)
    assert (found.rows, found.files, found.partitions, found.largest_file_rows) == (1000, 10, 1, 100)
    assert found.update_share == 1.0
    mixed = FakeTable(tmp_path / "random")
    for b in range(10):
        mixed.write("a", b, [((k,), 0) for k in range(b, 1000, 10)])
    found = _measure(mixed, [("a", (k,)) for k in range(100, 900, 7)])
    assert found.spread == pytest.approx(1.0)
    assert found.key_order == "random"
    assert found.touched_files == pytest.approx(10.0, abs=0.01)


def test_updates_moves_and_partitions(tmp_path: Path) -> None:
    table = FakeTable(tmp_path / "t")
    table.write("a", 0, [((k,), 0) for k in range(10)])
    table.write("b", 0, [((k,), 0) for k in range(10, 30)])
    table.write("c", 0, [((k,), 0) for k in range(30, 40)])
    rows = [("a", (k,)) for k in range(8)] + [("b", (8,)), ("b", (9,)), ("b", (100,)), ("b", (101,))]
    found = _measure(table, rows, is_global=True)
    assert found.update_share == pytest.approx(10 / 12)
    assert found.move_share == pytest.approx(2 / 10)
    assert (found.touched_partitions, found.touched_rows) == (2, 30)


def test_a_sample_stands_for_its_batch(tmp_path: Path) -> None:
    """One key of a file in the sample and a thousand times as many in the batch: the file is hit for certain."""
    table = FakeTable(tmp_path / "t")
    for b in range(4):
        table.write("a", b, [((k,), 0) for k in range(10 * b, 10 * b + 10)])
    rows = [("a", (5,)), ("a", (15,))]
    assert _measure(table, rows, times=1000).touched_files == pytest.approx(2.0)
    assert _measure(table, rows, times=1000).batch_rows == 2000
    with pytest.raises(InvalidInputError):
        _measure(table, [])


def test_an_empty_table(tmp_path: Path) -> None:
    found = _measure(FakeTable(tmp_path / "t"), [("a", (1,))])
    assert (found.rows, found.files, found.spread, found.update_share, found.move_share) == (0, 0, 0.0, 0.0, 0.0)
    assert recommend(found).index_type in {t.name for t in index_types()}


def test_every_type_is_predicted_and_the_cheapest_is_taken() -> None:
    advice = recommend(BASE)
    assert {p.index_type for p in advice.predictions} == {t.name for t in index_types()}
    able = [p for p in advice.predictions if not p.why_not]
    assert advice.index_type == min(able, key=lambda p: p.seconds).index_type
    assert all(p.seconds > 0 and p.memory >= 0 and p.bytes >= 0 for p in advice.predictions)


@pytest.mark.parametrize(
    ("needs", "out"),
    [
        (Needs(), {"global-bloom", "global-simple", "inmemory", "hbase"}),
        (Needs(moves=True), {"hash", "bucket", "bloom", "simple", "inmemory", "hbase"}),
        (Needs(other_writers=True), {"bucket", "hbase", "global-bloom", "global-simple", "inmemory"}),
        (Needs(stateless=True, hbase=True), {"state", "hbase", "inmemory", "global-bloom", "global-simple"}),
        (Needs(hbase=True), {"inmemory", "global-bloom", "global-simple"}),
    ],
)
def test_needs_rule_types_out(needs: Needs, out: set[str]) -> None:
    advice = recommend(BASE, needs)
    assert {p.index_type for p in advice.predictions if p.why_not} == out
    assert advice.index_type not in out


def test_moves_that_were_seen_ask_for_a_global_type() -> None:
    advice = recommend(dataclasses.replace(BASE, move_share=0.1))
    assert advice.index_type in ("state", "global-bloom", "global-simple")


def test_order_decides_between_bloom_and_simple() -> None:
    def seconds(m: Measures) -> dict[str, float]:
        return {p.index_type: p.seconds for p in recommend(m).predictions}

    random = seconds(BASE)
    assert random["simple"] < random["bloom"]
    many = dataclasses.replace(BASE, rows=600_000_000, files=1200, touched_rows=6e8, batch_rows=60_000)
    ordered = seconds(dataclasses.replace(many, spread=1 / 1200, touched_files=3.0, held_files=3.0))
    assert ordered["bloom"] < ordered["simple"] / 10


def test_slow_stores_cost_by_file() -> None:
    near = {p.index_type: p for p in recommend(BASE).predictions}
    far = {p.index_type: p for p in recommend(BASE, machine=Machine(latency_ms=100.0)).predictions}
    assert far["simple"].seconds - near["simple"].seconds == pytest.approx(2 * 12 * 0.0999 / 2)
    assert far["bucket"].seconds == near["bucket"].seconds


def test_sizes_are_options_that_can_be_read() -> None:
    sizes = sizing(BASE)
    options = IndexOptions(sizes)
    assert options.hoodie_index_bloom_num_entries >= BASE.largest_file_rows
    # Less than half a false positive among all pairs of a batch.
    assert float(sizes[FPP]) * BASE.batch_rows * BASE.files <= 0.5
    assert options.dynamic_bucket_target_row_num == int(sizes[TARGET_ROWS]) <= 2_000_000
    tiny = dataclasses.replace(BASE, rows=0, bytes=0, files=0, partitions=0, largest_file_rows=0)
    assert int(sizing(tiny)[NUM_BUCKETS]) == 1
    assert int(sizing(tiny)[NUM_ENTRIES]) == 1000
    assert NUM_BUCKETS not in recommend(BASE, Needs(other_writers=True)).options
