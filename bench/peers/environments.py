"""Who the peers are, and the Python environment of each: that of the project, or one made once below a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that an installation may take.
INSTALL_LIMIT_S = 600
SPARK = ("pyspark==4.0.4", "pandas<3")
#: The newest that Delta allows.
DELTA = ("pyspark==4.2.0", "pandas<3")
#: The Spark bundle of Paimon is no release that Maven has: this variable names the jar, or it lies in ``../shared/jars``.
PAIMON_JAR = "LAKEIDX_PAIMON_SPARK_JAR"


class MissingError(Exception):
    """A peer cannot run on this machine; the text says what it lacks."""


@dataclass(frozen=True, slots=True)
class PeerKind:
    """One row of the table.

    module        in this package; its class ThisPeer
    requirements  packages of an environment of its own; none: that of the project
    tools         programs it needs
    jar           finds a jar that Spark is given, or raises MissingError
    note          how its table is made, where that matters for the figures
    """

    name: str
    module: str
    requirements: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    jar: Callable[[], Path] | None = None
    note: str = ""


def paimon_jar() -> Path:
    """Return the jar of Paimon for Spark 4.0."""
    named = os.environ.get(PAIMON_JAR)
    found = [Path(named)] if named else sorted((ROOT.parent / "shared" / "jars").glob("paimon-spark-4.0_2.13-*.jar"))
    if not found or not found[-1].exists():
        raise MissingError(f"no jar of Paimon for Spark 4.0: {PAIMON_JAR} names none")
    return found[-1]


def peers() -> list[PeerKind]:
    """Return all of them, in the order of the table."""
    return [
        PeerKind("lakeidx", "lakeidx_local", note="in one process, two threads; dynamic buckets of 500,000 keys"),
        PeerKind("lakeidx on Spark", "lakeidx_spark", tools=("java",), note="`local[2]`; reads by Python"),
        PeerKind("DuckDB", "duckdb_table", note="a database file, primary key"),
        PeerKind(
            "delta-rs", "delta_rs", ("deltalake==1.6.6",), note="merge copies files, which leaves little to compact"
        ),
        PeerKind("Lance", "lance_table", ("pylance==14.0.2",), note="merge_insert; B-tree on l_orderkey"),
        PeerKind("Paimon on Spark", "paimon_spark", SPARK, ("java",), paimon_jar, "dynamic buckets of 500,000 keys"),
        PeerKind("Iceberg on Spark", "iceberg_spark", SPARK, ("java",), note="MERGE INTO, merge-on-read"),
        PeerKind("Delta on Spark", "delta_spark", DELTA, ("java",), note="MERGE INTO, deletion vectors"),
        PeerKind("pypaimon", "pypaimon_table", ("pypaimon==2.1.0",), note="fixed buckets of 500,000 keys"),
        PeerKind("pyiceberg", "pyiceberg_table", ("pyiceberg[pyarrow,sql-sqlite]==0.12.0",), note="its own upsert"),
    ]


def of_lakeidx(extra: str, *packages: str) -> PeerKind:
    """Return lakeidx as a user installs it for one use, with other packages; the code that runs is that of `PYTHONPATH`."""
    return PeerKind("lakeidx", "lakeidx_spark", (*packages, f"{ROOT}[{extra}]"))


def python_of(kind: PeerKind, cache: Path) -> Path:
    """Find the Python that runs a peer; install its packages when they are not there, and say so."""
    for tool in kind.tools:
        if shutil.which(tool) is None:
            raise MissingError(f"no {tool} on the PATH")
    if not kind.requirements:
        return Path(sys.executable)
    folder = cache / kind.requirements[0].translate(str.maketrans("[],", "---"))
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    wanted = [*kind.requirements, "numpy", "pyarrow"]
    print(f"installing {', '.join(wanted)} into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    make = [sys.executable, "-m", "venv", str(folder)]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    for command in (make, install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise MissingError(f"{', '.join(wanted)}: not installed within {INSTALL_LIMIT_S} s") from None
        if done.returncode:
            raise MissingError(f"{', '.join(wanted)}: {(done.stderr.strip().splitlines() or ['not installed'])[-1]}")
    (folder / "complete").touch()
    return python
