"""Options of the index family: Hudi's names with Hudi's defaults, and a few of lakeidx's own under ``index.``.

They are table options like all others. Options of Hudi or of an older release that have no meaning here are in
`IndexOptions.unused`, each with the reason; a table may carry them, they change nothing.

source   org.apache.hudi.config.{HoodieIndexConfig,HoodieHBaseIndexConfig}, release 1.0.2; Flink's FlinkOptions
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.options.descriptors import boolean, choice, fraction, integer, names, number, opt_integer, size, text
from lakeidx.options.option import Option
from lakeidx.options.table_options import TableOptions
from lakeidx.plugins import INDEX_TYPES as PLUGINS
from lakeidx.plugins import NO_PLUGINS, plugin_names

#: Index types of lakeidx's core; others are plug-ins.
INDEX_TYPES = ("hash", "bucket", "bloom", "global-bloom", "simple", "global-simple", "inmemory", "state")


def _index_type(text: str) -> str:
    """Parse option ``index.type``: a type of the core, or of a plug-in; ValueError for another text."""
    name = text.strip().lower()
    if name in INDEX_TYPES or name in plugin_names(PLUGINS):
        return name
    known = (*INDEX_TYPES, *plugin_names(PLUGINS))
    hint = "" if plugin_names(PLUGINS) else f" ({NO_PLUGINS})"
    raise ValueError(f"one of {', '.join(known)}{hint}")


class IndexOptions(TableOptions):
    """A table's options, those of the index family among them; attribute = key with ``.`` and ``-`` as ``_``.

    errors   InvalidInputError from the constructor for a value that cannot be read
    """

    #: Options, Hudi's and of older releases, that change nothing, and why.
    unused: ClassVar[Mapping[str, str]] = {}

    def __init__(self, raw: Mapping[str, str]) -> None:
        super().__init__(raw)
        for option in self.declared():
            found = option.find(self.raw)
            if found is not None:
                setattr(self, option.attribute, option.value_of(found))

    @classmethod
    @cache
    def declared(cls) -> tuple[Option[Any], ...]:
        """Return the options of the index family; of a plug-in's class its own too."""
        family = [c for c in cls.__mro__ if issubclass(c, IndexOptions)]
        return tuple(v for c in family for v in vars(c).values() if isinstance(v, Option))

    index_type = Option(
        "index.type",
        f"{' | '.join(INDEX_TYPES)} | a plug-in",
        _index_type,
        "hash",
        "How a row finds where its key lives.",
    )
    index_bad_filter = choice(
        "index.bad-filter", "read-keys fail", "A filter that cannot be read: read the file's keys, or stop."
    )
    index_driver_memory = size(
        "index.driver-memory",
        "512 mb",
        "What a batch may hold in the driver while its rows are placed; above, tasks do.",
    )
    index_threads = integer("index.threads", 0, "Threads that check files; 0 = one per core.", least=0)

    # Bloom filters
    hoodie_bloom_index_filter_type = choice(
        "hoodie.bloom.index.filter.type", "DYNAMIC_V0 SIMPLE", "Kind of filter that writers put into footers."
    )
    hoodie_index_bloom_num_entries = integer(
        "hoodie.index.bloom.num_entries", 60000, "Keys a filter row is made for.", least=1
    )
    hoodie_index_bloom_fpp = fraction(
        "hoodie.index.bloom.fpp", 0.000000001, "Target false positive rate at that number of keys."
    )
    hoodie_bloom_index_filter_dynamic_max_entries = integer(
        "hoodie.bloom.index.filter.dynamic.max.entries", 100000, "Keys up to which a dynamic filter grows.", least=0
    )
    hoodie_parquet_bloom_filter_enabled = boolean(
        "hoodie.parquet.bloom.filter.enabled", True, "Write filters when the index type is bloom or global-bloom."
    )

    # Looking keys up by filters
    hoodie_bloom_index_parallelism = integer(
        "hoodie.bloom.index.parallelism", 0, "bloom: threads that check files; 0 = one per core.", least=0
    )
    hoodie_bloom_index_prune_by_ranges = boolean(
        "hoodie.bloom.index.prune.by.ranges", True, "Leave out files by their key range."
    )
    hoodie_bloom_index_use_metadata = boolean(
        "hoodie.bloom.index.use.metadata", False, "Filters from the snapshot's metadata cache, not from footers."
    )
    hoodie_bloom_index_update_partition_path = boolean(
        "hoodie.bloom.index.update.partition.path", True, "global-bloom: a key may move to the row's partition."
    )

    # Simple
    hoodie_simple_index_parallelism = integer(
        "hoodie.simple.index.parallelism", 0, "simple: tasks that read keys; 0 = one per file.", least=0
    )
    hoodie_global_simple_index_parallelism = integer(
        "hoodie.global.simple.index.parallelism", 0, "global-simple: tasks that read keys; 0 = one per file.", least=0
    )
    hoodie_simple_index_update_partition_path = boolean(
        "hoodie.simple.index.update.partition.path", True, "global-simple: a key may move to the row's partition."
    )

    # Buckets
    hoodie_index_bucket_engine = choice(
        "hoodie.index.bucket.engine",
        "SIMPLE CONSISTENT_HASHING",
        "A fixed number of buckets, or a ring that is resized.",
    )
    hoodie_bucket_index_num_buckets = integer(
        "hoodie.bucket.index.num.buckets", 256, "Buckets per partition (at the start, for a ring).", least=1, most=32767
    )
    hoodie_bucket_index_hash_field = names(
        "hoodie.bucket.index.hash.field", "Key columns that decide the bucket; default: all."
    )
    hoodie_bucket_index_max_num_buckets = opt_integer(
        "hoodie.bucket.index.max.num.buckets", "A ring is split up to here; default: num.buckets.", least=1, most=32767
    )
    hoodie_bucket_index_min_num_buckets = opt_integer(
        "hoodie.bucket.index.min.num.buckets", "A ring is merged down to here; default: num.buckets.", least=1
    )
    hoodie_bucket_index_split_threshold = number(
        "hoodie.bucket.index.split.threshold", 2.0, "Split a bucket above this many target file sizes.", most=1e9
    )
    hoodie_bucket_index_merge_threshold = number(
        "hoodie.bucket.index.merge.threshold", 0.2, "Merge neighbours up to this many target file sizes.", most=1e9
    )

    # State (Flink's names)
    index_state_ttl = number("index.state.ttl", 0.0, "Days after which the state forgets a key; 0 = never.", most=36500)
    index_global_enabled = boolean("index.global.enabled", True, "state: a key lives in one partition at a time.")
    index_partition_regex = text("index.partition.regex", ".*", "state: partitions loaded when it is built.")
    index_state_cache_mb = integer("index.state.cache-mb", 256, "Memory for loading keys, MiB.", least=8)
    index_state_keep_checkpoints = integer(
        "index.state.keep-checkpoints", 2, "Snapshots whose state is retained on the store.", least=1
    )


