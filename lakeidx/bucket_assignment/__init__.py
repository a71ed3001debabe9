"""The dynamic-bucket rules of Paimon: which bucket a new key goes to, and what the HASH index files must hold.

Import the names below: `PartitionIndex` places hashes, `AssignPlan` shares them among tasks, `plan_index_update` says what an
index file becomes.
Everything works on arrays of hashes and does no I/O; where a known key lives is the business of `lakeidx.key_index`.
"""

from __future__ import annotations

from lakeidx.bucket_assignment.assign_plan import AssignPlan
from lakeidx.bucket_assignment.duplicates import DuplicateHashes, find_duplicate_hashes
from lakeidx.bucket_assignment.maintainer import plan_index_update
from lakeidx.bucket_assignment.partition_index import Assignment, PartitionIndex
from lakeidx.bucket_assignment.routing import RowGroups, assigner_of, group_rows
from lakeidx.bucket_assignment.rules import MAX_BUCKETS, AssignRules, BucketPicker, LimitScope, RandomBuckets

__all__ = [
    "MAX_BUCKETS",
    "AssignPlan",
    "AssignRules",
    "Assignment",
    "BucketPicker",
    "DuplicateHashes",
    "LimitScope",
    "PartitionIndex",
    "RandomBuckets",
    "RowGroups",
    "assigner_of",
    "find_duplicate_hashes",
    "group_rows",
    "plan_index_update",
]
