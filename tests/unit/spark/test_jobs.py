"""What Spark's pages call a job, on sessions that only look like Spark's; the pages themselves: tests/spark/test_runner.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeidx.spark.jobs import described


def test_a_thread_has_its_own_description_again() -> None:
    seen: list[str | None] = []
    context = SimpleNamespace(getLocalProperty=lambda key: "mine", setLocalProperty=lambda key, text: seen.append(text))
    with (
        pytest.raises(ValueError, match="lost"),
        described(SimpleNamespace(sparkContext=context), "compaction: /t"),  # type: ignore[arg-type]
    ):
        raise ValueError("lost")
    assert seen == ["lakeidx compaction: /t", "mine"]


def test_connect_gets_a_tag_without_commas() -> None:
    tags: list[tuple[str, str]] = []

    class Connected:
        def addTag(self, tag: str) -> None:
            tags.append(("+", tag))

        def removeTag(self, tag: str) -> None:
            tags.append(("-", tag))

    Connected.__module__ = "pyspark.sql.connect.session"
    session: Any = Connected()
    with described(session, "ingest: batch b of /a,b"):
        assert tags == [("+", "lakeidx ingest: batch b of /a;b")]
    assert tags[1:] == [("-", "lakeidx ingest: batch b of /a;b")]
