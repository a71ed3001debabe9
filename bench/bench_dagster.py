"""What Dagster costs beside a batch: definitions, runs of small files, a backfill, ticks of the landing sensor, killed runs.

Definitions and a run of a project with one asset that does nothing, loaded and run the same way, are what Dagster itself takes on
this machine, with what the environment's other packages register for it: all that lakeidx adds is beyond them.

Processor seconds are of processes of their own, children included, in an environment with what lakeidx needs for Dagster and no
more, which is installed below .work/peers once, with bytecode and kernels there as after an installation; the
checks of runs passed, the tick found every file and killed runs were healed, with each row once, before they count. Events of a run
are measured as Dagster stores them.

    python -m bench.bench_dagster [--tables 1,100] [--files 50000] [--runs 28] [--killed 16] [--requests 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bench.clock import children_seconds
from bench.figures import tell
from bench.peers.environments import ROOT, of_lakeidx, python_of
from lakeidx.api.table import Table

ENVIRONMENTS = ROOT / ".work/peers/lakeidx"
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
#: Definitions of a project without lakeidx: Dagster imports what each package of the environment registers, this one left out.
_BARE_LOAD = """
import importlib.metadata as metadata
every = metadata.entry_points
def others(**wanted):
    found = every(**wanted)
    if wanted.get("group") != "dagster_dg_cli.registry_modules":
        return found
    return metadata.EntryPoints(e for e in found if e.name != "lakeidx")
metadata.entry_points = others
from shop.definitions import defs
made = defs()
made.get_repository_def()
print("{}")
"""
_BARE_RUN = (
    _BARE_LOAD
    + """
import dagster as dg
with dg.DagsterInstance.get() as instance:
    assert made.get_job_def("all_of_it").execute_in_process(instance=instance).success
print("{}")
"""
)
_BARE_ASSET = """
import dagster as dg

@dg.asset
def nothing():
    pass

defs = dg.Definitions(assets=[nothing], jobs=[dg.define_asset_job("all_of_it", "*")])
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


