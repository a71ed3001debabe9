"""What Spark users wait for: append, read, upsert and one batch of a stream, beside Paimon's and Delta's connectors.

Each step runs in a session of its own in a process of its own, two slots, after a first bare ``mapInArrow``, so that what the start
of Spark and of its Python workers costs is apart. "Cold" is the first time (the first append makes the table), "warm" the least of
the next ones; processor seconds are those of all processes together. Every peer runs in its own environment, whose versions are
printed: lakeidx with the newest pyspark and with the one that Delta allows; all are installed below --cache, once. Rows are counted
and summed at the end of each step.

    python -m bench.bench_spark [--rows 200000] [--rounds 3] [--peers NAME,NAME] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

STEPS = ("append", "read", "upsert", "stream")
ROOT = Path(__file__).resolve().parents[1]


class Connector(ABC):
    """One table format by Spark's own interfaces; a table has the columns k, v, d."""

    settings: Mapping[str, str] = {}

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.path = spark, f"{folder}/bench.db/t"

    def create(self) -> None:
        """Make the table, where its first rows do not."""
        return

    @abstractmethod
    def append(self, rows: DataFrame) -> None:
        """Write rows of new keys."""

    @abstractmethod
    def upsert(self, rows: DataFrame) -> None:
        """Write rows of new and known keys."""

    @abstractmethod
    def read(self) -> DataFrame:
        """Return the table."""

    def stream(self, rows: DataFrame, checkpoint: str) -> None:
        """Write what a stream has."""
        sink = rows.writeStream.format(self.format()).option("checkpointLocation", checkpoint)
        sink.trigger(availableNow=True).start(self.path).awaitTermination()

    @classmethod
    def format(cls) -> str:
        """Return the name of the format."""
        return cls.__name__.lower()


class Lakeidx(Connector):
    """Fixed buckets; two of them."""

    def append(self, rows: DataFrame) -> None:
        self._register()
        rows.write.format("lakeidx").options(**{"primary-key": "k", "bucket": "2"}).mode("append").save(self.path)

    def upsert(self, rows: DataFrame) -> None:
        from lakeidx.spark import upsert

        upsert(rows, self.path)

    def read(self) -> DataFrame:
        self._register()
        return self.spark.read.format("lakeidx").load(self.path)

    def stream(self, rows: DataFrame, checkpoint: str) -> None:
        self._register()
        super().stream(rows, checkpoint)

    def _register(self) -> None:
        """Do, within what is timed, what the docs begin with: without it tasks have workers of their own."""
        from lakeidx.spark import register

        register(self.spark)


