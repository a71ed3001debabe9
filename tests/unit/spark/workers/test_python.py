"""The Python of Spark's workers: asked once where it runs here, and Spark's own error made one line where it does not."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakeidx.errors import InvalidInputError
from lakeidx.spark.workers.python import check_worker_python, python_errors

MINE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def session(program: str, master: str = "local[2]", files: str = "") -> Any:
    context = SimpleNamespace(master=master, pythonExec=program)
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(get=lambda key, default: files))


def python(folder: Path, says: str) -> str:
    """A program that answers as a Python would, and writes down that it was asked."""
    program = folder / f"python-{abs(hash(says))}"
    program.write_text(f"#!/bin/sh\necho asked >> {folder}/asked\n{says}\n")
    program.chmod(0o755)
    return str(program)


def test_this_python_and_clusters_are_not_asked(tmp_path: Path) -> None:
    check_worker_python(session(sys.executable))
    check_worker_python(session(python(tmp_path, "echo 3.9 True"), "spark://m:7077"))
    assert not (tmp_path / "asked").exists()


def test_another_version_is_named_and_asked_once(tmp_path: Path) -> None:
    program = python(tmp_path, "echo 3.9 True")
    for _ in range(3):
        with pytest.raises(InvalidInputError) as error:
            check_worker_python(session(program))
    text = str(error.value)
    assert f"workers run Python 3.9 ({program}) and this process {MINE}: set PYSPARK_PYTHON to a Python {MINE}" in text
    assert sys.executable in text
    assert "\n" not in text
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_a_python_without_lakeidx(tmp_path: Path) -> None:
    bare = python(tmp_path, f"echo {MINE} False")
    with pytest.raises(InvalidInputError, match="which has no lakeidx: set PYSPARK_PYTHON"):
        check_worker_python(session(bare))
    check_worker_python(session(bare, files="lakeidx.zip"))
    check_worker_python(session(python(tmp_path, f"echo {MINE} True")))


@pytest.mark.parametrize("says", ["exit 1", "echo none"])
def test_what_is_no_python(tmp_path: Path, says: str) -> None:
    with pytest.raises(InvalidInputError, match="not a working Python"):
        check_worker_python(session(python(tmp_path, says)))
    with pytest.raises(InvalidInputError, match="which does not exist: set PYSPARK_PYTHON"):
        check_worker_python(session("/no/such/python"))


def test_the_error_of_spark_itself() -> None:
    text = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run "
        "with different minor versions."
    )
    with (
        pytest.raises(InvalidInputError, match=re.escape("workers run Python 3.9 and this process 3.11: set")),
        python_errors(),
    ):
        raise PySparkException(f"Job aborted\nTraceback\n{text}\n at org.apache.spark")
    with pytest.raises(InvalidInputError, match="a Python that has no lakeidx: set PYSPARK_PYTHON"), python_errors():
        raise RuntimeError("Traceback\n  x\nModuleNotFoundError: No module named 'lakeidx'\n")
    with pytest.raises(PySparkException, match="something else"), python_errors():
        raise PySparkException("something else")
