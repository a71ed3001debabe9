"""Runs under Dagster in which every stage with tasks loses a worker by SIGKILL, and one an executor, when its first task is done.

``python -m tests.spark.losing_executors FOLDER PLACE MASTER CONFIG``: landing files lie in PLACE, where the warehouse is, too;
CONFIG is a JSON object of Spark's settings. Prints a JSON object.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from lakeidx.dagster.resources import SparkResource
from lakeidx.tasks.runner import Runner
from tests.dagster.pipelines import Deployment, red_checks
from tests.spark.dying_runner import DyingRunner

#: The task that loses its executor; every other one named here loses its worker, and the executors below it.
LOSES_EXECUTOR = "index_write split"
_PROCESSES = {True: "CoarseGrainedExecutorBackend", False: "deploy.worker.Worker"}


def killer(marks: str) -> Callable[[str], None]:
    """Kills the machine a task runs on, or its part; once per mark. Pickled by value."""
    processes, loses_executor = _PROCESSES, LOSES_EXECUTOR

    def kill_once(mark: str) -> None:
        import os
        import signal

        import psutil

        try:
            os.close(os.open(f"{marks}/{mark}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        above = psutil.Process().parents()
        name = processes[mark == loses_executor]
        lost = [p for p in above if any("CoarseGrainedExecutorBackend" in word or name in word for word in p.cmdline())]
        # A machine that is gone takes its executors along, which would otherwise end a little later only.
        for process in lost:
            os.kill(process.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    return kill_once


class LosingSpark(SparkResource):
    """Spark whose machines go."""

    marks: str

    def runner(self, uri: str) -> Runner:
        return DyingRunner(super().runner(uri), killer(self.marks))


def main(folder: Path, place: str, master: str, config: str) -> None:
    """Run both files as one batch, then compaction and verification."""
    (folder / "marks").mkdir()
    spark = LosingSpark(
        master=master,
        parallelism=2,
        spark_config={**json.loads(config), "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2])},
        marks=str(folder / "marks"),
    )
    changes = {
        "warehouse": f"{place}/warehouse",
        "landing": {"path": f"{place}/landing", "pattern": "*"},
        # As a large batch: rows are placed in tasks.
        "options": {"index.driver-memory": "1 kb"},
    }
    deployment = Deployment(folder, changes, spark=spark)
    results = [deployment.run("a.parquet", "b.csv")]
    results += [deployment.run_asset("compaction", full=True), deployment.run_asset("verification")]
    said = {
        "success": [r.success for r in results],
        "red": sorted({name for r in results for name in red_checks(r)}),
        "marks": sorted(m.name for m in (folder / "marks").iterdir()),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
