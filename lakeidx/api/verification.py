"""Every rule over the whole table, to the last page of the last file."""

from __future__ import annotations

from lakeidx.errors import CorruptFileError
from lakeidx.maintenance.lookup_store import lookup_coverage
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.quality.result import RuleResult
from lakeidx.quality.verify import Limits, unreadable_table
from lakeidx.quality.whole_table import Checkpoint, verify_table
from lakeidx.storage import open_store
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import Progress, Runner


def run_verification(
    table: TableHandle,
    limits: Limits,
    *,
    sample_rows: int,
    lookup_store: bool | None,
    runner: Runner | None = None,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> list[RuleResult]:
    """Apply all rules that suit the table; see `lakeidx.api.Table.verify`.

    Of a newest snapshot that cannot be read only that is found.
    """
    try:
        return _verified(table, limits, sample_rows, lookup_store, runner, checkpoint, progress)
    except CorruptFileError as error:
        return [unreadable_table(error)]


def _verified(
    table: TableHandle,
    limits: Limits,
    sample_rows: int,
    lookup_store: bool | None,
    runner: Runner | None,
    checkpoint: str | None,
    progress: Progress | None,
) -> list[RuleResult]:
    place = None if checkpoint is None else Checkpoint(open_store(checkpoint), checkpoint)
    found = verify_table(
        table.metadata, limits, sample_rows=sample_rows, runner=runner, checkpoint=place, progress=progress
    )
    results = list(found.results)
    if lookup_store is None:
        keyed = bool(table.metadata.latest_schema().primary_keys)
        lookup_store = keyed and lookup_coverage(table.metadata)[0] > 0
    if lookup_store:
        results.append(check_lookup_agrees(table, sample_rows=sample_rows))
    return results
