"""Names of options: a misspelt one must not pass for an option that is not set."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

from lakeidx.errors import InvalidInputError
from lakeidx.options.features import CHANGES, LEFT_OUT, REFUSED, Refused
from lakeidx.options.table_options import OPTIONS, TableOptions

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
        partition.mark-done-action.custom.class partition.timestamp-format.strict
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

INDEX_PREFIXES: tuple[str, ...] = ("index.", "hoodie.")
"""Options of the index family (`lakeidx.key_index.options`)."""

OTHER_PROGRAMS: dict[str, tuple[str, ...]] = {
    "flink": (
        "sink.", "source.", "scan.", "lookup.", "log.", "streaming-read.", "unaware-bucket.", "changelog.precommit-compact",
        "precommit-compact", "connector", "end-input.watermark", "filesystem.job-level-settings.enabled",
        "changelog-producer.compaction-interval", "commit.custom-listeners", "compaction.bucket-distribution-strategy",
        "partition.mark-done-action.mode", "partition.mark-done.recover-from-state",
        "read.shuffle-bucket-with-partition", "kafka.",
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

KNOWN: frozenset[str] = frozenset(
    {key for option in OPTIONS for key in (option.key, *option.fallback)}
    | HARMLESS_KEYS.keys()
    | OLD_NAMES
    | {rule.key for rule in REFUSED}
    | {rule.key for rule in LEFT_OUT}
)
"""Names of options of Paimon's core and of lakeidx, families (``fields.…``) left out."""

_FIELD_OPTIONS: tuple[str, ...] = (
    "aggregate-function", "ignore-retract", "sequence-group", "distinct", "list-agg-delimiter", "nested-key",
    "nested-key-null-strategy", "nested-sequence-field", "count-limit", "ts-field", "stats-mode", "default-value",
    "map.storage-layout", "map.shared-shredding.max-columns", "map.shared-shredding.column-placement-policy",
    "pk-vector.index.type", "pk-vector.index.options", "pk-vector.distance.metric", "pk-full-text.index.options",
    "pk-btree.index.options", "pk-bitmap.index.options", "pk-multivalue.index.options",
)  # fmt: skip
"""What an option ``fields.<columns>.<name>`` may end in."""
_FIELD_ENDINGS = tuple(f".{name}" for name in _FIELD_OPTIONS)

# A name of another program's family may be close to one of Paimon's by chance; a slip of the pen is closer than that.
_SLIP = 0.93
_LIKELY = 0.7


#: Words of a name that say: columns, a layout or an order of rows.
_COLUMNS = "columns? fields? layouts? order order(?:ed|ing|by)"
_TELLING = """keys? index(?:es|ed|ing)? sort(?:ed|ing)? cluster(?:ed|ing)? z-?order(?:ed|ing)? buckets? partition(?:s|ed|ing)?
    sequences? shard(?:s|ed|ing)? shred(?:ded|ding)? encod(?:ed|ing) merge overrides?"""
_OFF = frozenset({"", "false", "none", "off", "0"})
#: Families whose names may have such words: settings for one file format, for a class, for indexes beside files.
_SETTINGS = (
    "parquet.", "orc.", "avro.", "csv.", "json.", "text.", "mosaic.", "lance.", "commit.callback.", "tag.callback.", "file-index.",
    *INDEX_PREFIXES,
)  # fmt: skip
_DOUBTFUL = (
    "lakeidx does not know the option, and its name speaks of columns, an index, a layout or an order of rows; if changes "
    "by a program that does not follow it do no harm, set lakeidx.accepted-options={key}"
)


def _words(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[._-])(?:{'|'.join(words.split())})(?=$|[._-])")


_SPEAKS, _NAMES_COLUMNS = _words(f"{_COLUMNS} {_TELLING}"), _words(_COLUMNS)


def doubtful_options(raw: Mapping[str, str]) -> list[tuple[str, Refused]]:
    """Return the options that lakeidx does not know and whose name speaks of columns, an index, a layout or an order of rows.

    A later Paimon, or another program, may rely on what such an option says; so the table is not changed unless
    ``lakeidx.accepted-options`` names it.
    """
    accepted = TableOptions(raw).lakeidx_accepted_options
    return [
        (key, Refused(key, lambda text: True, CHANGES, _DOUBTFUL.format(key=key)))
        for key, value in raw.items()
        if _is_doubtful(key) and key not in accepted and value.strip().lower() not in _OFF
    ]


def _is_doubtful(key: str) -> bool:
    known_field = key.startswith("fields.") and key.endswith(_FIELD_ENDINGS)
    if key in KNOWN or known_field or key.startswith(_SETTINGS) or _program_of(key) is not None:
        return False
    spelt = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).lower()
    family = next((f for f in FORMAT_PREFIXES if f != "fields." and key.startswith(f)), "")
    return bool((_NAMES_COLUMNS if family else _SPEAKS).search(spelt[len(family) :]))


def unknown_options(raw: Mapping[str, str]) -> dict[str, str | None]:
    """Return the names in a table's options that are not known, each with the nearest known name when there is one."""
    out: dict[str, str | None] = {}
    for key in raw:
        if key.startswith("fields.") and key not in KNOWN:
            if not key.endswith(_FIELD_ENDINGS):
                out[key] = _nearest_field_option(key)
            continue
        if key in KNOWN or key.startswith((*FORMAT_PREFIXES, *INDEX_PREFIXES)):
            continue
        foreign = _program_of(key) is not None
        near = nearest(key, KNOWN, slip=foreign)
        if near is not None or not foreign:
            out[key] = near
    return out


def options_of_other_programs(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the names in a table's options that belong to another program, each with that program (``flink``, ``spark``, …)."""
    unknown = unknown_options(raw)
    found = {key: _program_of(key) for key in raw if key not in KNOWN and key not in unknown}
    return {key: program for key, program in found.items() if program is not None}


def _program_of(key: str) -> str | None:
    """Return the program that reads an option which is not of Paimon's core; None when no program is known to."""
    if key.startswith((*FORMAT_PREFIXES, *INDEX_PREFIXES)):
        return None
    for program, beginnings in OTHER_PROGRAMS.items():
        if any(key == b or (key.startswith(b) and b[-1] in ".-") for b in beginnings):
            return program
    return None


def nearest(key: str, known: Collection[str], *, slip: bool = False) -> str | None:
    """Find the known name most like `key`, None when none is like it.

    slip   only one so like it that `key` must be a slip of the pen
    """
    found = get_close_matches(key.strip().lower().replace("_", "-"), sorted(known), 1, _SLIP if slip else _LIKELY)
    return found[0] if found else None


def _nearest_field_option(key: str) -> str | None:
    columns, _, name = key[len("fields.") :].rpartition(".")
    near = nearest(name, _FIELD_OPTIONS)
    return None if near is None else f"fields.{columns or '<column>'}.{near}"


def check_given_options(raw: Mapping[str, str]) -> None:
    """Refuse an unknown name, and a text that only lakeidx would read: of a new table's options, or those that are set.

    errors   InvalidInputError with the nearest known name
    """
    for key, near in unknown_options(raw).items():
        raise InvalidInputError(unknown_message(key, near))
    for option in OPTIONS:
        text = option.find(raw)
        if text is not None:
            option.check_given(text)


def unknown_message(key: str, near: str | None) -> str:
    """Return one line about an unknown option."""
    if near is not None:
        return f"unknown option '{key}'; did you mean '{near}'?"
    return f"unknown option '{key}': neither Paimon nor lakeidx has one like it; docs/options.md lists all, other programs' too"
