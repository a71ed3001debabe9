"""Index types by name: which tagger a table's options ask for, and what each type cannot promise."""

from __future__ import annotations

from collections.abc import Mapping

from lakeidx.tagging.base import Tagger
from lakeidx.tagging.bloom import BloomTagger
from lakeidx.tagging.bucket import BucketTagger
from lakeidx.tagging.hash_index import HashTagger
from lakeidx.tagging.hbase import HBaseTagger
from lakeidx.tagging.options import IndexOptions
from lakeidx.tagging.simple import SimpleTagger
from lakeidx.tagging.state import StateTagger
from lakeidx.tagging.state_load import Share

#: What a type cannot promise, to be said when a table is made with it.
LIMITS: Mapping[str, str] = {
    "hash": "",
    "bucket": (
        "New keys go where their hash says, however full that bucket is; choose hoodie.bucket.index.num.buckets for the "
        "table's final size, as it only says where new keys go, or use the engine CONSISTENT_HASHING and resize."
    ),
    "bloom": "Slows down when filters are small for the files: each false positive reads a file's keys.",
    "global-bloom": (
        "As bloom; cost grows with the whole table. A batch that loses a race to another one is planned again, whatever keys "
        "that one had. Java's writers know nothing of keys that change partition."
    ),
    "simple": "Reads all keys of the partitions a batch touches.",
    "global-simple": (
        "Reads all keys of the table for every batch. A batch that loses a race to another one is planned again, whatever keys "
        "that one had. Java's writers know nothing of keys that change partition."
    ),
    "inmemory": "Kept in one process and built anew by every other; for tests, and tables whose keys fit in memory.",
    "hbase": (
        "Knows only keys that were written through it, or loaded into HBase once: a row of another writer whose key changes "
        "partition stays in the old one, too."
    ),
    "state": (
        "Built from the whole table where no state or checkpoint is at hand. With index.state.ttl keys are forgotten, and "
        "may then be written a second time."
    ),
}


def make_tagger(options: IndexOptions, *, share: Share | None = None) -> Tagger:
    """The tagger that option ``index.type`` names.

    share   of an assigner that is one of several; only `state` and `inmemory` keep less for it
    """
    kind = options.index_type
    if kind == "hash":
        return HashTagger()
    if kind == "bucket":
        return BucketTagger()
    if kind == "bloom":
        return BloomTagger()
    if kind == "global-bloom":
        return BloomTagger(is_global=True, moves_keys=options.hoodie_bloom_index_update_partition_path)
    if kind == "simple":
        return SimpleTagger()
    if kind == "global-simple":
        return SimpleTagger(is_global=True, moves_keys=options.hoodie_simple_index_update_partition_path)
    if kind == "hbase":
        return HBaseTagger(moves_keys=options.hoodie_hbase_index_update_partition_path)
    return StateTagger(is_global=options.index_global_enabled, in_memory=kind == "inmemory", share=share)
