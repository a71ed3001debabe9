"""A batch from its rows to its commit, in a context that a test has made."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import BatchContext
from lakeidx.batch.upsert import finish_batch, ingest_files, ingest_rows
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.types import MISSING_DEFAULT, LandingOptions


def upsert_files(
    context: BatchContext,
    landing: Sequence[str],
    options: LandingOptions | None = None,
    *,
    strict: bool = False,
    max_rejected: RejectLimit | None = None,
) -> BatchResult:
    """Run landing files through all stages up to commit; a batch that was committed before changes nothing.

    errors   see `ingest_files`
    """
    ingest_files(context, landing, options, strict=strict, max_rejected=max_rejected)
    return finish_batch(context, lambda stage: None)


def upsert_table(context: BatchContext, rows: pa.Table, *, missing: str = MISSING_DEFAULT) -> BatchResult:
    """Run rows in memory through all stages; row kinds in column ``_kind`` when present.

    missing   columns that the rows do not have: see `lakeidx.landing.missing_columns`
    """
    ingest_rows(context, rows, missing=missing)
    return finish_batch(context, lambda stage: None)
