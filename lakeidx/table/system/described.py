"""System tables about a table: its snapshots, schemas, options, tags, branches, consumers, statistics and merge functions.

source   org.apache.paimon.table.system.SnapshotsTable, SchemasTable, OptionsTable, TagsTable, BranchesTable, ConsumersTable,
         StatisticTable, AggregationFieldsTable, a build after release 2.0.0
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakeidx.format.data_file import local_ms_of_epoch
from lakeidx.format.json_write import flat_json, format_json
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.format.statistics import decode_statistics
from lakeidx.table.expiration.read import read_consumers, read_tags
from lakeidx.table.metadata import TableMetadata
from lakeidx.types import format_field

Row = tuple[Any, ...]
_NANOS = 10**9

SNAPSHOTS = (
    "snapshot_id BIGINT!, schema_id BIGINT!, commit_user STRING!, commit_identifier BIGINT!, commit_kind STRING!, "
    "commit_time TIMESTAMP(3)!, base_manifest_list STRING!, delta_manifest_list STRING!, changelog_manifest_list STRING, "
    "total_record_count BIGINT, delta_record_count BIGINT, changelog_record_count BIGINT, watermark BIGINT, "
    "next_row_id BIGINT, operation STRING, writer_version STRING"
)
SCHEMAS = (
    "schema_id BIGINT!, fields STRING!, partition_keys STRING!, primary_keys STRING!, options STRING!, comment STRING, "
    "update_time TIMESTAMP(3)!"
)
OPTIONS = "key STRING!, value STRING!"
TAGS = (
    "tag_name STRING!, snapshot_id BIGINT!, schema_id BIGINT!, commit_time TIMESTAMP(3)!, record_count BIGINT, "
    "create_time TIMESTAMP(3), time_retained STRING"
)
BRANCHES = "branch_name STRING!, create_time TIMESTAMP(3)!"
CONSUMERS = "consumer_id STRING!, next_snapshot_id BIGINT!"
STATISTICS = "snapshot_id BIGINT!, schema_id BIGINT!, mergedRecordCount BIGINT, mergedRecordSize BIGINT, colstat STRING"
AGGREGATION_FIELDS = "field_name STRING!, field_type STRING!, function STRING, function_options STRING, comment STRING"


def snapshots(metadata: TableMetadata) -> Iterator[Row]:
    """Yield the snapshots, oldest first; times are the local clock's."""
    for s in metadata.snapshots():
        yield (
            s.id, s.schema_id, s.commit_user, s.commit_identifier, s.commit_kind.value, local_ms_of_epoch(s.time_millis),
            s.base_manifest_list, s.delta_manifest_list, s.changelog_manifest_list, s.total_record_count,
            s.delta_record_count, s.changelog_record_count, s.watermark, s.next_row_id, s.operation, s.writer_version,
        )  # fmt: skip


def schemas(metadata: TableMetadata) -> Iterator[Row]:
    """Yield the versions of the schema, oldest first; lists and options as JSON."""
    for s in metadata.all_schemas():
        yield (
            s.id, flat_json([format_field(f) for f in s.fields]), flat_json(s.partition_keys), flat_json(s.primary_keys),
            flat_json(s.options), s.comment, local_ms_of_epoch(s.time_millis),
        )  # fmt: skip


def options(metadata: TableMetadata) -> Iterator[Row]:
    """Yield the options of the newest schema."""
    yield from metadata.latest_schema().options.items()


def tags(metadata: TableMetadata) -> Iterator[Row]:
    """Yield the tags by name; their time of creation where they are kept for a time only."""
    for name, tag in read_tags(metadata).items():
        s, made, kept = tag.snapshot, tag.create_time_ns, tag.time_retained_ns
        yield (
            name, s.id, s.schema_id, local_ms_of_epoch(s.time_millis), s.total_record_count,
            None if made is None else made // 1_000_000, None if kept is None else _duration_text(kept),
        )  # fmt: skip


def branches(metadata: TableMetadata) -> Iterator[Row]:
    """Yield the branches and when their directory was written last: the epoch on object stores, which have no directories."""
    prefix = "branch-"
    for entry in metadata.store.list(metadata.paths.branch_dir):
        if entry.is_dir and entry.name.startswith(prefix):
            yield entry.name.removeprefix(prefix), local_ms_of_epoch(entry.mtime_ms)


def consumers(metadata: TableMetadata) -> Iterator[Row]:
    """Yield the consumers and the first snapshot that each has not read."""
    for consumer, (first, _) in read_consumers(metadata).items():
        yield consumer, first


def statistics(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Row]:
    """Yield the statistics that ANALYZE wrote for a state, if it did."""
    if snapshot is None or snapshot.statistics is None:
        return
    path = metadata.paths.statistics_path(snapshot.statistics)
    found = decode_statistics(metadata.store.get(path), path)
    counts = found.merged_record_count, found.merged_record_size
    yield found.snapshot_id, found.schema_id, *counts, format_json(found.columns).decode()


def aggregation_fields(metadata: TableMetadata) -> Iterator[Row]:
    """Yield each column, with the values and the names of the options that say how it is merged."""
    schema = metadata.latest_schema()
    for f in schema.fields:
        own = _options_of(schema, f.name)
        yield f.name, str(f.type), _java_list(own.values()), _java_list(own), f.description


def _options_of(schema: TableSchema, column: str) -> dict[str, str]:
    """Return the options ``fields.<column>.*``."""
    parts = {key: key.split(".") for key in schema.options}
    return {k: schema.options[k] for k, p in parts.items() if len(p) > 2 and p[0] == "fields" and p[1] == column}


def _java_list(texts: Any) -> str:
    return f"[{', '.join(texts)}]"


def _duration_text(nanos: int) -> str:
    """Format as ``java.time.Duration.toString``: ``PT36H``, ``PT1M30.5S``."""
    seconds, fraction = divmod(nanos, _NANOS)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if seconds or fraction or not text:
        digits = f"{fraction:09d}".rstrip("0")
        text += f"{seconds}{'.' + digits if digits else ''}S"
    return f"PT{text}"
