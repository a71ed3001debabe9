"""The Python of Spark's workers: another version than this one, or one without lakeidx, is an error of one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pyspark.sql import SparkSession

from lakeidx.errors import InvalidInputError
from lakeidx.spark.jobs import is_connect

_SECONDS = 300
_ASK = "import sys, importlib.util as u; print('%d.%d' % sys.version_info[:2], u.find_spec('lakeidx') is not None)"
_VERSIONS = re.compile(r"different version: (\d+\.\d+) than that in driver: (\d+\.\d+)")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(lakeidx|pyarrow)")


def check_worker_python(session: SparkSession) -> None:
    """Raise InvalidInputError when the workers of a local session run a Python that cannot run lakeidx' tasks.

    The program is asked itself, once, and only when it is not the one of this process. What workers elsewhere run is known with
    their first task: see `python_errors`.
    """
    if is_connect(session) or not str(session.sparkContext.master).startswith("local"):
        return
    program = session.sparkContext.pythonExec
    found = shutil.which(program)
    if found is None:
        raise InvalidInputError(f"Spark's workers would run {program}, which does not exist: {_way_out()}")
    # Not the files behind links: those of an environment and of the Python it was made from are the same.
    if os.path.abspath(found) == os.path.abspath(sys.executable):
        return
    version, has_lakeidx = _version_of(found)
    if version != _mine():
        raise InvalidInputError(_mismatch(version, _mine(), f" ({found})"))
    if not has_lakeidx and not session.conf.get("spark.submit.pyFiles", ""):
        raise InvalidInputError(f"Spark's workers run {found}, which has no lakeidx: {_way_out()}")


def runs_lakeidx(program: str) -> bool:
    """Return whether a Python program is the one of this process and finds lakeidx by itself."""
    found = shutil.which(program)
    if found is None or os.path.abspath(found) != os.path.abspath(sys.executable):
        return False
    return _version_of(found)[1]


@contextmanager
def python_errors() -> Iterator[None]:
    """Turn Spark's errors about workers with another Python version, or without lakeidx, into one line."""
    try:
        yield
    except Exception as error:
        # Spark's own error, one of py4j around it, or one of Connect: what they have in common is the worker's text.
        text = str(error)
        if found := _VERSIONS.search(text):
            raise InvalidInputError(_mismatch(found[1], found[2], "")) from error
        if found := _NO_MODULE.search(text):
            raise InvalidInputError(f"Spark's workers run a Python that has no {found[1]}: {_way_out()}") from error
        raise


def _mine() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


@cache
def _version_of(program: str) -> tuple[str, bool]:
    """Return the version of a Python program, and whether it has lakeidx."""
    try:
        done = subprocess.run([program, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=True)  # noqa: S603 - what Spark is going to run
        version, has_lakeidx = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InvalidInputError(
            f"Spark's workers would run {program}, which is not a working Python: {_way_out()}"
        ) from error
    return version, has_lakeidx == "True"


def _mismatch(theirs: str, mine: str, place: str) -> str:
    return f"Spark's workers run Python {theirs}{place} and this process {mine}: {_way_out()}"


def _way_out() -> str:
    return (
        f"set PYSPARK_PYTHON to a Python {_mine()} with lakeidx, here {sys.executable}, before the session starts "
        "(spark.pyspark.python of spark-submit)"
    )
