from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.peers.base import Answer, state_of
from bench.peers.data import Data, make_data
from bench.peers.environments import PeerKind, peers
from bench.peers.measure import PHASES, difference, run_peer
from bench.peers.page import Run, cell, markdown, reasons
from tests.unit.small_lineitem import small_lineitem

pytestmark = pytest.mark.slow

RUN = {
    "at": "2026-11-23T00:00:00+00:00",
    "cores": 2,
    "memory_gib": 24,
    "load_before": 0.1,
    "rows": 600,
    "small_rows": 60,
}


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """600 rows of 150 orders, as lineitem has them."""
    source = small_lineitem(150, pa.string())
    pq.write_table(source, tmp_path / "source.parquet")
    return make_data(tmp_path / "source.parquet", 600, tmp_path / "data")


def test_the_model_takes_the_last_row_of_a_key(data: Data) -> None:
    rows: dict[tuple[int, int], int] = {}
    for name in ("load", "upsert", "small"):
        for row in pq.read_table(data.files[name]).to_pylist():
            rows[row["l_orderkey"], row["l_linenumber"]] = row["l_partkey"]
    held = data.held(("load", "upsert", "small"))
    assert (held.rows, held.total) == (len(rows), sum(rows.values()))
    wanted = [(k["l_orderkey"], k["l_linenumber"]) for k in pq.read_table(data.files["keys-1"]).to_pylist()]
    there = [rows[k] for k in wanted if k in rows]
    assert 0 < len(there) < len(wanted)
    assert data.found(("load", "upsert", "small"), "keys-1") == Answer(len(there), sum(there))


def test_a_value_at_the_wrong_key_is_seen(data: Data) -> None:
    rows = pq.read_table(data.files["load"])
    values = np.asarray(rows.column("l_partkey"))
    at = int(np.argmax(values))
    swapped = values.copy()
    swapped[[0 if at else 1, at]] = swapped[[at, 0 if at else 1]]
    false = rows.set_column(1, "l_partkey", pa.array(swapped))
    assert difference(state_of([rows]), data.held(("load",))) == ""
    assert difference(state_of([false]), data.held(("load",))).startswith("mixed ")


def test_a_peer_goes_through_all_phases(data: Data, tmp_path: Path) -> None:
    (kind,) = [k for k in peers() if k.name == "DuckDB"]
    figures = run_peer(kind, data, data, tmp_path / "tables", tmp_path / "cache", 60)
    told = {f.phase: f.status for f in figures}
    assert told == {name: "ok" for name, _, _ in PHASES} | {"compaction": "not supported"}


def test_a_wrong_result_has_no_time(data: Data, tmp_path: Path) -> None:
    (kind,) = [k for k in peers() if k.name == "DuckDB"]
    pq.write_table(pq.read_table(data.files["load"]).slice(1), tmp_path / "short.parquet")
    # The model knows the whole file.
    assert data.held(("load",)).rows == 600
    data.files["load"] = tmp_path / "short.parquet"
    figures = run_peer(kind, data, data, tmp_path / "tables", tmp_path / "cache", 60)
    assert figures[0].status == "wrong"
    assert figures[0].seconds is None
    assert "rows 599, wanted 600" in figures[0].why
    assert {f.status for f in figures[1:]} == {"not reached"}


def test_a_missing_peer_is_shown_with_its_reason(data: Data, tmp_path: Path) -> None:
    absent = PeerKind("absent", "none", tools=("no-such-program",))
    run: Run = {**RUN, "figures": [asdict(f) for f in run_peer(absent, data, data, tmp_path, tmp_path, 1)]}
    assert {cell(f) for f in run["figures"]} == {"missing"}
    assert reasons(run) == ["absent, all phases: missing (no no-such-program on the PATH)"]
    assert "| absent | missing |" in markdown(run)


def test_a_cell_has_three_numbers() -> None:
    figure = {
        "peer": "p",
        "phase": "load",
        "status": "ok",
        "why": "",
        "seconds": 1.234,
        "cpu_seconds": 56.78,
        "peak_mib": 1024,
    }
    assert cell(figure) == "1.23 / 56.8 / 1,024"
