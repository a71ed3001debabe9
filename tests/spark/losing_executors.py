"""A run under Dagster whose first split task loses its executor and whose first combine task loses its worker, by SIGKILL.

``python -m tests.spark.losing_executors FOLDER MASTER``: the folder has a pipeline file and landing files; prints a JSON object.
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
from tests.spark_cluster import APPLICATION


def killer(marks: str) -> Callable[[str, str], None]:
    """Kills the nearest process above that has a name in its command line; once per name. Pickled by value."""

    def kill_once(mark: str, name: str) -> None:
        import os
        import signal

        import psutil

        try:
            os.close(os.open(f"{marks}/{mark}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        above = next(p for p in psutil.Process().parents() if any(name in word for word in p.cmdline()))
        os.kill(above.pid, signal.SIGKILL)
        # What is left of the executor must not finish the task.
        os.kill(os.getpid(), signal.SIGKILL)

    return kill_once


class LosingRunner:
    """The first split and the first combine do all their work, and then their machine is gone before they can answer."""

    def __init__(self, inner: Runner, marks: str) -> None:
        self.inner, self.marks = inner, marks

    @property
    def parallelism(self) -> int:
        return self.inner.parallelism

    def map(self, task: Any, items: Sequence[Any], *, label: str) -> list[Any]:
        return self.inner.map(task, items, label=label)

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
        kill = killer(self.marks)

        def losing_split(item: Any) -> Iterator[RoutedRows]:
            yield from list(split(item))
            kill("executor", "CoarseGrainedExecutorBackend")

        def losing_combine(target: Any, blocks: Iterator[Block]) -> Any:
            out = combine(target, blocks)
            kill("worker", "deploy.worker.Worker")
            return out

        return self.inner.shuffle(losing_split, items, losing_combine, targets=targets, weights=weights, label=label)


class LosingSpark(SparkResource):
    """Spark whose machines go."""

    marks: str

    def runner(self) -> Runner:
        return LosingRunner(super().runner(), self.marks)


def main(folder: Path, master: str) -> None:
    """Run both files as one batch."""
    (folder / "marks").mkdir()
    config = {**APPLICATION, "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2])}
    spark = LosingSpark(master=master, parallelism=2, spark_config=config, marks=str(folder / "marks"))
    deployment = Deployment(folder, {"landing": {"pattern": "*"}}, spark=spark)
    result = deployment.run("a.parquet", "b.csv")
    marks = sorted(m.name for m in (folder / "marks").iterdir())
    print(json.dumps({"success": result.success, "red": sorted(red_checks(result)), "marks": marks}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
