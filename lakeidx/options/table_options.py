"""Table options: the settings of a table's schema file for writing, merging, compaction and expiry.

Every option lakeidx acts on is declared here once (those about retention in `RetentionOptions`); attribute = key with ``.`` and
``-`` as ``_``. Sizes are bytes, durations milliseconds. Keys not declared are kept untouched (Paimon does so too); a declared
key with a value that cannot be read is an InvalidInputError. What options lakeidx does not act on mean for a table is in
`lakeidx.options.features` (refused, left out) and `lakeidx.options.names` (harmless).

source   org.apache.paimon.CoreOptions, release 1.4.2 (keys, types, defaults, fallback keys)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.options.descriptors import (
    INT_MAX,
    LONG_MAX,
    boolean,
    bucket_count,
    choice,
    duration,
    fraction,
    integer,
    mapping,
    names,
    number,
    opt_boolean,
    opt_duration,
    opt_integer,
    opt_size,
    opt_text,
    size,
    text,
)
from lakeidx.options.limits import BatchLimits
from lakeidx.options.option import Option

_limits: Callable[[str], BatchLimits | None] = BatchLimits.parse
STATS_MODES = "none, counts, truncate(n) or full"


class RetentionOptions:
    """Part of `lakeidx.options.table_options.TableOptions`."""

    snapshot_num_retained_min = integer(
        "snapshot.num-retained.min", 10, "Minimum number of snapshots to retain.", least=1
    )
    snapshot_num_retained_max = integer(
        "snapshot.num-retained.max", INT_MAX, "Maximum number of snapshots to retain.", least=1
    )
    snapshot_time_retained = duration("snapshot.time-retained", "1 h", "Age up to which snapshots are retained.")
    snapshot_expire_execution_mode = choice(
        "snapshot.expire.execution-mode", "sync async", "Expire within the commit or beside."
    )
    snapshot_expire_limit = integer("snapshot.expire.limit", 50, "Snapshots expired at once.", least=1)
    snapshot_clean_empty_directories = boolean(
        "snapshot.clean-empty-directories",
        False,
        "Remove empty directories.",
        "snapshot.expire.clean-empty-directories",
    )
    changelog_num_retained_min = opt_integer("changelog.num-retained.min", "As for snapshots.", least=1)
    changelog_num_retained_max = opt_integer("changelog.num-retained.max", "As for snapshots.", least=1)
    changelog_time_retained = opt_duration("changelog.time-retained", "As for snapshots.")
    consumer_id = opt_text("consumer-id", "Consumer whose progress is recorded.")
    consumer_expiration_time = opt_duration("consumer.expiration-time", "Unused consumers are dropped after.")
    consumer_mode = choice("consumer.mode", "exactly-once at-least-once", "How a consumer's progress is recorded.")
    consumer_changelog_only = boolean(
        "consumer.changelog-only", False, "Consumers keep changelogs, not snapshots, where changelogs live longer."
    )
    consumer_ignore_progress = boolean("consumer.ignore-progress", False, "Start without the consumer's progress.")
    tag_automatic_creation = choice(
        "tag.automatic-creation", "none process-time watermark batch", "When tags are made."
    )
    tag_creation_period = choice("tag.creation-period", "daily hourly two-hours", "How often tags are made.")
    tag_creation_period_duration = opt_duration(
        "tag.creation-period-duration", "Any other period; overrides tag.creation-period. Names are yyyyMMddHHmm."
    )
    tag_creation_delay = duration("tag.creation-delay", "0 ms", "Wait after the period's end.")
    tag_period_formatter = choice(
        "tag.period-formatter", "with_dashes without_dashes without_dashes_and_spaces", "Tag names."
    )
    tag_num_retained_max = opt_integer("tag.num-retained-max", "Maximum number of automatic tags to retain.", least=1)
    tag_default_time_retained = opt_duration("tag.default-time-retained", "Retention of tags made without one.")
    tag_time_expire_enabled = boolean("tag.time-expire-enabled", True, "Drop tags past their retention.")
    tag_automatic_completion = boolean("tag.automatic-completion", False, "Make tags that were missed.")
    tag_batch_customized_name = opt_text("tag.batch.customized-name", "Name of tags of batch commits.")
    tag_create_success_file = boolean(
        "tag.create-success-file", False, "A file tag/tag-success-file/<name>_SUCCESS beside every automatic tag."
    )
    sink_process_time_zone = opt_text(
        "sink.process-time-zone", "Zone of process-time and batch tags; default: that of the process."
    )
    sink_watermark_time_zone = text("sink.watermark-time-zone", "UTC", "Zone of watermark tags.")
    partition_expiration_strategy = choice(
        "partition.expiration-strategy", "values-time update-time", "What a partition's age is."
    )
    partition_expiration_time = opt_duration("partition.expiration-time", "Partitions older than this are dropped.")
    partition_expiration_check_interval = duration("partition.expiration-check-interval", "1 h", "Time between checks.")
    partition_expiration_max_num = integer("partition.expiration-max-num", 100, "Partitions dropped at once.", least=1)
    partition_mark_done_action = names(
        "partition.mark-done-action", "What marks a partition done; default success-file."
    )
    partition_mark_done_action_http_url = opt_text("partition.mark-done-action.http.url", "Where http-report posts to.")
    partition_mark_done_action_http_params = opt_text(
        "partition.mark-done-action.http.params", "What http-report sends along."
    )
    partition_idle_time_to_done = opt_duration(
        "partition.idle-time-to-done", "A partition without writes is done after."
    )
    partition_time_interval = opt_duration("partition.time-interval", "Time that a partition is of.")
    partition_end_input_to_done = boolean(
        "partition.end-input-to-done", False, "A batch's partitions are done with it."
    )
    partition_timestamp_formatter = opt_text("partition.timestamp-formatter", "How a partition's time is written.")
    partition_timestamp_pattern = opt_text("partition.timestamp-pattern", "Columns a partition's time is parsed from.")


class TableOptions(RetentionOptions):
    """The options of one table.

    raw      the texts as stored
    errors   InvalidInputError from an attribute whose text cannot be read. Only those requested are read, so that a table stays
             readable whatever another program made of an option that lakeidx does not need; `check` reads them all
    """

    def __init__(self, raw: Mapping[str, str]) -> None:
        self.raw: dict[str, str] = dict(raw)

    def check(self) -> None:
        """Read every option: what a new table's options must pass.

        errors   InvalidInputError naming the first one that cannot be read
        """
        for option in OPTIONS:
            option.__get__(self, type(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableOptions) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(frozenset(self.raw.items()))

    def __repr__(self) -> str:
        return f"TableOptions({self.raw!r})"

    def is_set(self, key: str) -> bool:
        """Return True when the table's schema names the option (or an older name of it)."""
        option = OPTION_BY_KEY.get(key)
        return key in self.raw if option is None else option.find(self.raw) is not None

    def field_option(self, column: str, name: str) -> str | None:
        """Return the option ``fields.<column>.<name>``, e.g. ``fields.amt.aggregate-function``; None when not set."""
        return self.raw.get(f"fields.{column}.{name}")

    def field_options(self, name: str) -> dict[str, str]:
        """Return all options ``fields.<column>.<name>`` by column; a column may be a list (``a,b``) for sequence groups."""
        suffix = f".{name}"
        return {
            key[7 : -len(suffix)]: value
            for key, value in self.raw.items()
            if key.startswith("fields.") and key.endswith(suffix) and len(key) > 7 + len(suffix)
        }

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the options whose key starts with a prefix (``file-index.``, ``parquet.``), the prefix taken off."""
        return {k[len(prefix) :]: v for k, v in self.raw.items() if k.startswith(prefix)}

    # Identity and layout
    type = choice(
        "type", "table format-table materialized-table object-table lance-table iceberg-table", "Kind of table."
    )
    branch = text("branch", "main", "Branch to read and write.")
    scan_fallback_branch = opt_text(
        "scan.fallback-branch", "Branch that partitions are read from which the table lacks."
    )
    path = opt_text("path", "Table path, when a catalog hands it over.")
    primary_key = names("primary-key", "Primary key columns; moved into the schema when the table is made.")
    primary_key_nullable = boolean(
        "primary-key.nullable", False, "Primary key columns may be nullable (read when the table is made)."
    )
    partition = names("partition", "Partition columns; moved into the schema when the table is made.")
    bucket = bucket_count("bucket", -1, "Number of buckets; -1 dynamic, -2 postpone.")
    bucket_key = names(
        "bucket-key", "Columns that decide the bucket; default: the primary key without partition columns."
    )
    bucket_function_type = choice("bucket-function.type", "default mod hive", "How a fixed bucket is computed.")
    partition_default_name = text(
        "partition.default-name", "__DEFAULT_PARTITION__", "Directory value of null and blank."
    )
    partition_legacy_name = boolean(
        "partition.legacy-name", True, "Directory values as internal text, not as SQL text."
    )
    index_file_in_data_file_dir = boolean("index-file-in-data-file-dir", False, "Index files beside the data files.")
    data_file_prefix = text("data-file.prefix", "data-", "Name prefix of data files.")
    changelog_file_prefix = text("changelog-file.prefix", "changelog-", "Name prefix of changelog files.")
    data_file_path_directory = opt_text(
        "data-file.path-directory", "Directory below the table for partitions and buckets."
    )
    data_file_external_paths = opt_text("data-file.external-paths", "Other places for data files.")
    file_suffix_include_compression = boolean("file.suffix.include.compression", False, "Compression in file names.")
    global_index_external_path = opt_text("global-index.external-path", "Place of global index files.")

    # File formats
    file_format = text("file.format", "parquet", "Format of data files.")
    file_format_per_level = mapping("file.format.per.level", "Format by level, as 'level:format'.")
    file_compression = text("file.compression", "zstd", "Compression of data files.")
    file_compression_per_level = mapping("file.compression.per.level", "Compression by level, as 'level:codec'.")
    file_compression_zstd_level = integer("file.compression.zstd-level", 1, "zstd level, also of manifests.", most=22)
    file_block_size = opt_size("file.block-size", "Row group size.")
    changelog_file_format = opt_text("changelog-file.format", "Format of changelog files; default: file.format.")
    changelog_file_compression = opt_text("changelog-file.compression", "Compression of changelog files.")
    changelog_file_stats_mode = opt_text("changelog-file.stats-mode", "Statistics of changelog files.")
    data_file_thin_mode = boolean("data-file.thin-mode", False, "Data files without a second copy of the key columns.")
    manifest_format = text("manifest.format", "avro", "Format of manifests; only avro.")
    manifest_compression = text("manifest.compression", "zstd", "Avro codec of manifests: zstd, null or deflate.")
    avro_codec = opt_text("avro.codec", "Avro codec; overrides manifest.compression.")
    metadata_stats_mode = text("metadata.stats-mode", "truncate(16)", f"Column statistics: {STATS_MODES}.")
    metadata_stats_mode_per_level = mapping("metadata.stats-mode.per.level", "Statistics mode by level.")
    metadata_stats_dense_store = boolean("metadata.stats-dense-store", True, "Leave columns without statistics out.")
    metadata_stats_keep_first_n_columns = integer(
        "metadata.stats-keep-first-n-columns", -1, "Statistics of that many columns only.", least=-1
    )
    file_index_in_manifest_threshold = size(
        "file-index.in-manifest-threshold", "500 b", "Larger file indexes get a file."
    )
    table_read_sequence_number_enabled = boolean(
        "table-read.sequence-number.enabled", False, "System tables audit_log and binlog have _SEQUENCE_NUMBER."
    )
    file_index_read_enabled = boolean("file-index.read.enabled", True, "Use file indexes when reading.")

    # Manifests and commits
    manifest_target_file_size = size("manifest.target-file-size", "8 mb", "Size at which a manifest is closed.")
    manifest_full_compaction_threshold_size = size(
        "manifest.full-compaction-threshold-size", "16 mb", "Sum of changed manifests that starts a full rewrite."
    )
    manifest_merge_min_count = integer(
        "manifest.merge-min-count", 30, "Small manifests that are merged into one.", least=1
    )
    manifest_delete_file_drop_stats = boolean("manifest.delete-file-drop-stats", False, "DELETE entries without stats.")
    commit_timeout = opt_duration("commit.timeout", "Longest time a commit retries.")
    commit_max_retries = integer("commit.max-retries", 10, "Retries after a lost race.", least=0)
    commit_min_retry_wait = duration("commit.min-retry-wait", "10 ms", "Wait before the second retry.")
    commit_max_retry_wait = duration("commit.max-retry-wait", "10 s", "Longest wait between retries.")
    commit_force_create_snapshot = boolean("commit.force-create-snapshot", False, "A snapshot for an empty commit.")
    commit_force_compact = boolean("commit.force-compact", False, "Compact before every commit.")
    commit_user_prefix = opt_text("commit.user-prefix", "Prefix of commit users.")
    commit_strict_mode_last_safe_snapshot = opt_integer(
        "commit.strict-mode.last-safe-snapshot", "Fail when a foreign COMPACT or OVERWRITE follows it.", most=LONG_MAX
    )
    snapshot_ignore_empty_commit = opt_text("snapshot.ignore-empty-commit", "Skip commits without files.")
    dynamic_partition_overwrite = boolean(
        "dynamic-partition-overwrite", True, "OVERWRITE replaces the batch's partitions only."
    )
    overwrite_upgrade = boolean("overwrite-upgrade", True, "Put the files of an overwrite at the top level.")

    # Dynamic buckets
    dynamic_bucket_target_row_num = integer(
        "dynamic-bucket.target-row-num",
        2_000_000,
        "Keys of a bucket before a new one is opened.",
        least=1,
        most=LONG_MAX,
    )
    dynamic_bucket_initial_buckets = opt_integer(
        "dynamic-bucket.initial-buckets", "Assigners a new partition starts with.", least=1
    )
    dynamic_bucket_max_buckets = integer(
        "dynamic-bucket.max-buckets", -1, "Most buckets of a partition; -1 no limit.", least=-1
    )
    dynamic_bucket_assigner_parallelism = opt_integer("dynamic-bucket.assigner-parallelism", "Assigner tasks.", least=1)
    cross_partition_upsert_index_ttl = opt_duration("cross-partition-upsert.index-ttl", "Forget keys after.")
    cross_partition_upsert_bootstrap_parallelism = integer(
        "cross-partition-upsert.bootstrap-parallelism", 10, "Readers that rebuild the key state.", least=1
    )
    postpone_default_bucket_num = integer(
        "postpone.default-bucket-num", 1, "Buckets of a postponed partition.", least=1
    )

    lakeidx_hash_index_shrink = boolean(
        "lakeidx.hash-index.shrink", False, "Full compactions drop the hashes of deleted keys; lakeidx's own option."
    )

    lakeidx_accepted_options = names(
        "lakeidx.accepted-options", "Unknown options that need not keep the table read-only; lakeidx's own option."
    )

    lakeidx_limits = Option(
        "lakeidx.limits", "limits", _limits, None,
        "BatchLimits beyond which a batch is held before its commit, as deletes=5%,inserts=2x; lakeidx's own option.",
    )  # fmt: skip

    # Merging
    merge_engine = choice(
        "merge-engine", "deduplicate partial-update aggregation first-row", "How rows of one key merge."
    )
    ignore_delete = boolean(
        "ignore-delete",
        False,
        "Drop -D rows.",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    )
    ignore_update_before = boolean("ignore-update-before", False, "Drop -U rows.")
    sequence_field = names("sequence.field", "Columns that order rows of one key before the sequence number.")
    sequence_field_sort_order = choice(
        "sequence.field.sort-order", "ascending descending", "Which end of sequence.field wins."
    )
    rowkind_field = opt_text(
        "rowkind.field", "STRING column of the row kind; null only in rows that delete by `_kind`."
    )
    partial_update_remove_record_on_delete = boolean(
        "partial-update.remove-record-on-delete", False, "-D removes the row."
    )
    partial_update_remove_record_on_sequence_group = names(
        "partial-update.remove-record-on-sequence-group", "Sequence columns whose -D removes the row."
    )
    aggregation_remove_record_on_delete = boolean("aggregation.remove-record-on-delete", False, "-D removes the row.")
    fields_default_aggregate_function = opt_text(
        "fields.default-aggregate-function", "Aggregator of columns without one."
    )
    changelog_producer = choice(
        "changelog-producer", "none input full-compaction lookup", "How changelog files are produced."
    )
    changelog_producer_row_deduplicate = boolean(
        "changelog-producer.row-deduplicate", False, "No -U/+U pairs of equal rows."
    )
    changelog_producer_row_deduplicate_ignore_fields = names(
        "changelog-producer.row-deduplicate-ignore-fields", "Columns not compared."
    )
    record_level_expire_time = opt_duration("record-level.expire-time", "Rows older than this are dropped.")
    record_level_time_field = opt_text(
        "record-level.time-field", "Column of a row's time, from which its age is computed."
    )

    # Compaction
    write_only = boolean("write-only", False, "Writers never compact nor expire.", "write.compaction-skip")
    target_file_size = opt_size(
        "target-file-size", "Size that closes a data file; default 128 mb with a primary key, else 256 mb.", least=1
    )
    num_sorted_run_compaction_trigger = integer(
        "num-sorted-run.compaction-trigger", 5, "Sorted runs that start a compaction.", least=1
    )
    num_sorted_run_stop_trigger = opt_integer("num-sorted-run.stop-trigger", "Sorted runs that stop writes.", least=1)
    num_levels = opt_integer("num-levels", "Levels of the tree; default: compaction-trigger + 1.", least=2)
    compaction_max_size_amplification_percent = integer(
        "compaction.max-size-amplification-percent",
        200,
        "Extra size in percent that starts a full compaction.",
        least=0,
    )
    compaction_size_ratio = integer(
        "compaction.size-ratio", 1, "Percent by which runs may differ and still merge.", least=0
    )
    compaction_min_file_num = integer("compaction.min.file-num", 5, "Small files an append table merges.", least=1)
    compaction_force_up_level_0 = boolean(
        "compaction.force-up-level-0", False, "Every compaction includes all of level 0."
    )
    compaction_force_rewrite_all_files = boolean(
        "compaction.force-rewrite-all-files", False, "Full compactions rewrite all."
    )
    compaction_optimization_interval = opt_duration(
        "compaction.optimization-interval", "Full compaction at least that often."
    )
    compaction_total_size_threshold = opt_size(
        "compaction.total-size-threshold", "Smaller buckets compact fully each time."
    )
    compaction_incremental_size_threshold = opt_size(
        "compaction.incremental-size-threshold", "More new bytes compact fully."
    )
    compaction_offpeak_start_hour = integer(
        "compaction.offpeak.start.hour", -1, "First off-peak hour.", least=-1, most=23
    )
    compaction_offpeak_end_hour = integer(
        "compaction.offpeak.end.hour", -1, "Hour the off-peak time ends.", least=-1, most=24
    )
    compaction_offpeak_ratio = integer("compaction.offpeak-ratio", 0, "Size ratio at off-peak hours.", least=0)
    compaction_delete_ratio_threshold = number(
        "compaction.delete-ratio-threshold", 0.2, "Deleted share that rewrites a file."
    )
    full_compaction_delta_commits = opt_integer(
        "full-compaction.delta-commits", "Commits between full compactions.", least=1
    )
    lookup_wait = opt_boolean(
        "lookup-wait",
        "Batches compact level 0 by lookup once they are committed. Java: true unless set; here a batch waits when asked.",
        "changelog-producer.lookup-wait",
    )
    lookup_compact = choice("lookup-compact", "RADICAL GENTLE", "How eagerly level 0 is looked up.")
    lookup_compact_max_interval = opt_integer(
        "lookup-compact.max-interval",
        "Runs in level 0 that end the wait of gentle tables; Java's default: twice the trigger.",
        least=1,
    )
    force_lookup = boolean("force-lookup", False, "Lookup compaction without changelog.")
    sort_spill_threshold = opt_integer("sort-spill-threshold", "Runs a merge reads at once.", least=1)
    sort_spill_buffer_size = size("sort-spill-buffer-size", "64 mb", "Memory of a spilling sort.")
    spill_compression = text("spill-compression", "zstd", "Compression of spilled data.")
    spill_compression_zstd_level = integer("spill-compression.zstd-level", 1, "zstd level of spilled data.")
    write_buffer_size = size("write-buffer-size", "256 mb", "Memory of a writer before it flushes.")
    read_batch_size = integer("read.batch-size", 1024, "Rows per batch when reading.", least=1)

    # Deletion vectors and lookup stores
    deletion_vectors_enabled = boolean("deletion-vectors.enabled", False, "Keep deletion vectors.")
    deletion_vectors_modifiable = boolean(
        "deletion-vectors.modifiable", False, "deletion-vectors.enabled may be changed."
    )
    deletion_vectors_bitmap64 = boolean("deletion-vectors.bitmap64", False, "64-bit deletion vectors.")
    deletion_vectors_merge_on_read = boolean("deletion-vectors.merge-on-read", False, "Batch reads merge level 0 too.")
    deletion_vector_index_file_target_size = size(
        "deletion-vector.index-file.target-size", "2 mb", "Size of a vector file."
    )
    lookup_store_type = choice("lookup.store.type", "sort hash", "Format of lookup files; lakeidx's own option.")
    lookup_store_values = choice(
        "lookup.store.values", "value position key", "What lookup files store for a key; lakeidx's own option."
    )
    lookup_hash_load_factor = fraction("lookup.hash-load-factor", 0.75, "Fill of hash stores.")
    lookup_cache_file_retention = duration(
        "lookup.cache-file-retention", "1 h", "Unused lookup files are dropped after."
    )
    lookup_cache_max_disk_size = size("lookup.cache-max-disk-size", f"{LONG_MAX} b", "Disk for lookup files.")
    lookup_cache_max_memory_size = size("lookup.cache-max-memory-size", "256 mb", "Memory for lookup blocks.")
    lookup_cache_high_priority_pool_ratio = number(
        "lookup.cache.high-priority-pool-ratio", 0.25, "Share for index and filter."
    )
    lookup_cache_bloom_filter_enabled = boolean(
        "lookup.cache.bloom.filter.enabled", True, "Bloom filter in lookup files."
    )
    lookup_cache_bloom_filter_fpp = fraction("lookup.cache.bloom.filter.fpp", 0.05, "Its false positive share.")
    lookup_cache_spill_compression = text("lookup.cache-spill-compression", "zstd", "Compression of lookup files.")
    lookup_remote_file_enabled = boolean("lookup.remote-file.enabled", False, "Keep lookup files beside data files.")
    lookup_remote_file_level_threshold = integer(
        "lookup.remote-file.level-threshold", -INT_MAX - 1, "From this level on."
    )
    cache_page_size = size("cache-page-size", "64 kb", "Block size of lookup files.", least=1, most=1 << 30)

    # Scans
    scan_mode = choice(
        "scan.mode",
        "default latest-full full latest compacted-full from-timestamp from-creation-timestamp from-file-creation-time "
        "from-snapshot from-snapshot-full incremental",
        "Where a read starts.",
    )
    scan_snapshot_id = opt_integer("scan.snapshot-id", "Snapshot to read.", least=0, most=LONG_MAX)
    scan_tag_name = opt_text("scan.tag-name", "Tag to read.")
    scan_timestamp_millis = opt_integer(
        "scan.timestamp-millis", "Time to read at.", "log.scan.timestamp-millis", most=LONG_MAX
    )
    source_split_target_size = size("source.split.target-size", "128 mb", "Size of a split.")
    source_split_open_file_cost = size("source.split.open-file-cost", "4 mb", "Least size a file counts in a split.")

    # Schema evolution and features that change the file layout
    alter_column_null_to_not_null_disabled = boolean(
        "alter-column-null-to-not-null.disabled", True, "Nullable columns stay so."
    )
    disable_explicit_type_casting = boolean("disable-explicit-type-casting", False, "Only implicit casts in ALTER.")
    metadata_iceberg_storage = choice(
        "metadata.iceberg.storage",
        "disabled table-location hadoop-catalog hive-catalog rest-catalog",
        "Write Iceberg metadata after each commit: beside the table, or in a directory iceberg of the warehouse.",
    )
    metadata_iceberg_storage_location = opt_text(
        "metadata.iceberg.storage-location", "Place of Iceberg metadata: table-location or catalog-storage."
    )
    metadata_iceberg_format_version = integer(
        "metadata.iceberg.format-version", 2, "Iceberg format; 3 lists deletion vectors.", least=2, most=3
    )
    metadata_iceberg_compaction_min_file_num = integer(
        "metadata.iceberg.compaction.min.file-num", 10, "Small Iceberg manifests from which on they may be merged."
    )
    metadata_iceberg_compaction_max_file_num = integer(
        "metadata.iceberg.compaction.max.file-num", 50, "Small Iceberg manifests from which on they are merged."
    )
    metadata_iceberg_delete_after_commit_enabled = boolean(
        "metadata.iceberg.delete-after-commit.enabled", True, "Delete old Iceberg metadata files after each commit."
    )
    metadata_iceberg_previous_versions_max = integer(
        "metadata.iceberg.previous-versions-max", 0, "Old Iceberg metadata files to keep.", least=0
    )
    metadata_iceberg_manifest_compression = text(
        "metadata.iceberg.manifest-compression", "snappy", "Compression of Iceberg manifests."
    )
    row_tracking_enabled = boolean("row-tracking.enabled", False, "Row ids (append tables).")
    data_evolution_enabled = boolean("data-evolution.enabled", False, "Column-wise files (append tables).")
    auto_create = boolean("auto-create", False, "Make the table directory when it is missing.")

    @cached_property
    def manifest_codec(self) -> str:
        """The Avro codec of manifests: ``avro.codec``, else ``manifest.compression``."""
        return (self.avro_codec or self.manifest_compression).lower()

    @cached_property
    def max_levels(self) -> int:
        """``num-levels``, or its default: the compaction trigger + 1."""
        return self.num_levels if self.num_levels is not None else self.num_sorted_run_compaction_trigger + 1

    @cached_property
    def writes_iceberg(self) -> bool:
        """True when commits write Iceberg metadata."""
        return self.metadata_iceberg_storage in ("table-location", "hadoop-catalog")

    @cached_property
    def compacts_after_commit(self) -> bool:
        """True when a batch's commit is followed by a compaction, if one is due, or by marks of partitions."""
        asked = self.commit_force_compact or self.full_compaction_delta_commits is not None or self.lookup_wait is True
        return self.partition_end_input_to_done or (asked and not self.write_only)

    @cached_property
    def makes_tags(self) -> bool:
        """True when commits make tags."""
        return self.tag_automatic_creation != "none" and not self.write_only

    @cached_property
    def needs_lookup(self) -> bool:
        """True when level 0 must be looked up before it can be read: lookup changelog, first-row or deletion vectors."""
        return (
            self.changelog_producer == "lookup"
            or self.merge_engine == "first-row"
            or self.deletion_vectors_enabled
            or self.force_lookup
        )

    @cached_property
    def merges_by_level(self) -> bool:
        """True when runs must carry the level of their records into a merge (`lakeidx.data.merge.levels`)."""
        if not self.needs_lookup or self.merge_engine == "first-row":
            return False
        # Without sequence fields the newest record is that of the lowest level anyway.
        return self.merge_engine != "deduplicate" or bool(self.sequence_field)


OPTIONS: tuple[Option[Any], ...] = tuple(
    v for part in (TableOptions, RetentionOptions) for v in vars(part).values() if isinstance(v, Option)
)
OPTION_BY_KEY: dict[str, Option[Any]] = {o.key: o for o in OPTIONS}


def check_retained(options: TableOptions, of: str, least: int, most: int) -> None:
    """Raise InvalidInputError when options want to retain at least more than at most.

    of            ``snapshot`` or ``changelog``: how the names of the options begin
    least, most   in force: what is not set may come from a default, or another option, which the error says
    """
    if least <= most:
        return
    keys = f"{of}.num-retained.min", f"{of}.num-retained.max"
    shown = [
        f"'{key}' = {value}" + ("" if key in options.raw else " (not set: the default)")
        for key, value in zip(keys, (least, most), strict=True)
    ]
    raise InvalidInputError(
        f"option {shown[0]} is larger than {shown[1]}: set '{keys[0]}' to at most {most}, too (of one expiry: --retain-min)"
    )
