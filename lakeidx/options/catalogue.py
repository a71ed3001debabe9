"""Every option name of Paimon 1.4.2 and 2.1, and of pypaimon 2.1.0, that `TableOptions` does not act on, and why that is right.

An option is acted on (an attribute of `TableOptions` that the product reads), has a rule in `lakeidx.options.features`, or is
listed here as harmless; a test compares the three with the names in Java's CoreOptions and fails for a name that is in none.

source   org.apache.paimon.CoreOptions, release 1.4.2 and commit 5dacde516b (2.1); FlinkConnectorOptions, SparkConnectorOptions
         at that commit
"""

from __future__ import annotations

HARMLESS: dict[str, str] = {
    "sizes a buffer, a cache, a pool or a batch of Java's own writers and readers": """
        async-file-write blob.copy-buffer-size blob.split-by-file-size blob.target-file-size
        cross-partition-upsert.bootstrap-parallelism deletion-vector.index-file.target-size file-operation.thread-num
        commit.native.enabled file-reader-async-threshold format-table.scan.list-parallelism global-index.build.max-parallelism
        global-index.build.max-shard global-index.build.parallelism
        global-index.row-count-per-shard global-index.thread-num local-kv-db.block-size
        local-merge-buffer-size local-sort.max-num-file-handles lookup.cache-file-retention lookup.cache-rows
        lookup.cache.high-priority-pool-ratio lookup.merge-buffer-size lookup.merge-records-threshold page-size
        read.batch-size scan.manifest.parallelism scan.max-splits-per-task sort-engine sort-spill-buffer-size
        sort-spill-threshold spill-compression vector.target-file-size vector-search.lateral-join.batch-size
        write-buffer-for-append write-buffer-size write-buffer-spill.max-disk-size write-buffer-spillable
        write-max-writers-to-spill write.batch-memory write.batch-size""",
    "changes the layout of files, which every reader accepts": """
        manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field
        manifest.delete-file-drop-stats manifest.merge-optimize.enabled target-file-row-num
        variant.shredding.adaptive.maxInferBufferRow
        variant.shredding.adaptive.retentionRatio variant.shredding.inferenceMode variant.shredding.maxInferBufferRow
        variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio
        vector.file.format zorder.var-length-contribution""",
    "paces Java's compaction; lakeidx compacts on request": """
        bucket-append-ordered compaction.delete-ratio-threshold compaction.file-num-limit compaction.skip-expired-partitions
        compaction.small-file-ratio lookup.remote-file.enabled
        lookup.remote-file.level-threshold num-sorted-run.stop-trigger sort-compaction.local-sample.magnification
        sort-compaction.range-strategy clustering.history-partition.idle-to-full-sort clustering.history-partition.limit
        clustering.incremental.mode clustering.incremental.optimize-write clustering.strategy""",
    "is about a writer that lakeidx is not: a streaming one, or one that makes its own commit user": """
        commit.discard-duplicate-files commit.force-create-snapshot commit.timeout commit.user-prefix
        delete.force-produce-changelog dynamic-partition-overwrite end-input.check-partition-expire
        partition.sink-strategy snapshot.expire.execution-mode snapshot.ignore-empty-commit
        snapshot.watermark-idle-timeout write.sequence-number-init-mode""",
    "applies to a read, a stream or a query of Java, and changes no file": """
        batch-scan-mode blob-as-descriptor consumer-id consumer.ignore-progress consumer.mode continuous.discovery-interval
        full-text-index.search-mode global-index.enabled global-index.filter.refine-from-data global-index.search-mode
        incremental-between-scan-mode
        incremental-between-tag-to-snapshot key-value.sequence_number.enabled lookup.blob-as-descriptor
        lookup.continuous.discovery-interval manifest.sidecar.enabled scalar-index.search-mode scan.bounded.watermark
        scan.fallback-branch.read-fail-fast scan.ignore-corrupt-files scan.ignore-lost-files
        scan.plan-auto-tag-for-read.time-retained scan.plan-sort-partition stream-scan-mode streaming-read-append-overwrite
        streaming-read-overwrite streaming.read.snapshot.delay vector-index.search-mode
        vector-search.distribute.enabled""",
    "belongs to an option that has a rule of its own, and has no effect without it": """
        blob-compaction.enabled blob-descriptor.source-table blob-view.resolve.enabled blob-write-null-on-fetch-failure
        blob-write-null-on-missing-file chain-table.chain-partition-keys chain-table.split.key-range-enabled
        chain-table.streaming.merge-snapshot commit.callback.#.param data-evolution.compaction.rewrite-row-ids
        data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
        data-evolution.reassign.skip-contiguous-row-count data-evolution.row-id-conflict-rewrite.max-size
        data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
        data-evolution.row-sidecar.max-selection-ratio data-evolution.write-cols-optimization.enabled
        data-file.external-paths.specific-fs data-file.external-paths.strategy
        data-file.external-paths.weights global-index.column-update-action
        metastore.tag-to-partition.preview partition.expiration-batch-size partition.expiration-check-interval
        partition.expiration-max-num partition.expiration-strategy partition.mark-done-action
        partition.mark-done-action.custom.class partition.mark-done-action.http.params partition.mark-done-action.http.url
        partition.timestamp-format.strict partition.timestamp-formatter partition.timestamp-pattern
        postpone.batch-write-fixed-bucket postpone.batch-write-fixed-bucket.max-parallelism
        postpone.batch-write-fixed-bucket.rescale-load-factor postpone.default-bucket-num
        postpone.target-row-num-per-bucket postpone.target-size-per-bucket row-tracking.partition-group-on-commit
        tag.callback.#.param
        visibility-callback.check-interval visibility-callback.timeout""",
    "is about how a table is altered or found by SQL": """
        add-column-before-partition auto-create disable-explicit-type-casting format-table.commit-hive-sync-url
        format-table.file.compression format-table.implementation format-table.partition-path-only-value
        materialized-table.definition-query materialized-table.interval-freshness
        materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
        materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
        materialized-table.refresh-mode materialized-table.refresh-status""",
}
"""Reason -> names of options that change nothing about what lakeidx reads or writes."""

