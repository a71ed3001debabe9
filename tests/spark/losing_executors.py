"""Runs under Dagster in which every stage with tasks loses a worker by SIGKILL, and one an executor, when its first task is done.

``python -m tests.spark.losing_executors FOLDER PLACE MASTER CONFIG``: landing files lie in PLACE, where the warehouse is, too;
CONFIG is a JSON object of Spark's settings. Prints a JSON object.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dagster_project.resources import SparkResource
from lakeidx.tasks.routed_rows import Block, RoutedRows
from lakeidx.tasks.runner import Runner
from tests.dagster.pipelines import Deployment, red_checks

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


class LosingRunner:
    """The first task of every stage does all its work, and then its machine is gone before it can answer."""

    def __init__(self, inner: Runner, marks: str) -> None:
        self.inner, self.marks = inner, marks

    @property
    def parallelism(self) -> int:
        return self.inner.parallelism

    def map(self, task: Any, items: Sequence[Any], *, label: str) -> list[Any]:
        kill, mark = killer(self.marks), f"{label.partition(':')[0]} task"

        def losing(item: Any) -> Any:
            out = task(item)
            kill(mark)
            return out

        return self.inner.map(losing, items, label=label)

    def shuffle(
        self,
        split: Any,
        items: Sequence[Any],
        combine: Any,
        *,
        targets: Sequence[Any],
        weights: Sequence[int],
        label: str,
    ) -> list[Any]:
        kill, stage = killer(self.marks), label.partition(":")[0]

        def losing_split(item: Any) -> Iterator[RoutedRows]:
            yield from list(split(item))
            kill(f"{stage} split")

        def losing_combine(target: Any, blocks: Iterator[Block]) -> Any:
            out = combine(target, blocks)
            kill(f"{stage} combine")
            return out

        return self.inner.shuffle(losing_split, items, losing_combine, targets=targets, weights=weights, label=label)


class LosingSpark(SparkResource):
    """Spark whose machines go."""

    marks: str

    def runner(self) -> Runner:
        return LosingRunner(super().runner(), self.marks)


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
