"""All rules over what was read of a table: evidence in, one `RuleResult` per rule out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.feature_gate import gate_report
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import find_type
from lakeidx.options.descriptors import INT_MAX
from lakeidx.options.names import unknown_message
from lakeidx.quality.file_rules import check_referenced_files
from lakeidx.quality.hash_rules import check_live_keys_indexed, check_one_bucket_per_hash, check_stale_hashes
from lakeidx.quality.index_file_rules import check_bucket_rows, check_bucket_skew, check_index_files
from lakeidx.quality.key_rules import check_keys_unique
from lakeidx.quality.load import TableEvidence
from lakeidx.quality.result import BucketId, RuleResult, Severity, bounded
from lakeidx.quality.snapshot_rules import check_snapshot_chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits from which on something is a finding.

    max_skew          largest bucket of a partition over the partition's mean
    max_stale_share   share of index hashes without a live key, 0 to 1
    """

    max_skew: float = 4.0
    max_stale_share: float = 0.1


def check_files_readable(evidence: TableEvidence) -> RuleResult:
    """Check that every existing file of the scope could be read, data files to their last page; other rules ignore
    unreadable files. So is a schema that Java Paimon cannot open, which lakeidx wrote before it refused such names.
    """
    faults = [*_blank_columns(evidence.schema), *evidence.unreadable]
    return _files_readable(faults, len(evidence.live), *evidence.decoded)


def unreadable_table(error: CorruptFileError) -> RuleResult:
    """Return the finding of a table whose newest snapshot, or what that names, cannot be read: no other rule can be applied."""
    return _files_readable([{"file": error.path, "offset": error.offset, "fault": error.message}], 0, 0, 0)


def _files_readable(faults: Sequence[Mapping[str, Any]], buckets: int, files: int, size: int) -> RuleResult:
    return RuleResult(
        name="files_readable",
        passed=not faults,
        severity=Severity.ERROR,
        metrics={
            "buckets_read": buckets,
            "files_decoded": files,
            "bytes_decoded": size,
            "files_unreadable": len(faults),
        },
        sample=bounded(faults),
        description="Every page of every data file, and every examined snapshot, could be decoded.",
    )


def _blank_columns(schema: TableSchema) -> list[dict[str, str]]:
    way = "Java Paimon cannot open the table: name it (Table.alter(rename={%r: 'name'})) or drop it (Table.alter(drop=[%r]))"
    return [
        {"file": f"schema-{schema.id}", "fault": f"column {at} has no name ({f.name!r}); {way % (f.name, f.name)}"}
        for at, f in enumerate(schema.fields, 1)
        if not f.name.strip()
    ]


def _check_deletes_counted(evidence: TableEvidence) -> RuleResult:
    """Check that manifests count the deletes in files: above level 0 readers go by that, and Java's compactions everywhere.

    pypaimon counts none. A full compaction by lakeidx writes files with what they say.
    """
    return RuleResult(
        name="deletes_counted",
        passed=not evidence.miscounted,
        severity=Severity.ERROR if any(found["level"] for found in evidence.miscounted) else Severity.WARN,
        metrics={"files_decoded": evidence.decoded[0], "files_miscounted": len(evidence.miscounted)},
        sample=bounded(evidence.miscounted),
        description="Manifests count the deletes in each data file; `lakeidx compact TABLE --full` mends what other writers left.",
    )


def verify(evidence: TableEvidence, limits: Limits | None = None) -> list[RuleResult]:
    """Run all rules that apply to the table, in a fixed order; see `rule_names`."""
    limits = limits or Limits()
    name = evidence.partition_name
    live, index = evidence.live, evidence.index
    results = [
        check_files_readable(evidence),
        check_referenced_files(evidence.expected, evidence.found),
        check_snapshot_chain(evidence.snapshots, latest_hint=evidence.latest_hint),
        check_options_followed(evidence.schema),
    ]
    if evidence.schema.table_options.writes_iceberg:
        from lakeidx.quality.iceberg_rules import check_iceberg

        results.append(check_iceberg(evidence.iceberg))
    if not evidence.schema.primary_keys:
        return results
    results.append(_check_deletes_counted(evidence))
    mode, options = evidence.schema.bucket_mode, evidence.schema.table_options
    keys = check_keys_unique(
        evidence.suspects,
        partition_name=name,
        key_name=bytes.hex,
        across_partitions=mode is BucketMode.KEY_DYNAMIC,
    )
    # Only keys whose hash is there twice were handed over; the metrics refer to all that were read.
    total = sum(len(h) for h in live.values())
    results.append(replace(keys, metrics={**keys.metrics, "keys": total, "buckets": len(live)}))
    if mode is not BucketMode.HASH_DYNAMIC:
        return results
    touched = {place: hashes for place, hashes in index.items() if place in live}
    rows: dict[BucketId, int] = {place: len(hashes) for place, hashes in index.items()}
    return [
        *results,
        check_index_files(evidence.index_files, partition_name=name),
        check_one_bucket_per_hash(index, partition_name=name),
        check_live_keys_indexed(live, index, partition_name=name),
        check_stale_hashes(live, touched, max_stale_share=limits.max_stale_share, partition_name=name),
        check_bucket_rows(
            rows,
            # With index.type = bucket the key says its bucket, however many are there already.
            target_rows=options.dynamic_bucket_target_row_num if _fills_buckets(evidence) else INT_MAX,
            max_buckets=options.dynamic_bucket_max_buckets,
            partition_name=name,
        ),
        check_bucket_skew(rows, max_skew=limits.max_skew, partition_name=name),
    ]


def _fills_buckets(evidence: TableEvidence) -> bool:
    return find_type(IndexOptions(evidence.schema.options)).fills_buckets


def has_changelog(schema: TableSchema) -> bool:
    """Return True for a table that keeps a changelog."""
    return bool(schema.primary_keys) and schema.table_options.changelog_producer != "none"


def rule_names(schema: TableSchema) -> tuple[str, ...]:
    """Return the names of the rules of `verify` for a table of that schema, in its order."""
    names: tuple[str, ...] = ("files_readable", "referenced_files_exist", "snapshot_chain", "options_followed")
    if schema.table_options.writes_iceberg:
        names += ("iceberg_metadata",)
    if schema.primary_keys:
        names += ("deletes_counted", "primary_key_once")
    if schema.primary_keys and schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        names += ("index_files_agree", "hash_in_one_bucket", "live_keys_indexed", "stale_hashes")
        names += ("bucket_rows_within_target", "bucket_skew")
    return names


def check_options_followed(schema: TableSchema) -> RuleResult:
    """Expect every option that requests upkeep to be acted on, and every option to have a name that is known."""
    report = gate_report(schema)
    left_out = [{"option": key, "value": schema.options[key], "finding": rule.effect} for key, rule in report.left_out]
    unknown = [
        {"option": key, "value": schema.options[key], "finding": unknown_message(key, near)}
        for key, near in report.unknown.items()
    ]
    return RuleResult(
        name="options_followed",
        passed=not left_out and not unknown,
        severity=Severity.WARN,
        metrics={"options": len(schema.options), "options_left_out": len(left_out), "options_unknown": len(unknown)},
        sample=bounded([*left_out, *unknown]),
        description="Every option that enables maintenance is acted on, and every option name is known.",
    )