#: A backfill as the UI starts one: with the executor of the project.
_BACKFILL = """
import json, subprocess, sys
import dagster as dg
keys = sys.argv[1:]
with dg.DagsterInstance.get() as instance:
    instance.add_dynamic_partitions("shop__t0__files", keys)
    stages = ",".join(f"shop/t0/{s}" for s in ("ingest", "bucket_assignment", "index_write", "commit")) + ",shop/t0"
    asked = ["--select", stages, "--partition-range", f"{keys[0]}...{keys[-1]}", "-m", "shop.definitions"]
    subprocess.run([sys.executable, "-m", "dagster", "asset", "materialize", *asked], check=True, capture_output=True)
    (run,) = instance.get_runs(limit=1)
    assert run.is_success
    pids = {e.dagster_event.pid for e in instance.all_logs(run.run_id) if e.is_dagster_event} - {None}
    print(json.dumps({"processes": len(pids)}))
"""
#: Runs one after another in a process that stays.
_IN_A_ROW = """
import json, statistics, sys, time
import dagster as dg
from shop.definitions import defs
keys, used = sys.argv[1:], []
job = defs().get_job_def("shop__t0__batch")
with dg.DagsterInstance.get() as instance:
    instance.add_dynamic_partitions("shop__t0__files", keys)
    for key in keys:
        began = time.process_time()
        done = job.execute_in_process(instance=instance, partition_key=key)
        used.append(time.process_time() - began)
        assert done.success and all(e.passed for e in done.get_asset_check_evaluations())
# The first has imports and caches of its own.
warm = used[1:] or used
quarter = max(len(warm) // 4, 1)
first, last = statistics.median(warm[:quarter]), statistics.median(warm[-quarter:])
print(json.dumps({"cpu_each": round(statistics.median(used), 3), "last_quarter_to_first": round(last / first, 2)}))
"""
#: Runs that are killed after a part of the time that one takes, each in a process of its own, and run again.
_KILLED = """
import json, multiprocessing, os, signal, sys, threading, time
import dagster as dg
def batch(key, seconds, told):
    from shop.definitions import defs
    job = defs().get_job_def("shop__t0__batch")
    with dg.DagsterInstance.get() as instance:
        if seconds:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        began = time.perf_counter()
        done = job.execute_in_process(instance=instance, partition_key=key)
        told.put((time.perf_counter() - began, done.success and all(e.passed for e in done.get_asset_check_evaluations())))
def run(context, key, seconds=0.0):
    told = context.Queue()
    process = context.Process(target=batch, args=(key, seconds, told))
    process.start()
    process.join()
    return process.exitcode, None if process.exitcode else told.get()
if __name__ == "__main__":
    first, *keys = sys.argv[1:]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["shop.definitions", "lakeidx.dagster.components.primary_key_table"])
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("shop__t0__files", [first, *keys])
        _, (seconds, _) = run(context, first)
        killed = 0
        for n, key in enumerate(keys):
            code, _ = run(context, key, seconds * (n + 1) / len(keys))
            killed += code == -signal.SIGKILL
            for left in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
                instance.report_run_failed(left)
            code, said = run(context, key)
            assert code == 0 and said[1], (key, code)
    print(json.dumps({"killed": killed, "healed": len(keys)}))
"""
#: A tick of Dagster's daemon that requests a run for each file; no run is started.
_REQUESTS = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
import dagster as dg
from lakeidx.dagster.ui import prepare_home
home = prepare_home(Path("requests"))
settings = home / "dagster.yaml"
settings.write_text(settings.read_text().replace("max_concurrent_runs: 2", "max_concurrent_runs: 0"))
os.environ["DAGSTER_HOME"] = str(home)
module, wanted = ["-m", "shop.definitions"], int(sys.argv[1])
with dg.DagsterInstance.get() as instance:
    daemon = subprocess.Popen([sys.executable, "-m", "dagster._daemon", "run", *module], start_new_session=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        on = [sys.executable, "-m", "dagster", "sensor", "start", "shop__many__landing_sensor", *module]
        subprocess.run(on, check=True, capture_output=True)
        seconds, end = None, time.monotonic() + 300
        while seconds is None and time.monotonic() < end:
            time.sleep(0.5)
            for state in instance.all_instigator_state():
                for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id):
                    if len(tick.run_ids) == wanted and tick.status.value == "SUCCESS":
                        seconds = tick.end_timestamp - tick.timestamp
        assert seconds is not None and instance.get_runs_count() == wanted, instance.get_runs_count()
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait()
print(json.dumps({"wall": round(seconds, 3)}))
"""


def project(root: Path, tables: int, files: int, *, landed: int = 3, batch: int = 1000) -> None:
    """Write a project of components, with the executor that `dg scaffold` writes; its table `many` has files that are never read.

    landed   files of 100 rows of each other table
    batch    files of a run request of the landing sensor
    """
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
    (root / "shop/defs/executor.py").write_text(
        "import dagster as dg\n\ndefs = dg.Definitions(executor=dg.in_process_executor)\n"
    )
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
                "batching": {"max_files": batch},
            },
            "fields": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
            "primaryKeys": ["id"],
            "options": {"bucket": -1},
        }
        file = root / "shop/defs" / name / "defs.yaml"
        file.parent.mkdir()
        file.write_text(yaml.safe_dump({"type": "lakeidx.dagster.PrimaryKeyTable", "attributes": attributes}))
        for i in range(landed if name != "many" else 3):
            rows = pa.table({"id": range(100 * i, 100 * i + 100), "v": ["x"] * 100})
            pq.write_table(rows, landing / f"f{i}.parquet")
    for i in range(3, files):
        (root / "landing/many" / f"f{i}.parquet").touch()


def used(root: Path, code: str, *arguments: str) -> tuple[float, float, str]:
    """Run a program in a project; return its wall and processor seconds and its last line."""
    python = python_of(of_lakeidx("dagster", "dagster"), ENVIRONMENTS)
    kept = {"PYTHONPYCACHEPREFIX": str(root.parent / "bytecode"), "NUMBA_CACHE_DIR": str(root.parent / "kernels")}
    home = root / "home"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    path = os.pathsep.join([str(root), str(Path(__file__).resolve().parent.parent)])
    environment = {**os.environ, **kept, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": path, "DAGSTER_HOME": str(home)}
    before, begun = children_seconds(), time.perf_counter()
    (root / "program.py").write_text(code)
    done = subprocess.run(
        [str(python), "-W", "ignore", "program.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "LAKEIDX_ENGINE": "local"},
        cwd=root,
    )
    cpu = children_seconds() - before
    assert not done.returncode, done.stderr[-2000:]
    return time.perf_counter() - begun, cpu, done.stdout.strip().splitlines()[-1]


def cases(folder: Path, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure all of them; the first of two rounds makes bytecode and kernels."""
    bare = folder / "bare"
    project(bare, 0, 0)
    (bare / "shop/defs/nothing.py").write_text(_BARE_ASSET)
    for case, program in (("definitions", _BARE_LOAD), ("run", _BARE_RUN)):
        used(bare, program)
        yield _figure(f"Dagster alone: {case}", *used(bare, program)[:2])
    of_tables: dict[int, float] = {}
    for count in (int(n) for n in args.tables.split(",")):
        root = folder / f"p{count}"
        project(root, count, 0)
        used(root, _LOAD)
        wall, of_tables[count], jobs = used(root, _LOAD)
        assert int(jobs) == count, jobs
        yield _figure(f"definitions, tables: {count}", wall, of_tables[count])
    fewest, most = min(of_tables), max(of_tables)
    if most > fewest:
        yield _figure("each further table", None, (of_tables[most] - of_tables[fewest]) / (most - fewest))
    root = folder / "runs"
    names = [f"f{i}.parquet" for i in range(6 + args.runs + 1 + args.killed)]
    project(root, 1, args.files, landed=len(names))
    used(root, _RUN, names.pop())
    wall, cpu, said = used(root, _RUN, names.pop())
    yield _figure("run of 100 rows", wall, cpu, **json.loads(said))
    wall, cpu, said = used(root, _BACKFILL, *(names.pop() for _ in range(4)))
    yield _figure("backfill of 4 files", wall, cpu, said=_said(said))
    if args.runs:
        wall, cpu, said = used(root, _IN_A_ROW, *(names.pop() for _ in range(args.runs)))
        yield _figure(f"{args.runs} runs in a row", wall, cpu, said=_said(said))
    if args.killed:
        wall, _, said = used(root, _KILLED, *(names.pop() for _ in range(1 + args.killed)))
        yield _figure(f"{args.killed} killed runs, run again", wall, said=_said(said))
        rows = Table.open(str(root / "warehouse/shop.db/t0")).scan(columns=["id"]).to_arrow().column("id")
        assert len(rows) == len(set(rows.to_pylist())) == 100 * (6 + args.runs + 1 + args.killed), len(rows)
    wall, _, said = used(root, _TICK)
    tick = json.loads(said)
    assert tick.pop("said").startswith(f"{args.files} landing files, 0 of them"), said
    yield _figure(f"tick of {args.files} known files", None, **tick)
    if args.requests:
        root = folder / "requests"
        project(root, 0, args.requests, batch=1)
        _, _, said = used(root, _REQUESTS, str(args.requests))
        yield _figure(f"tick that requests {args.requests} runs", json.loads(said)["wall"])


def _figure(case: str, seconds: float | None, cpu_seconds: float | None = None, **more: Any) -> dict[str, Any]:
    times = {"seconds": seconds, "cpu_seconds": cpu_seconds}
    return {"case": case, **{k: round(v, 3) for k, v in times.items() if v is not None}, **more}


def _said(text: str) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in json.loads(text).items())


def main(argv: Sequence[str] | None = None) -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="1,100", help="numbers of component tables")
    parser.add_argument("--files", type=int, default=50_000, help="landing files of the tick")
    parser.add_argument("--runs", type=int, default=28, help="runs in a row; 0 = none")
    parser.add_argument("--killed", type=int, default=16, help="runs that are killed and run again; 0 = none")
    parser.add_argument("--requests", type=int, default=50, help="runs that a tick requests; 0 = none")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as folder:
        tell("Dagster beside a batch", cases(Path(folder), args), as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
