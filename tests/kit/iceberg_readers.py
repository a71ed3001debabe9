"""Iceberg readers that run in environments of their own: DuckDB with its extensions from PyPI, Spark with Iceberg's runtime."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.peers.environments import SPARK, MissingError, PeerKind, python_of
from lakeidx.testing.limits import HANGS_SECONDS

CACHE = Path(os.environ.get("LAKEIDX_PEERS_CACHE", Path.home() / ".cache" / "lakeidx-iceberg-readers"))
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
_EXTENSIONS = tuple(f"duckdb-ext-{name}==1.4.4.20260205" for name in ("httpfs", "iceberg", "avro"))
DUCKDB = PeerKind("DuckDB's Iceberg", "", (*_EXTENSIONS, "duckdb==1.4.4", "pytz"))
READ_DUCKDB = """
import duckdb, duckdb_ext, glob, json, sys
c = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg", "httpfs"):
    found = glob.glob(f"{duckdb_ext.__path__[0]}/extensions/v1.4.4/*/{name}.duckdb_extension")
    c.execute(f"LOAD '{found[0]}'")
if sys.argv[1]:
    c.execute(sys.argv[1])
for folder in sys.argv[2:]:
    rows = c.execute(f"SELECT * FROM iceberg_scan('{folder}')").fetchall()
    print(json.dumps(sorted([str(v) for v in row] for row in rows)))
"""
READ_SPARK = """
import json, sys
from pyspark.sql import SparkSession
s = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
     .config("spark.sql.session.timeZone", "UTC").config("spark.jars.packages", sys.argv[1]).getOrCreate())
for folder in sys.argv[2:]:
    rows = s.read.format("iceberg").load(folder).collect()
    print(json.dumps(sorted([str(v) for v in row] for row in rows)))
"""


def _in_environment(kind: PeerKind, program: str, *arguments: str) -> list[Any]:
    try:
        python = python_of(kind, CACHE)
    except MissingError as missing:
        pytest.skip(f"{kind.name}: {missing}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK_"))}
    done = subprocess.run([str(python), "-c", program, *arguments], capture_output=True, text=True, check=False,
                          timeout=HANGS_SECONDS, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_duckdb(*folders: str, secret: str = "") -> list[Any]:
    """Rows of tables, sorted, as DuckDB sees them; `secret`: its statement that gives access to a store."""
    return _in_environment(DUCKDB, READ_DUCKDB, secret, *folders)


def by_spark(*folders: str) -> list[Any]:
    """Rows of tables, sorted, as Spark with Iceberg's runtime sees them."""
    kind = PeerKind("Iceberg on Spark", "", SPARK, ("java",))
    return _in_environment(kind, READ_SPARK, RUNTIME, *folders)