class Delta(Connector):
    """No key: an append looks for none."""

    def append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(self.path)

    def upsert(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("rows")
        self.spark.sql(
            f"MERGE INTO delta.`{self.path}` t USING rows s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def read(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)


class Paimon(Connector):
    """Fixed buckets; two of them."""

    def create(self) -> None:
        self.spark.sql("CREATE DATABASE IF NOT EXISTS peer.bench")
        options = "'primary-key' = 'k', 'bucket' = '2'"
        self.spark.sql(f"CREATE TABLE peer.bench.t (k BIGINT, v STRING, d DOUBLE) TBLPROPERTIES ({options})")

    def append(self, rows: DataFrame) -> None:
        rows.write.format("paimon").mode("append").save(self.path)

    def upsert(self, rows: DataFrame) -> None:
        self.append(rows)

    def read(self) -> DataFrame:
        return self.spark.read.format("paimon").load(self.path)


CONNECTORS = {c.format(): c for c in (Lakeidx, Delta, Paimon)}


def _settings(name: str, folder: Path) -> Mapping[str, str]:
    if name == "lakeidx":
        return {}
    from importlib import import_module

    found: Mapping[str, str] = import_module(f"bench.peers.{name}_spark").ThisPeer.settings(folder)
    return found


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def work(name: str, step: str, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Measure one step in this process."""
    from bench.peers.spark import session

    begun = time.perf_counter()
    spark = session(_settings(name, folder))
    spark.range(1).count()
    out: dict[str, Any] = {"session": time.perf_counter() - begun}

    def frame(first: int, count: int) -> DataFrame:
        return spark.range(first, first + count, 1, 2).selectExpr("id k", "concat('v', id % 1000) v", "id / 2 d")

    def bare() -> None:
        assert frame(0, rows).mapInArrow(_same, "k LONG, v STRING, d DOUBLE").count() == rows

    out["bare_cold"], out["bare_warm"] = _timed(bare), _timed(bare)
    peer = CONNECTORS[name](spark, folder)
    if step == "append":
        peer.create()
    appended = rows * (rounds + 1)
    half = rows // 2
    upserted = appended + half * (rounds + 1)

    def do(n: int) -> int:
        """Do the step once more; return the rows of the table."""
        if step == "append":
            peer.append(frame(n * rows, rows))
            return (n + 1) * rows
        if step == "upsert":
            peer.upsert(frame(appended + (n - 1) * half, rows))
            return appended + (n + 1) * half
        if step == "stream":
            peer.stream(source, f"{folder}/checkpoint")
            return upserted + (n + 1) * rows
        _check(peer, appended)
        return appended

    seconds = []
    for n in range(rounds + 1):
        if step == "stream":
            frame(upserted + n * rows, rows).write.mode("append").parquet(f"{folder}/in")
            source = spark.readStream.schema("k LONG, v STRING, d DOUBLE").parquet(f"{folder}/in")
        print("begin", flush=True)
        begun = time.perf_counter()
        expected = do(n)
        seconds.append(time.perf_counter() - begun)
        print("end", flush=True)
    _check(peer, expected)
    out |= {"cold": seconds[0], "warm": min(seconds[1:]), "python": platform.python_version(), "pyspark": spark.version}
    if name == "lakeidx":
        import lakeidx

        out["connector"] = lakeidx.__version__
    else:
        out["connector"] = next(
            v.rpartition("/")[2]
            for k, v in sorted(_settings(name, folder).items())
            if k.startswith("spark.jars") and "exclude" not in k
        )
    return out


def _timed(what: Callable[[], object]) -> float:
    begun = time.perf_counter()
    what()
    return time.perf_counter() - begun


def _check(peer: Connector, rows: int) -> None:
    """Read all columns of all rows."""
    found = peer.read().selectExpr("count(v) n", "sum(k) s", "sum(d) d").collect()[0]
    assert tuple(found) == (rows, rows * (rows - 1) // 2, rows * (rows - 1) / 4), f"{found}, of {rows} rows"


def environments(names: Sequence[str], cache: Path) -> Iterator[tuple[str, str, Path, Mapping[str, str]]]:
    """Yield what is measured: its name, the connector, the Python of its environment, and variables."""
    from bench.peers.environments import DELTA, MissingError, of_lakeidx, peers, python_of

    kinds = {
        "lakeidx": of_lakeidx("spark", "pyspark[connect]"),
        "lakeidx, pyspark of Delta": of_lakeidx("spark", *DELTA),
        **{k.module.removesuffix("_spark"): k for k in peers() if k.module in ("paimon_spark", "delta_spark")},
    }
    for label, kind in kinds.items():
        name = kind.module.removesuffix("_spark")
        if name not in names:
            continue
        try:
            more = {"LAKEIDX_PEER_JAR": str(kind.jar())} if kind.jar is not None else {}
            python = python_of(kind, cache / "lakeidx" if name == "lakeidx" else cache)
        except MissingError as error:
            print(f"{label}: {error}", file=sys.stderr)
            continue
        if name == "lakeidx":
            # Kernels are compiled once for a machine, and modules once for an environment: pip does its own.
            more["NUMBA_CACHE_DIR"] = str(python.parents[1] / "kernels")
            loaded = "import pandas, pyspark.worker, lakeidx.spark.datasource, lakeidx.spark.table_writer"
            for command in ([str(python.with_name("lakeidx")), "warm-up"], [str(python), "-c", loaded]):
                subprocess.run(command, env={**_environment(), **more}, check=True, stdout=sys.stderr)
        yield label, name, python, more


def _environment() -> dict[str, str]:
    """Return variables of a measured process, which finds modules compiled, as a user's does."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT)}


def measure(
    label: str, name: str, python: Path, more: Mapping[str, str], step: str, folder: Path, args: Any
) -> dict[str, Any]:
    """Measure a step in a process of its own."""
    from bench.peers.measure import Tree

    command = [str(python), "-m", "bench.bench_spark", "--work", name, step, str(folder), "--rows", str(args.rows)]
    environment = {**_environment(), "PYSPARK_PYTHON": str(python), **more}
    cpu: list[float] = []
    with subprocess.Popen(
        [*command, "--rounds", str(args.rounds)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        tree, line = Tree(process.pid, math.inf), ""
        assert process.stdout is not None
        for line in process.stdout:
            if line == "begin\n":
                cpu.append(tree.cpu())
            elif line == "end\n":
                cpu[-1] = tree.cpu() - cpu[-1]
    if process.returncode:
        raise SystemExit(f"{label}: {step} failed")
    figures = {**json.loads(line), "cold_cpu": cpu[0], "warm_cpu": min(cpu[1:])}
    return {"case": label, "step": step, **{k: round(v, 2) if isinstance(v, float) else v for k, v in figures.items()}}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=lambda t: t.split(","), default=list(CONNECTORS))
    parser.add_argument("--cache", type=Path, default=ROOT / ".work/peers", help="environments of the peers")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.work:
        name, step, folder = args.work
        print(json.dumps(work(name, step, Path(folder), args.rows, args.rounds)))
        return 0
    # What the environment of a peer need not have.
    from bench.figures import tell

    tell("Seconds; bare: mapInArrow before the step", _measured(args), as_json=args.json)
    return 0


def _measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for label, name, python, more in environments(args.peers, args.cache.absolute()):
        with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as kept:
            for step in STEPS:
                print(f"{label}: {step} ...", file=sys.stderr)
                yield measure(label, name, python, more, step, Path(kept), args)


if __name__ == "__main__":
    sys.exit(main())
