"""What Dagster costs beside a batch: loading definitions, the run of a small file, a tick of the landing sensor.

Processor seconds are of processes of their own, children included, with bytecode and kernels there as after an installation; the
checks of the run passed and the tick found every file before they count. A run's events are measured as Dagster stores them.

    python -m bench.bench_dagster [--tables 1,100] [--files 50000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from rich.console import Console
from rich.table import Table as View

_LOAD = """
from lakeidx.dagster.components.primary_key_table import PrimaryKeyTable
from shop.definitions import defs
made = defs()
made.get_repository_def()
print(sum(j.name.endswith("__batch") for j in made.jobs or ()))
"""
_RUN = """
import json, sqlite3, sys, glob, os
import dagster as dg
def batch():
    from shop.definitions import defs
    return defs().get_job_def("shop__t0__batch")
with dg.DagsterInstance.get() as instance:
    instance.add_dynamic_partitions("shop__t0__files", [sys.argv[1]])
    done = batch().execute_in_process(instance=instance, partition_key=sys.argv[1], raise_on_error=True)
    assert done.success and all(e.passed for e in done.get_asset_check_evaluations())
path = glob.glob(os.environ["DAGSTER_HOME"] + "/history/runs/" + done.run_id + ".db")[0]
rows, size = sqlite3.connect(path).execute("SELECT count(*), sum(length(event)) FROM event_logs").fetchone()
print(json.dumps({"events": rows, "bytes": size}))
"""
_TICK = """
import json, sys, time
import dagster as dg
from shop.definitions import defs
made = defs()
sensor = next(s for s in made.sensors if s.name == "shop__many__landing_sensor")
resources = {n: r for n, r in made.resources.items() if n in sensor.required_resource_keys}
cursor, known = None, []
with dg.DagsterInstance.ephemeral() as instance:
    while True:
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
            used = time.process_time()
            found = sensor(context)
            used = time.process_time() - used
        cursor = found.cursor
        if not found.run_requests:
            break
print(json.dumps({"cpu_seconds": round(used, 3), "bytes": len(cursor), "said": found.skip_reason.skip_message}))
"""


def project(root: Path, tables: int, files: int) -> None:
    """Write a project of components; its table `many` has a folder of files that are never read."""
    (root / "shop/defs").mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[project]\nname = "shop"\nversion = "0"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "shop"\n'
    )
    (root / "shop/definitions.py").write_text(
        "from pathlib import Path\nimport dagster as dg\n\n\n@dg.definitions\ndef defs():\n"
        "    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    for package in ("shop", "shop/defs"):
        (root / package / "__init__.py").write_text("")
    for name in [*(f"t{i}" for i in range(tables)), *(["many"] if files else [])]:
        landing = root / "landing" / name
        landing.mkdir(parents=True)
        attributes = {
            "table": f"shop.{name}",
            "warehouse": str(root / "warehouse"),
            "landing": {
                "path": str(landing),
                "pattern": "*.parquet",
                "settle_seconds": 0,
                "batching": {"max_files": 1000},
            },
            "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
            "primaryKeys": ["id"],
            "options": {"bucket": -1},
        }
        file = root / "shop/defs" / name / "defs.yaml"
        file.parent.mkdir()
        file.write_text(yaml.safe_dump({"type": "lakeidx.dagster.PrimaryKeyTable", "attributes": attributes}))
        for i in range(3):
            rows = pa.table({"id": range(100 * i, 100 * i + 100), "v": ["x"] * 100})
            pq.write_table(rows, landing / f"f{i}.parquet")
    for i in range(3, files):
        (root / "landing/many" / f"f{i}.parquet").touch()


def used(root: Path, code: str, *arguments: str) -> tuple[float, float, str]:
    """Run a program in a project; return its wall and processor seconds and its last line."""
    kept = {"PYTHONPYCACHEPREFIX": str(root.parent / "bytecode"), "NUMBA_CACHE_DIR": str(root.parent / "kernels")}
    home = root / "home"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    path = os.pathsep.join([str(root), str(Path(__file__).resolve().parent.parent)])
    environment = {**os.environ, **kept, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": path, "DAGSTER_HOME": str(home)}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "LAKEIDX_ENGINE": "local"},
        cwd=root,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not done.returncode, done.stderr[-2000:]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begun, cpu, done.stdout.strip().splitlines()[-1]


def cases(folder: Path, tables: Sequence[int], files: int) -> list[dict[str, Any]]:
    """Measure all of them; the first of two rounds makes bytecode and kernels."""
    out: list[dict[str, Any]] = []
    for count in tables:
        root = folder / f"p{count}"
        project(root, count, 0)
        used(root, _LOAD)
        wall, cpu, jobs = used(root, _LOAD)
        assert int(jobs) == count, jobs
        out.append({"case": f"definitions of {count} tables", "seconds": round(wall, 3), "cpu_seconds": round(cpu, 3)})
    root = folder / "runs"
    project(root, 1, files)
    used(root, _RUN, "f0.parquet")
    wall, cpu, said = used(root, _RUN, "f1.parquet")
    out.append({"case": "run of 100 rows", "seconds": round(wall, 3), "cpu_seconds": round(cpu, 3), **json.loads(said)})
    wall, _, said = used(root, _TICK)
    tick = json.loads(said)
    assert tick.pop("said").startswith(f"{files} landing files, 0 of them"), said
    out.append({"case": f"tick of {files} known files", "seconds": round(tick["cpu_seconds"], 3), **tick})
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="1,100", help="numbers of component tables")
    parser.add_argument("--files", type=int, default=50_000, help="landing files of the tick")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        figures = cases(Path(folder), [int(n) for n in args.tables.split(",")], args.files)
    if args.json:
        for figure in figures:
            print(json.dumps(figure))
    else:
        view = View("case", "seconds", "CPU seconds", "events", "bytes stored", title="Dagster beside a batch")
        for f in figures:
            view.add_row(*(str(f.get(k, "")) for k in ("case", "seconds", "cpu_seconds", "events", "bytes")))
        Console(width=110).print(view)
    return 0


if __name__ == "__main__":
    sys.exit(main())