HARMLESS_KEYS: dict[str, str] = {key: reason for reason, keys in HARMLESS.items() for key in keys.split()}

OLD_NAMES: frozenset[str] = frozenset(
    {
        "blob.stored-descriptor-fields",
        "delete-file.thread-num",
        "log.scan",
        "orc.write.batch-size",
        "parquet.variant.shreddingSchema",
        "sink.clustering.by-columns",
        "sink.clustering.strategy",
    }
)
"""Older names of options that `TableOptions` does not declare."""

FORMAT_PREFIXES: tuple[str, ...] = (
    "fields.", "file-index.", "parquet.", "orc.", "avro.", "csv.", "json.", "text.", "mosaic.", "lance.",
    "blob-descriptor.", "commit.callback.", "tag.callback.", "btree-index.", "bitmap-index.", "multivalue-index.",
    "sorted-index.", "vector-index.", "full-text-index.", "lumina.", "tantivy.",
)  # fmt: skip
"""Paimon's own families of options: a name per column, per index, per file format or per class."""

OWN_PREFIXES: tuple[str, ...] = ("index.", "hoodie.")
"""Options of the index family (`lakeidx.key_index.options`)."""

OTHER_PROGRAMS: dict[str, tuple[str, ...]] = {
    "flink": (
        "sink.", "source.", "scan.", "lookup.", "log.", "streaming-read.", "unaware-bucket.", "changelog.precommit-compact",
        "precommit-compact", "connector", "end-input.watermark", "filesystem.job-level-settings.enabled",
        "changelog-producer.compaction-interval", "commit.custom-listeners", "compaction.bucket-distribution-strategy",
        "partition.idle-time-to-done", "partition.mark-done-action.mode", "partition.mark-done.recover-from-state",
        "partition.time-interval", "read.shuffle-bucket-with-partition", "kafka.",
    ),
    "spark": (
        "write.", "read.", "spark.", "format-table.", "legacy-timestamp-mapping.", "requiredSparkConfsCheck.",
        "source.split.target-size-with-column-pruning", "vector-search.", "provider", "owner", "external", "location",
        "is_managed_location", "comment",
    ),
    "hive": ("hive.", "metastore.", "storage_handler", "hadoop-conf-dir", "hive-conf-dir", "location-in-properties"),
    "iceberg": ("metadata.iceberg.", "metadata.iceberg-compatible", "iceberg."),
    "catalog": (
        "metastore", "warehouse", "uri", "token", "rest.", "dlf.", "jdbc.", "lock.", "lock-", "cache.", "cache-enabled",
        "client-pool", "local-cache.", "catalog-key", "case-sensitive", "file-io.", "resolving-file-io.", "sync-all-properties",
        "table.", "header.", "alter-table-cascade",
    ),
    "file system": ("fs.", "s3.", "s3a.", "oss.", "obs.", "gs.", "cosn.", "azure.", "hadoop.", "dfs.", "security."),
}  # fmt: skip
"""Program -> names, or beginnings of names (with a dot), of options that it reads from a table and Paimon's core does not."""
