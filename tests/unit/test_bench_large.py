"""The benchmark of a large table, on a small one."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import bench_large
from bench.bench_large import Held, cases, lakeidx_figure, make_held, need_disk, peer_figures
from bench.bench_upsert import expected, make_input
from bench.lineitem import streamed
from bench.peers.base import Answer
from bench.peers.data import Data
from bench.peers.environments import ROOT, peers
from tests.unit.small_lineitem import small_lineitem

pytestmark = pytest.mark.slow

ROWS = 4000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Rows of 1,250 orders in key order, with text views as tpchgen-cli writes them; a batch is no row group."""
    rows = small_lineitem(1250, pa.string_view())
    pq.write_table(rows, tmp_path / "source.parquet", row_group_size=700)
    return tmp_path / "source.parquet"


@pytest.fixture
def held(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """The first rows, and an upsert of a tenth."""
    monkeypatch.setattr("bench.lineitem.BATCH_ROWS", 1000)
    return make_held(*make_input(source, ROWS, tmp_path, 10))


def arguments(tmp_path: Path, **more: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"rows": ROWS, "share": 10, "cache": tmp_path / "cache", "limit": 60.0, **more})


def test_a_file_is_streamed_as_it_is_read_whole(source: Path) -> None:
    whole = pq.read_table(source)
    read = pa.Table.from_batches(streamed(source, 1300))
    assert read.to_pylist() == whole.slice(0, 1300).to_pylist()
    assert read.schema.field("l_comment") == pa.field("l_comment", pa.string(), nullable=False)
    columns = ["l_linenumber", "l_orderkey"]
    assert pa.Table.from_batches(streamed(source, columns=columns)).to_pylist() == whole.select(columns).to_pylist()


def test_the_upsert_is_spread_over_all_rows(held: Held) -> None:
    base, upsert = (pq.read_table(held.files[n]) for n in ("load", "upsert"))
    assert (base.num_rows, upsert.num_rows) == (ROWS, ROWS // 10)
    orders = np.sort(np.asarray(upsert.column("l_orderkey")))
    known = orders[orders < 1250]
    assert len(known) == ROWS // 20
    assert np.histogram(known, bins=4, range=(0, ROWS // 4))[0].min() > ROWS // 20 // 8


def test_counting_batch_by_batch_is_the_model_of_the_other_benchmarks(held: Held) -> None:
    model = Data(held.files, held.rows)
    for written in (("load",), ("load", "upsert")):
        assert held.held(written) == model.held(written)
        found = held.held(written)
        assert (found.rows, found.total) == expected([held.files[n] for n in written])


def test_a_base_in_no_order_is_not_counted(held: Held, tmp_path: Path) -> None:
    rows = pq.read_table(held.files["load"])
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), tmp_path / "twice.parquet")
    with pytest.raises(SystemExit, match="not in key order"):
        make_held(tmp_path / "twice.parquet", held.files["upsert"])
    with pytest.raises(SystemExit, match="a key twice"):
        make_held(held.files["load"], tmp_path / "twice.parquet")


def in_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the place of delta-rs be taken by a peer that needs no environment of its own."""
    (kind,) = [k for k in peers() if k.name == "DuckDB"]
    monkeypatch.setattr(bench_large, "peers", lambda: [kind])


def test_a_peer_loads_and_upserts(held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_duckdb(monkeypatch)
    figures = peer_figures("DuckDB", held, held, arguments(tmp_path), tmp_path / "tables", 10_000)
    assert [f["case"] for f in figures] == [f"DuckDB, {case}" for case in cases(ROWS, 10)]
    assert [(f["rows"], f["status"], f["why"]) for f in figures] == [(ROWS, "ok", None), (ROWS // 10, "ok", None)]
    assert all(f["seconds"] > 0 and f["peak_mib"] > 0 for f in figures)


def test_a_wrong_result_has_no_time(held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_duckdb(monkeypatch)
    wrong = Held(held.files, held.rows, answers=(held.answers[0], Answer(1, 1, 1)))
    load, upsert = peer_figures("DuckDB", wrong, held, arguments(tmp_path), tmp_path / "tables", 10_000)
    assert load["seconds"] is not None
    assert (upsert["seconds"], upsert["status"]) == (None, "wrong")
    assert "wanted 1" in upsert["why"]


def test_too_much_memory_has_no_time(held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_duckdb(monkeypatch)
    load, upsert = peer_figures("DuckDB", held, held, arguments(tmp_path), tmp_path / "tables", 1)
    assert (load["seconds"], load["why"]) == (None, "over the limit (took more than 1 MiB)")
    assert upsert["why"] == "not reached (nothing was loaded)"


def test_figures_of_lakeidx_have_their_targets() -> None:
    found = {"case": "load 60,000,000", "rows": 59_986_052, "seconds": 50.0, "cpu_seconds": 80.0, "note": ""}
    memory = {"driver_mib": 300, "jvm_mib": 500, "worker_mib": 800, "peak_mib": 2000}
    load = lakeidx_figure({**found, **memory}, 300)
    upsert = lakeidx_figure({**found, "case": "upsert 600,000 into 60,000,000", "seconds": 2.6}, 300)
    assert (load["peak_mib"], upsert["seconds"]) == (2000, 2.6)
    late = lakeidx_figure({**found, **memory}, 49)
    assert (late["seconds"], late["why"]) == (None, "over the limit (not done after 49 s)")


def test_lakeidx_is_measured_by_the_benchmark_of_upserts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One that prints what it is given as bench_upsert prints figures, one that fails, one that does not end.
    program = tmp_path / "python"
    for text, status in (
        ('echo \'{"case": "load 9", "seconds": 0.4}\'', "ok"),
        ("echo no java >&2; exit 3", "failed"),
        ("echo wrong result: rows 1 >&2; exit 1", "wrong"),
        ("sleep 60 & sleep 60", "over the limit"),
    ):
        program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/given\n{text}\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        figures = bench_large.lakeidx(tmp_path / "base.parquet", 9, 3, 0.5, tmp_path)
        assert {f["status"] for f in figures} == {status}
    assert "-m bench.bench_upsert --lineitem" in (tmp_path / "given").read_text()


def test_a_disk_that_is_too_small_is_said_before_anything_begins(tmp_path: Path) -> None:
    need_disk(tmp_path, 1)
    with pytest.raises(SystemExit, match=r"take [\d.]+ GB below .* which has [\d.]+ GB left"):
        need_disk(tmp_path, 10**12)
    done = subprocess.run(
        [sys.executable, "-m", "bench.bench_large", "--rows", str(10**12), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_what_is_kept_in_the_results_is_json(tmp_path: Path) -> None:
    figures = bench_large.without_time("Lance", 60_000_000, 100, "missing", "no network")
    assert json.loads(json.dumps(figures))[1]["case"] == "Lance, upsert 600,000 into 60,000,000"
    assert {f["why"] for f in figures} == {"missing (no network)"}
