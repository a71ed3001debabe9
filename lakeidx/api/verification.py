"""Every rule over the whole table, to the last page of the last file."""

from __future__ import annotations

from lakeidx.file_index.options import indexed_columns
from lakeidx.maintenance.lookup_store import lookup_coverage
from lakeidx.quality.file_index_answers import check_file_indexes
from lakeidx.quality.load import load_evidence
from lakeidx.quality.lookup_agrees import check_lookup_agrees
from lakeidx.quality.result import RuleResult
from lakeidx.quality.verify import Limits, verify
from lakeidx.table.handle import TableHandle


def run_verification(
    table: TableHandle, limits: Limits, *, sample_rows: int, lookup_store: bool | None
) -> list[RuleResult]:
    """Apply all rules that suit the table; see `lakeidx.api.Table.verify`."""
    evidence = load_evidence(table.metadata)
    results = verify(evidence, limits)
    if indexed_columns(evidence.schema.options):
        name, entries = evidence.partition_name, evidence.view.entries
        results.append(check_file_indexes(table.metadata, entries, sample_rows=sample_rows, partition_name=name))
    if lookup_store is None:
        lookup_store = bool(evidence.schema.primary_keys) and lookup_coverage(table.metadata)[0] > 0
    if lookup_store:
        results.append(check_lookup_agrees(table, sample_rows=sample_rows))
    return results
