"""The dynamic-bucket hash index: which bucket a key lives in, and what its index files must hold."""

from __future__ import annotations

from lakeidx.index.assigner import AssignerSet, AssignPlan, HashBucketAssigner, IndexLoader, NoFiles, PartitionKey
from lakeidx.index.duplicates import DuplicateHashes, find_duplicate_hashes
from lakeidx.index.maintainer import DynamicBucketIndexMaintainer, plan_index_update
from lakeidx.index.partition_index import Assignment, PartitionIndex, PartitionIndexState
from lakeidx.index.routing import RowGroups, assigner_of, group_rows, is_my_bucket, split_by_assigner
from lakeidx.index.rules import MAX_BUCKETS, AssignRules, BucketPicker, LimitScope, RandomBuckets
from lakeidx.index.simple_assigner import SimpleHashBucketAssigner

__all__ = [
    "MAX_BUCKETS",
    "AssignPlan",
    "AssignRules",
    "AssignerSet",
    "Assignment",
    "BucketPicker",
    "DuplicateHashes",
    "DynamicBucketIndexMaintainer",
    "HashBucketAssigner",
    "IndexLoader",
    "LimitScope",
    "NoFiles",
    "PartitionIndex",
    "PartitionIndexState",
    "PartitionKey",
    "RandomBuckets",
    "RowGroups",
    "SimpleHashBucketAssigner",
    "assigner_of",
    "find_duplicate_hashes",
    "group_rows",
    "is_my_bucket",
    "plan_index_update",
    "split_by_assigner",
]
