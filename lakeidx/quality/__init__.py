"""Integrity rules over what a caller has read of a table: pure functions, each with a small typed answer.

Import the rules below, `load.load_evidence` to read what they need and `verify.verify` to run all that suit a table.
When checks run and what a failure blocks belongs to `lakeidx.dagster`.
"""

from __future__ import annotations

from lakeidx.quality.batch_rules import (
    BatchCounts,
    CommittedRows,
    check_rows_accounted,
    check_staged_rows_committed,
)
from lakeidx.quality.file_rules import check_orphans, check_referenced_files
from lakeidx.quality.hash_rules import check_live_keys_indexed, check_one_bucket_per_hash, check_stale_hashes
from lakeidx.quality.index_file_rules import IndexFile, check_bucket_rows, check_bucket_skew, check_index_files
from lakeidx.quality.key_rules import BucketKeys, check_keys_unique
from lakeidx.quality.result import SAMPLE_LIMIT, BucketId, RuleResult, Severity, combine
from lakeidx.quality.snapshot_rules import check_snapshot_chain

__all__ = [
    "SAMPLE_LIMIT",
    "BatchCounts",
    "BucketId",
    "BucketKeys",
    "CommittedRows",
    "IndexFile",
    "RuleResult",
    "Severity",
    "check_bucket_rows",
    "check_bucket_skew",
    "check_index_files",
    "check_keys_unique",
    "check_live_keys_indexed",
    "check_one_bucket_per_hash",
    "check_orphans",
    "check_referenced_files",
    "check_rows_accounted",
    "check_snapshot_chain",
    "check_staged_rows_committed",
    "check_stale_hashes",
    "combine",
]
