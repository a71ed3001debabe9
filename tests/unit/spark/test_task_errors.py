"""Errors in Spark's workers: the one line, unless the traceback is asked for. What Spark makes of it is in tests/spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.spark.task_errors import one_line


class Source:
    def __init__(self, options: Mapping[str, str] | SimpleNamespace) -> None:
        self.options = options

    @one_line
    def fail(self, error: Exception) -> None:
        raise error

    @one_line
    def rows(self, error: Exception | None) -> Iterator[int]:
        yield 1
        if error is not None:
            raise error


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process look like one that Spark started."""
    main = ModuleType("__main__")
    main.__spec__ = SimpleNamespace(name="pyspark.daemon")  # type: ignore[assignment]
    monkeypatch.setitem(__import__("sys").modules, "__main__", main)
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("options", [{}, SimpleNamespace(traceback=False)])
def test_an_error_of_lakeidx_is_shown_without_its_traceback(
    options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInputError, match="bad"):
        Source(options).fail(InvalidInputError("bad"))
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")
    rows = Source(options).rows(InvalidInputError("bad"))
    assert next(rows) == 1
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    with pytest.raises(InvalidInputError, match="bad"):
        next(rows)
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("options", [{"traceback": "true"}, SimpleNamespace(traceback=True)])
def test_the_traceback_stays_when_it_is_asked_for(options: Mapping[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="bad"):
        Source(options).fail(InvalidInputError("bad"))
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


@pytest.mark.usefixtures("worker")
def test_errors_of_others_keep_theirs() -> None:
    with pytest.raises(ValueError, match="bug"):
        Source({}).fail(ValueError("bug"))
    assert list(Source({}).rows(None)) == [1]
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


def test_a_process_that_spark_did_not_start_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(InvalidInputError, match="bad"):
        Source({}).fail(InvalidInputError("bad"))
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
