"""Java programs of the tests: the witnesses in JVMs that stay, and small judges that run on lists of jobs.

Jars come through Maven into the cache folder of the witness (LAKEIDX_ORACLE_CACHE), compiled classes lie beside them.
The bundle of Paimon 2.x is no release that Maven has: LAKEIDX_PAIMON_2_JAR names it, or it lies in ``../shared/jars``;
`make test-all` asks Maven whether it has one meanwhile.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.share import WHOLE

HERE = Path(__file__).resolve().parents[1]
SOURCES = HERE / "java"
SCRIPT = HERE / "oracle" / "paimon.sh"
CACHE = Path(os.environ.get("LAKEIDX_ORACLE_CACHE", Path.home() / ".cache" / "lakeidx-oracle"))
BUNDLE = "org.apache.paimon:paimon-bundle"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch")]
#: Versions of the witness: the release that lakeidx follows, and a build after release 2.0.0.
RELEASED, SECOND = "1.4.2", "2.1"
PAIMON_VERSIONS = (RELEASED, SECOND)
#: What of the environment a witness sees; another value needs another JVM.
_SEEN = ("S3_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "TZ")


def require_java_paimon() -> None:
    """Skip, visibly, where Java or Maven is missing."""
    missing = [tool for tool in ("java", "javac", "mvn", "bash") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the Java witness needs {', '.join(missing)}")


def second_bundle() -> Path | None:
    """The bundle of Paimon 2.x, or None on a machine that has none."""
    named = os.environ.get("LAKEIDX_PAIMON_2_JAR")
    if named:
        return Path(named)
    beside = sorted((HERE.parent.parent / "shared" / "jars").glob("paimon-bundle-2.*.jar"))
    return (newest_release() if WHOLE else None) or (beside[-1] if beside else None)


@functools.cache
def newest_release() -> Path | None:
    """The bundle of the newest release that Maven has, None while that is of Paimon 1."""
    folder = CACHE / "newest"
    with alone():
        shutil.rmtree(folder, ignore_errors=True)
        run_command(["mvn", "-q", "-U", "-B", COPY, f"-Dartifact={BUNDLE}:RELEASE", f"-DoutputDirectory={folder}"])
    return next(folder.glob("paimon-bundle-[2-9]*.jar"), None)


def require_paimon(version: str) -> None:
    """Skip, visibly, where this witness cannot run."""
    require_java_paimon()
    if version == SECOND and second_bundle() is None:
        pytest.skip("no Paimon 2.x: LAKEIDX_PAIMON_2_JAR names no paimon-bundle jar, ../shared/jars has none")


_selected = [RELEASED]


def selected_paimon() -> str:
    """The version that commands and judges run with now."""
    return _selected[-1]


@contextmanager
def use_paimon(version: str) -> Iterator[None]:
    """Run every command and judge of the block with one version."""
    require_paimon(version)
    _selected.append(version)
    try:
        yield
    finally:
        _selected.pop()


def run_command(command: Sequence[str], **environment: str) -> str:
    """Stdout of a command; AssertionError with its words when it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-3000:] or done.stdout[-3000:]}"
    return done.stdout


@contextmanager
def alone() -> Iterator[None]:
    """Workers of one lane share the cache: one at a time fetches and compiles."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def maven_jar(artifact: str, folder: Path) -> Path:
    """A released jar, fetched once."""
    _, name, version = artifact.split(":")
    jar = folder / f"{name}-{version}.jar"
    with alone():
        if not jar.exists():
            folder.mkdir(parents=True, exist_ok=True)
            run_command(["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])
    return jar


def _environment(version: str) -> dict[str, str]:
    """What the witness' script needs for a version."""
    bundle = second_bundle() if version == SECOND else None
    return {"PAIMON_VERSION": version, **({"LAKEIDX_PAIMON_2_JAR": str(bundle)} if bundle else {})}


@functools.cache
def witness_classpath(version: str = RELEASED) -> str:
    """Jars and classes of the witness; its own script fetches and compiles them."""
    require_paimon(version)
    with alone():
        return run_command(["bash", str(SCRIPT), "classpath"], **_environment(version)).strip()


def compiled(program: str, classpath: str, version: str = RELEASED) -> str:
    """Compile a program of tests/java when its source is newer; gives the class path to run it with."""
    classes = CACHE / "judges" / ("classes" if version == RELEASED else f"classes-{version}")
    classes.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(classes), classpath])
    source = SOURCES / f"{program}.java"
    made = classes / f"{program}.class"
    with alone():
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            run_command(["javac", "-nowarn", "-d", str(classes), "-cp", path, str(source)])
    return path


@functools.cache
def _spilled() -> tempfile.TemporaryDirectory[str]:
    """A folder for what Paimon spills and never removes; it goes with this process."""
    return tempfile.TemporaryDirectory(prefix="lakeidx-java-", ignore_cleanup_errors=True)


def java_command(program: str, classpath: str, *arguments: object) -> list[str]:
    """The command that runs a program with what Paimon needs opened."""
    temporary = f"-Djava.io.tmpdir={_spilled().name}"
    return ["java", "-Xmx3g", temporary, *_OPENS, "-cp", classpath, program, *map(str, arguments)]


class _Witness:
    """One JVM that runs the witness' commands one after another."""

    def __init__(self, environment: Mapping[str, str], version: str) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            java_command("PaimonServer", compiled("PaimonServer", witness_classpath(version), version)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=dict(environment),
        )
        atexit.register(self._process.kill)

    def call(self, arguments: Sequence[str]) -> list[str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            watch = threading.Timer(HANGS_SECONDS, self._process.kill)
            watch.start()
            try:
                stdin.write(json.dumps(list(arguments)) + "\n")
                stdin.flush()
                line = stdout.readline()
            finally:
                watch.cancel()
        if not line:
            self._log.seek(0)
            raise AssertionError(f"the Java witness died at {arguments}: {self._log.read()[-3000:]}")
        answer = json.loads(line)
        assert "error" not in answer, f"Java {arguments[0]}: {answer['error'][:3000]}"
        return list(answer["out"].splitlines())


_witnesses: dict[tuple[str | None, ...], _Witness] = {}


def witness(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """Run one command of the selected witness; gives the lines it prints. AssertionError with Java's words when it fails.

    With LAKEIDX_ORACLE that script is run for every command, in a JVM of its own.
    """
    version = selected_paimon()
    seen = {**os.environ, **(environment or {})}
    own = os.environ.get("LAKEIDX_ORACLE")
    if own is not None:
        return run_command(["bash", own, *arguments], **{**seen, **_environment(version)}).splitlines()
    key = (version, *(seen.get(name) for name in _SEEN))
    if key not in _witnesses:
        _witnesses[key] = _Witness(seen, version)
    return _witnesses[key].call(arguments)
