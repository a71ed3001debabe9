"""What a small call makes a reader open, and a new process load: each of Spark's workers, and each command, pays for the latter."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import lakeidx
from tests.arch.sources import ROOT

MOST = 200
PROGRAM = """
import sys
import pyarrow as pa
import lakeidx

spec = {"fields": [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "STRING"}], "primaryKeys": ["id"]}
if sys.argv[1] == "create":
    lakeidx.Table.create(sys.argv[2], {**spec, "options": {"bucket": "-1"}})
else:
    lakeidx.Table.open(sys.argv[2]).upsert(pa.table({"id": [1], "name": ["Ada"]}))
print(*sorted(name for name in sys.modules if name.split(".")[0] == "lakeidx"))
"""
SPEC = {
    "fields": [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "STRING"}],
    "primaryKeys": ["id"],
    "options": {"bucket": "-1"},
}
#: Modules in which code runs for one small call, and their lines, whole modules.
MOST_RUN = {"create": (25, 5_500), "upsert": (95, 19_000), "scan": (55, 11_000), "lookup": (55, 11_000)}


def test_an_upsert_loads_few_modules(tmp_path: Path) -> None:
    for verb in ("create", "upsert"):
        program = [sys.executable, "-c", PROGRAM, verb, str(tmp_path / "t")]
        loaded = subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
    assert len(loaded) <= MOST, loaded


def test_numba_is_loaded_with_the_first_kernel() -> None:
    """Of the processes that Spark starts for one write one runs kernels; the others must not import Numba for them."""
    names = "lakeidx.spark.datasource lakeidx.spark.table_writer lakeidx.batch.index_types lakeidx.table.handle"
    program = (
        f"import importlib, sys\nfor n in {names.split()}: importlib.import_module(n)\nprint('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_small_calls_run_code_of_few_modules(tmp_path: Path) -> None:
    """The table is made and used once before, so that nothing is imported on the way."""
    made = iter(lakeidx.Table.create(f"{tmp_path}/d.db/t{n}", SPEC) for n in range(2))
    tables = [next(made)]
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: tables.append(next(made)),
        "upsert": lambda: tables[-1].upsert(pa.table({"id": [2, 3], "name": ["Grace", "Kurt"]})),
        "scan": lambda: tables[-1].scan(where="id >= 2").to_arrow(),
        "lookup": lambda: tables[-1].lookup(pa.table({"id": [2]})),
    }
    for verb in ("upsert", "scan", "lookup"):
        calls[verb]()
    ran = {"create": _run_by(calls["create"])}
    tables[-1].upsert(pa.table({"id": [1, 2], "name": ["Ada", "Alan"]}))
    ran |= {verb: _run_by(calls[verb]) for verb in ("upsert", "scan", "lookup")}
    lines = {verb: sum(len(Path(f).read_bytes().splitlines()) for f in files) for verb, files in ran.items()}
    assert not {v: (len(f), lines[v]) for v, f in ran.items() if len(f) > MOST_RUN[v][0] or lines[v] > MOST_RUN[v][1]}


def _run_by(call: Callable[[], object]) -> set[str]:
    """Return the modules of the product in which code runs for a call."""
    ran = set[str]()

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/lakeidx/"):
            ran.add(frame.f_code.co_filename)

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return ran
