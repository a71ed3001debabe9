"""One suite per check: what the metrics of a rule must be. Names are those of the rules.

A figure is the column of a frame with one row. Suites are plain lists, so that one validation can judge many checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from great_expectations import expectations as gxe

from lakeidx.pipeline_file.sections import ChecksConfig

Suite = list[Any]


def _none(*metrics: str) -> Suite:
    """Expect 0 of each metric, which counts faults."""
    return [gxe.ExpectColumnValuesToBeBetween(column=f, min_value=0, max_value=0) for f in metrics]


def files_readable(limits: ChecksConfig) -> Suite:
    """Expect every file to be decodable."""
    return _none("files_unreadable")


def referenced_files_exist(limits: ChecksConfig) -> Suite:
    """Expect every referenced file to exist with its size."""
    return _none("files_missing", "files_of_other_size")


def snapshot_chain(limits: ChecksConfig) -> Suite:
    """Expect contiguous snapshot ids and totals that add up."""
    faults = ("hole", "other_id", "total_does_not_add_up", "committed_twice", "behind_the_hint")
    return _none("snapshots_missing", *(f"faults_{f}" for f in faults))


def options_followed(limits: ChecksConfig) -> Suite:
    """Expect no option to be left out, or unknown."""
    return _none("options_left_out", "options_unknown")


def primary_key_once(limits: ChecksConfig) -> Suite:
    """Expect no key in two buckets, none twice after merge."""
    return _none("keys_in_several_buckets", "keys_twice_in_a_bucket")


def index_files_agree(limits: ChecksConfig) -> Suite:
    """Index files are as the manifest says, without repeats."""
    faults = ("missing", "torn", "of_other_size", "of_other_row_count", "with_repeats", "second_of_bucket")
    return _none(*(f"files_{f}" for f in faults))


def hash_in_one_bucket(limits: ChecksConfig) -> Suite:
    """Expect one owner per hash."""
    return _none("hashes_in_several_buckets")


def live_keys_indexed(limits: ChecksConfig) -> Suite:
    """Expect no live key without its hash."""
    return _none("hashes_not_indexed", "buckets_with_gaps")


def stale_hashes(limits: ChecksConfig) -> Suite:
    """Expect few hashes whose key was deleted."""
    return [gxe.ExpectColumnValuesToBeBetween(column="stale_share", min_value=0, max_value=limits.stale_share)]


def bucket_rows_within_target(limits: ChecksConfig) -> Suite:
    """Expect no bucket beyond its target, no partition beyond its buckets."""
    return _none("buckets_over_target", "partitions_over_max_buckets")


def bucket_skew(limits: ChecksConfig) -> Suite:
    """Expect the largest bucket not to be out of proportion."""
    return [gxe.ExpectColumnValuesToBeBetween(column="largest_skew", min_value=0, max_value=limits.skew_ratio)]


def batch_rows_accounted(limits: ChecksConfig) -> Suite:
    """Expect ingested = inserted + updated + deleted + rejected."""
    return [
        gxe.ExpectColumnPairValuesToBeEqual(column_A="ingested", column_B="accounted"),
        *_none("rows_unaccounted"),
        *(
            gxe.ExpectColumnValuesToBeBetween(column=c, min_value=0)
            for c in ("inserted", "updated", "deleted", "rejected")
        ),
    ]


def staged_rows_committed(limits: ChecksConfig) -> Suite:
    """Expect staged = committed + superseded within the batch."""
    return [
        gxe.ExpectColumnPairValuesToBeEqual(column_A="staged", column_B="committed_or_superseded"),
        *_none("rows_lost", "rows_too_many"),
    ]


def orphans_below_limit(limits: ChecksConfig) -> Suite:
    """Expect few unreferenced files."""
    return [gxe.ExpectColumnValuesToBeBetween(column="orphan_files", min_value=0, max_value=limits.orphan_files)]


def file_indexes_answer(limits: ChecksConfig) -> Suite:
    """Expect no false negatives of file indexes."""
    return _none("false_negatives", "indexes_unreadable")


def lookup_store_agrees(limits: ChecksConfig) -> Suite:
    """Expect lookups to return the rows of a scan."""
    return _none("keys_missing", "keys_too_many", "rows_different", "lookup_files_unreadable")


SUITES: dict[str, Callable[[ChecksConfig], Suite]] = {
    suite.__name__: suite
    for suite in (
        files_readable,
        referenced_files_exist,
        snapshot_chain,
        options_followed,
        primary_key_once,
        index_files_agree,
        hash_in_one_bucket,
        live_keys_indexed,
        stale_hashes,
        bucket_rows_within_target,
        bucket_skew,
        batch_rows_accounted,
        staged_rows_committed,
        orphans_below_limit,
        file_indexes_answer,
        lookup_store_agrees,
    )
}
