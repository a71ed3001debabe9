"""The daemon of Spark's workers: what it loads before it forks, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, threading
from lakeidx.spark.workers import daemon

daemon._import_all()
daemon._rehearse()
kernels = sys.modules["lakeidx.codec.order.kernels"], sys.modules["lakeidx.data.merge.kernels"]
loaded = sum(len(getattr(f, "overloads", ())) for m in kernels for f in vars(m).values())
print(threading.active_count(), loaded > 2, "lakeidx.batch.stages.index_write" in sys.modules)
"""


@pytest.mark.slow
def test_a_rehearsal_loads_kernels_starts_no_thread_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout == "1 True True\n"
    assert list(tmp_path.iterdir()) == []


OF_TABLES = """
import sys
from lakeidx.spark.workers import daemon
daemon._import_all()
before = set(sys.modules)

from lakeidx.data.engines import make_engine
from lakeidx.file_index.registry import file_index_names
from lakeidx.file_index.registry import find_file_index
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import data_file_footer, index_types
from lakeidx.storage import open_store

spec = {"fields": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "INT"}], "primaryKeys": ["k"]}
for engine in ("deduplicate", "first-row", "partial-update", "aggregation"):
    make_engine(new_schema({**spec, "options": {"merge-engine": engine}}))
for kind in index_types():
    if kind.name != "hbase" and kind.make is not None:
        kind.make(IndexOptions({"index.type": kind.name}))
        data_file_footer(new_schema({**spec, "options": {"index.type": kind.name}}))
for name in file_index_names():
    find_file_index(name)
open_store("s3://bucket/lake")
print(sorted(name for name in set(sys.modules) - before if name.startswith("lakeidx")))
"""


@pytest.mark.slow
def test_workers_import_nothing_for_tables_of_some_kind() -> None:
    done = subprocess.run([sys.executable, "-c", OF_TABLES], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


FORKED = """
import os, sys, pyspark.daemon
from lakeidx.spark.workers import daemon

def fork():
    before = set(sys.modules)
    if os.fork() == 0:
        print("pid", flush=True)
        daemon._rehearse()
        os._exit(0 if set(sys.modules) == before else 3)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))

pyspark.daemon.manager = fork
daemon.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_a_forked_worker_loads_nothing_more_and_a_full_disk_stops_no_daemon(tmp_path: Path, broken: bool) -> None:
    lost = tmp_path / "none"
    done = subprocess.run(
        [sys.executable, "-c", FORKED.replace("daemon.main()", f"{_break(broken)}\ndaemon.main()")],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(lost if broken else tmp_path)},
    )
    assert done.stdout == "pid\n"
    assert done.returncode == (3 if broken else 0), done.stderr
    assert ("without lakeidx preloaded" in done.stderr) == broken


def _break(broken: bool) -> str:
    """Let the first rehearsal find no place for its files."""
    if not broken:
        return ""
    return (
        "whole = daemon._rehearse\n"
        "def none():\n"
        "    daemon._rehearse = whole\n"
        "    raise OSError('no space left')\n"
        "daemon._rehearse = none"
    )
