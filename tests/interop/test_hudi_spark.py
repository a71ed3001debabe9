"""Tables written by Hudi 1.0.2 on Spark 3.5 for this run: every key's file as Hudi reads it.

Needs Java and Maven; pyspark 3.5 goes into an environment of its own below LAKEIDX_HUDI_CACHE (default
~/.cache/lakeidx-hudi).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.key_index.hudi_table.table import find_record_keys
from lakeidx.storage import open_store
from lakeidx.testing.limits import HANGS_SECONDS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.one_witness]
WRITER = Path(__file__).with_name("hudi_writer.py")
BUNDLE = "hudi-spark3.5-bundle_2.12"
RELEASE = "1.0.2"
SEED = 20260711


def _environment() -> tuple[Path, Path]:
    """Python with pyspark 3.5, and the bundle; made once per machine."""
    cache = Path(os.environ.get("LAKEIDX_HUDI_CACHE", Path.home() / ".cache" / "lakeidx-hudi"))
    cache.mkdir(parents=True, exist_ok=True)
    python = cache / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(cache / "venv")], check=True)
    if subprocess.run([str(python), "-c", "import pyspark"], check=False, capture_output=True).returncode:
        uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
        install = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
        subprocess.run([*install, "-q", "pyspark==3.5.*"], check=True, timeout=HANGS_SECONDS)
    jar = cache / "jars" / f"{BUNDLE}-{RELEASE}.jar"
    if not jar.exists():
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        artifact = f"-Dartifact=org.apache.hudi:{BUNDLE}:{RELEASE}"
        subprocess.run(
            ["mvn", "-q", "-B", copy, artifact, f"-DoutputDirectory={jar.parent}"], check=True, timeout=HANGS_SECONDS
        )
    return python, jar


def _options(version: int, filter_type: str, entries: int, *, partitioned: bool) -> dict[str, str]:
    generator = "SimpleKeyGenerator" if partitioned else "NonpartitionedKeyGenerator"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.filter.type": filter_type,
        "hoodie.index.bloom.num_entries": str(entries),
        "hoodie.index.bloom.fpp": "0.01",
        "hoodie.bloom.index.filter.dynamic.max.entries": str(2 * entries),
        "hoodie.metadata.enable": "false",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.copyonwrite.insert.split.size": "80",
        "hoodie.copyonwrite.insert.auto.split": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
    }
    if partitioned:
        options["hoodie.datasource.write.partitionpath.field"] = "p"
    return options


def _keys(rng: random.Random, kind: str, n: int) -> list[str]:
    if kind == "ordered":
        return [f"2026-{i:07d}" for i in range(n)]
    # Characters on both sides of where Java's order and UTF-8 order part.
    pieces = ["k", "é", "日本", "\ue000", "\U0001f600"]
    return list(dict.fromkeys(rng.choice(pieces) + f"{rng.randrange(10**8):x}" for _ in range(n)))


def _cases(folder: Path) -> list[dict[str, Any]]:
    rng = random.Random(SEED)
    out = []
    for version, filter_type, entries, kind, partitioned, last in [
        (6, "SIMPLE", 400, "ordered", False, "upsert"),
        (6, "DYNAMIC_V0", 30, "mixed", True, "insert_overwrite"),
        (8, "SIMPLE", 8, "mixed", False, "upsert"),
        (8, "DYNAMIC_V0", 60, "ordered", True, "insert_overwrite"),
        (8, "DYNAMIC_V0", 60, "mixed", False, "delete"),
    ]:
        keys = _keys(rng, kind, 400)
        place = {k: f"p{i % 3}" for i, k in enumerate(keys)}

        def rows(chosen: list[str], place: dict[str, str] = place) -> list[list[Any]]:
            return [[k, place[k], rng.randrange(10**6)] for k in chosen]

        steps = [
            {"operation": "upsert", "rows": rows(keys[:240])},
            {"operation": "upsert", "rows": rows(rng.sample(keys[:240], 50))},
            {"operation": "upsert", "rows": rows(keys[200:320])},
        ]
        # insert_overwrite replaces the file groups of the partitions it has rows for: a replacecommit.
        final = (
            [k for k in keys[300:] if place[k] == "p1"] if last == "insert_overwrite" else rng.sample(keys[:320], 40)
        )
        steps.append({"operation": last, "rows": rows(final)})
        name = f"v{version}-{filter_type}-{kind}-{last}"
        out.append(
            {
                "path": str(folder / name),
                "options": _options(version, filter_type, entries, partitioned=partitioned),
                "partitioned": partitioned,
                "steps": steps,
                "asked": keys + [f"absent-{i}" for i in range(300)],
            }
        )
    return out


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The tables, written by Hudi in one Spark session."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    folder = tmp_path_factory.mktemp("hudi")
    made = _cases(folder)
    described = folder / "cases.json"
    described.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
    python, jar = _environment()
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(
        [str(python), str(WRITER), str(jar), str(described)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=HANGS_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return made


def test_every_key_is_where_hudi_reads_it(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        lines = Path(case["path"] + ".truth.jsonl").read_text(encoding="utf-8").splitlines()
        truth = {row["key"]: row for row in map(json.loads, lines)}
        assert len(truth) == len(lines) > 100
        store = open_store(case["path"])
        result = find_record_keys(store, case["path"], pa.array(case["asked"]))
        for key, row in zip(case["asked"], result.to_table().to_pylist(), strict=True):
            expected = truth.get(key)
            got = (row["partition"], row["file_name"]) if row["found"] else None
            assert got == (None if expected is None else (expected["partition"], expected["file"])), (case["path"], key)
        assert result.metrics.found == sum(k in truth for k in case["asked"])
