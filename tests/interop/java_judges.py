"""Small Java programs of tests/java, compiled against released Paimon jars and run on lists of jobs.

Jars come through Maven into the cache folder of the oracle (LAKEIDX_ORACLE_CACHE), compiled classes lie beside them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.java_paimon import SCRIPT, require_java_paimon

SOURCES = Path(__file__).resolve().parents[1] / "java"
CACHE = Path(os.environ.get("LAKEIDX_ORACLE_CACHE", Path.home() / ".cache" / "lakeidx-oracle"))
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_TIMEOUT_S = 600


def _run(command: Sequence[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-3000:] or done.stdout[-3000:]}"
    return done.stdout


def _maven_jar(artifact: str, folder: Path) -> Path:
    _, name, version = artifact.split(":")
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])
    return jar


def paimon_1_4(tmp_path: Path) -> list[Path]:
    """Jars of the oracle, and lz4-java, which the bundle expects beside it."""
    require_java_paimon()
    if not (CACHE / "ready").exists():
        _run(["bash", str(SCRIPT), "10", "none", str(tmp_path / "first.sst")], PAIMON_MAIN="PaimonMicro")
    return [*sorted((CACHE / "jars").glob("*.jar")), _maven_jar("org.lz4:lz4-java:1.8.0", CACHE / "judges")]


def paimon_0_9() -> list[Path]:
    """The last release line whose default store is the hash store, with what its bundle expects beside it."""
    require_java_paimon()
    beside = ("org.lz4:lz4-java:1.8.0", "org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-nop:1.7.36")
    return [_maven_jar(a, CACHE / "judges") for a in ("org.apache.paimon:paimon-bundle:0.9.0", *beside)]


def run_program(program: str, jars: Sequence[Path], *arguments: object) -> list[str]:
    """Compile a program when its source is newer, run it, and give the lines it prints."""
    classes = CACHE / "judges" / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(classes), *map(str, jars)])
    source = SOURCES / f"{program}.java"
    made = classes / f"{program}.class"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        _run(["javac", "-nowarn", "-d", str(classes), "-cp", path, str(source)])
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch")]
    return _run(["java", "-Xmx3g", *opens, "-cp", path, program, *map(str, arguments)]).splitlines()


def judge(program: str, jars: Sequence[Path], jobs: Sequence[Sequence[object]], folder: Path) -> None:
    """Run one program over all jobs (a JVM is slow to start)."""
    file = folder / "jobs.tsv"
    file.write_text("".join("\t".join(map(str, job)) + "\n" for job in jobs), encoding="utf-8")
    run_program(program, jars, file)