def index_options_of(schema: TableSchema) -> IndexOptions:
    """Return the options of a table as they are written, parsed once for each schema."""
    return schema.once("options_of_index", lambda: IndexOptions(schema.options))


IndexOptions.unused = {
    "hoodie.index.type": "index.type has lakeidx's own set of types",
    "hoodie.index.class": "indexes are chosen by name, not by a Java class",
    "hoodie.bloom.index.use.caching": "the keys of a batch are decoded once",
    "hoodie.simple.index.use.caching": "as hoodie.bloom.index.use.caching",
    "hoodie.bloom.index.use.treebased.filter": "the tree and the list find the same files, which two searches find here",
    "hoodie.bloom.index.bucketized.checking": "each file is checked once, by one thread or task",
    "hoodie.bloom.index.bucketized.checking.enable.dynamic.parallelism": "as hoodie.bloom.index.bucketized.checking",
    "hoodie.bloom.index.fileid.key.sorting.enable": "as hoodie.bloom.index.bucketized.checking",
    "hoodie.bloom.index.keys.per.bucket": "as hoodie.bloom.index.bucketized.checking",
    "hoodie.bloom.index.input.storage.level": "keys of a batch are held in memory as packed columns, never on a Spark cache",
    "hoodie.simple.index.input.storage.level": "as hoodie.bloom.index.input.storage.level",
    "hoodie.record.index.input.storage.level": "as hoodie.bloom.index.input.storage.level",
    "hoodie.global.index.reconcile.parallelism": "moves are found in the assignment stage, by columns in one process",
    "hoodie.bucket.index.query.pruning": "reads prune by Paimon's statistics and indexes",
    "hoodie.bucket.index.partition.rule.type": "of Hudi 1.1; bucket counts per partition come from the ring instead",
    "hoodie.bucket.index.partition.expressions": "as hoodie.bucket.index.partition.rule.type",
    "hoodie.bucket.index.remote.partitioner.enable": "there is no remote partitioner",
    "hoodie.metadata.enable": "Hudi's metadata table; use.metadata reads lakeidx's metadata cache",
    "hoodie.metadata.index.bloom.filter.enable": "as hoodie.metadata.enable",
    "hoodie.metadata.index.bloom.filter.file.group.count": "the cache is one file per snapshot",
    "hoodie.metadata.index.bloom.filter.parallelism": "as hoodie.metadata.enable",
    "hoodie.metadata.index.bloom.filter.column.list": "filters are over the record key",
    "hoodie.metadata.index.column.stats.enable": "key ranges are in Paimon's manifests",
    "hoodie.metadata.index.column.stats.file.group.count": "as hoodie.metadata.index.column.stats.enable",
    "hoodie.metadata.index.column.stats.parallelism": "as hoodie.metadata.index.column.stats.enable",
    "hoodie.metadata.index.column.stats.column.list": "as hoodie.metadata.index.column.stats.enable",
    "hoodie.metadata.index.column.stats.max.columns.to.index": "as hoodie.metadata.index.column.stats.enable",
    "hoodie.metadata.record.index.enable": "the record index is Hudi's metadata table; Paimon's HASH index replaces it",
    "hoodie.metadata.record.index.min.filegroup.count": "as hoodie.metadata.record.index.enable",
    "hoodie.metadata.record.index.max.filegroup.count": "as hoodie.metadata.record.index.enable",
    "hoodie.metadata.record.index.max.filegroup.size": "as hoodie.metadata.record.index.enable",
    "hoodie.metadata.record.index.growth.factor": "as hoodie.metadata.record.index.enable",
    "hoodie.record.index.use.caching": "as hoodie.metadata.record.index.enable",
    "hoodie.record.index.update.partition.path": "as hoodie.metadata.record.index.enable",
    "index.state.dir": "the state lies on the table's store; nothing of it is on a local disk",
    "index.state.wait": "any number of processes may use the state at once",
    "index.state.checkpoint-every": "the state of every snapshot is put on the store",
    "index.bootstrap.enabled": "the state is always loaded from the table, otherwise known keys would be inserted again",
    "write.index_bootstrap.tasks": "Spark's parallelism decides",
    "write.bucket_assign.tasks": "as write.index_bootstrap.tasks",
    "hoodie.populate.meta.fields": "a Paimon table has no meta columns; filters are written whenever the options enable them",
}
