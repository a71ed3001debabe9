"""The main job: the real flights of 2013 through Dagster and Spark into a Paimon table, and a look at the result.

Running it again is safe: what is committed is not committed twice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lakeidx.dagster.ui import prepare_home

_EXPECTED_FLIGHTS = 336_776


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--work", type=Path, default=Path(".work"), help="folder for landing files, warehouse and Dagster"
    )
    parser.add_argument("--months", type=int, default=12, help="only the first months (for a quick try)")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--no-progress", action="store_true")
    arguments = parser.parse_args(argv)
    work = arguments.work.resolve()
    # Definitions read these when they are imported, so they are set first.
    os.environ.setdefault("LAKEIDX_LANDING", str(work / "landing"))
    os.environ.setdefault("LAKEIDX_WAREHOUSE", str(work / "warehouse"))
    os.environ["DAGSTER_HOME"] = str(prepare_home(work))
    from dagster_project.flights.prepare import prepare

    started = time.monotonic()
    files = prepare(Path(os.environ["LAKEIDX_LANDING"]) / "flights")[: 2 * arguments.months]
    # Dagster is imported and Spark starts meanwhile.
    compiling = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "dagster_project.flights.kernels", str(files[0])]
    )
    from dagster_project.flights.report import print_report

    rows = _materialize_all([f.name for f in files], arguments.engine, compiling, progress=not arguments.no_progress)
    return print_report(
        rows, time.monotonic() - started, expected=_EXPECTED_FLIGHTS if arguments.months == 12 else None
    )


def _materialize_all(
    keys: list[str], engine: str, compiling: subprocess.Popen[bytes], *, progress: bool
) -> list[dict[str, Any]]:
    """Run Dagster once per landing file, in their order; return the metrics of each run.

    compiling   what compiles the kernels: the first run waits for it
    """
    import dagster as dg
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from dagster_project.definitions import defs
    from lakeidx.dagster.names import STAGES, batch_job_name, key_prefix, partitions_of
    from lakeidx.dagster.resources import SparkResource, resources_from_environment
    from lakeidx.pipeline_file.model import load_pipeline

    # Events go to the instance, where the UI shows them; the terminal is for the bar and the report.
    quiet = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    config = load_pipeline(Path(__file__).parents[2] / "pipelines" / "flights.yaml")
    instance = dg.DagsterInstance.get()
    instance.add_dynamic_partitions(str(getattr(partitions_of(config), "name", "")), keys)
    job = defs.resolve_job_def(batch_job_name(config))
    resources = resources_from_environment(spark=SparkResource(engine=engine))
    out = []
    shown = progress and sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=len(keys))

        def say(text: str) -> None:
            bar.update(task, description=text)
            if progress and not shown:
                print(f"  {text}", file=sys.stderr, flush=True)

        if engine == "spark":
            say("starting Spark")
            resources["lakeidx_spark"].session()
        say("compiling kernels, the first time only")
        compiling.wait()
        for key in keys:
            say(key)
            started = time.monotonic()
            result = job.execute_in_process(
                run_config=quiet, instance=instance, partition_key=key, resources=resources, raise_on_error=True
            )
            metrics: dict[str, Any] = {"key": key, "seconds": time.monotonic() - started}
            for stage in STAGES:
                for event in result.asset_materializations_for_node("__".join([*key_prefix(config), stage])):
                    metrics |= {f"{stage}.{n.split('/')[-1]}": v.value for n, v in event.metadata.items()}
            out.append(metrics)
            bar.advance(task)
    return out


if __name__ == "__main__":
    sys.exit(main())
