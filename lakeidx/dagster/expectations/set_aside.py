"""Landed rows that do not meet an expectation with `set_aside`, which ingest rejects; judged in the tasks that read the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.data.json_values import json_rows
from lakeidx.data.row_kinds import is_retract
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.landing.cast_rows import RefuseRows, short_text
from lakeidx.landing.types import Piece
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.sections import ExpectationConfig


def _judge(
    wanted: Sequence[ExpectationConfig], piece: Piece, rows: pa.Table, bad: NDArray[np.bool_]
) -> Mapping[int, str]:
    """Return rows that fail, each with the first expectation it does not meet; not of deletes, and of rows rejected before.

    errors   InvalidInputError for an expectation that is not about single rows, or cannot be applied
    """
    # It imports Great Expectations.
    from lakeidx.dagster.expectations.of_rows import failing_rows

    left = ~bad
    if VALUE_KIND in rows.column_names:
        left &= ~is_retract(np.asarray(rows.column(VALUE_KIND)))
    places = np.flatnonzero(left)
    judged = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
    found: dict[int, str] = {}
    for expected in wanted:
        failing = failing_rows(expected, judged)
        values = json_rows(judged.select(expected.columns).take(pa.array(failing, pa.int64())))
        for at, row in zip(failing, values, strict=True):
            text = ", ".join("null" if v is None else short_text(v) for v in row.values())
            found.setdefault(int(places[at]), f"{reason_of(expected)}: {text}")
    return found


def reason_of(expected: ExpectationConfig) -> str:
    """Return what rejected rows of an expectation are counted under."""
    return f"expectation {expected.check_name}"


def row_judge(config: PipelineConfig) -> RefuseRows | None:
    """Return what finds rows of a pipeline that ingest rejects; None when no expectation does."""
    wanted = tuple(e for e in config.expectations if e.set_aside)
    return partial(_judge, wanted) if wanted else None
