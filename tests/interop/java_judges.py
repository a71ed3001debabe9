"""Small Java programs of tests/java, compiled against released Paimon jars and run on lists of jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.kit.java_tools import (
    CACHE,
    compiled,
    java_command,
    maven_jar,
    run_command,
    selected_paimon,
    witness_classpath,
)


def paimon_jars() -> list[Path]:
    """Jars of the selected witness, and lz4-java, which the bundle expects beside it."""
    jars = [Path(p) for p in witness_classpath(selected_paimon()).split(os.pathsep)]
    return [*jars, maven_jar("org.lz4:lz4-java:1.8.0", CACHE / "judges")]


def paimon_0_9() -> list[Path]:
    """The last release line whose default store is the hash store, with what its bundle expects beside it."""
    beside = ("org.lz4:lz4-java:1.8.0", "org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-nop:1.7.36")
    return [maven_jar(a, CACHE / "judges") for a in ("org.apache.paimon:paimon-bundle:0.9.0", *beside)]


def run_program(program: str, jars: Sequence[Path], *arguments: object) -> list[str]:
    """Compile a program when its source is newer, run it, and give the lines it prints."""
    path = compiled(program, os.pathsep.join(map(str, jars)), selected_paimon())
    return run_command(java_command(program, path, *arguments)).splitlines()


def judge(program: str, jars: Sequence[Path], jobs: Sequence[Sequence[object]], folder: Path) -> None:
    """Run one program over all jobs (a JVM is slow to start)."""
    file = folder / "jobs.tsv"
    file.write_text("".join("\t".join(map(str, job)) + "\n" for job in jobs), encoding="utf-8")
    run_program(program, jars, file)
