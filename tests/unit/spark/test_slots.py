"""Slots of a session by its configuration, in every kind of deployment; what only Spark knows is asked."""

from __future__ import annotations

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.spark import runner
from lakeidx.spark.runner import session_slots
from lakeidx.tasks.limits import available_cores

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
ASKED = 7


class Session:
    """The configuration of a session."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.conf = settings


@pytest.fixture(autouse=True)
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_slots_by_query", lambda _: ASKED)


def executors(cores: int | None = None, count: int | None = None, most: int | None = None) -> dict[str, str]:
    names = {"spark.executor.cores": cores, "spark.executor.instances": count, "spark.cores.max": most}
    return {name: str(value) for name, value in names.items() if value is not None}


@pytest.mark.parametrize(
    ("master", "settings", "expected"),
    [
        ("local", {}, 1),
        ("local[3]", executors(cores=9, count=9), 3),
        ("local[3,2]", {}, 3),
        ("local[*]", {}, available_cores()),
        ("spark://m:7077", executors(most=40), 40),
        ("spark://m:7077", executors(most=40) | {"spark.task.cpus": "4"}, 10),
        # A worker's executor takes all of its cores: how many there are, Spark knows.
        ("spark://m:7077", {}, ASKED),
        ("spark://m:7077", executors(count=5), ASKED),
        ("spark://m:7077", executors(cores=4), ASKED),
        ("yarn", executors(cores=4, count=10), 40),
        ("yarn", executors(count=10), 10),
        ("yarn", executors(cores=4), ASKED),
        ("yarn", executors(cores=4) | DYNAMIC | {"spark.dynamicAllocation.maxExecutors": "100"}, 400),
        ("k8s://https://api", executors(cores=2, count=4), 8),
        ("k8s://https://api", executors(cores=2, count=1) | DYNAMIC | {"spark.dynamicAllocation.maxExecutors": "6"}, 12),
        # A Connect server that does not say what it runs on.
        ("", {}, ASKED),
    ],
)  # fmt: skip
def test_slots_follow_from_sparks_settings(master: str, settings: dict[str, str], expected: int) -> None:
    assert session_slots(Session({"spark.master": master, **settings})) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("master", ["yarn", "k8s://https://api", "spark://m:7077"])
def test_executors_without_an_upper_limit_are_an_error_that_says_what_to_set(master: str) -> None:
    session = Session({"spark.master": master, **DYNAMIC, **executors(cores=2, count=1)})
    with pytest.raises(InvalidInputError, match=r"spark\.dynamicAllocation\.maxExecutors.*--parallelism"):
        session_slots(session)  # type: ignore[arg-type]


def test_more_processors_for_a_task_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"spark\.cores\.max"):
        session_slots(Session({"spark.master": "spark://m", "spark.cores.max": "2", "spark.task.cpus": "4"}))  # type: ignore[arg-type]
