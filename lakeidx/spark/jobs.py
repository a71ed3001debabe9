"""Descriptions of lakeidx's jobs on Spark's pages: the stage, and its batch or table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"


def is_connect(session: SparkSession) -> bool:
    """Return True for a session of Spark Connect, which has no Spark context in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def described(session: SparkSession, label: str) -> Iterator[None]:
    """Name the jobs that this thread starts; over Spark Connect, whose server names jobs itself, tag them.

    label   stage, and behind a colon what it works on
    """
    text = f"lakeidx {label}"
    if is_connect(session):
        # A tag has no comma.
        tag = text.replace(",", ";")
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)
        return
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        # None takes the property away again.
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
