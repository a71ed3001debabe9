"""Index types by name. Those of the core are listed here; another is a plug-in: a class that implements a port, an `IndexType`,
and an entry point that names it (`lakeidx.plugins`).

A type is imported with the first table that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from lakeidx.data.write_spec import FooterMetadataBuilder
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.options import IndexOptions, index_options_of
from lakeidx.key_index.port import Locator
from lakeidx.plugins import INDEX_TYPES as PLUGINS
from lakeidx.plugins import load_plugin, plugin_names


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexType:
    """Registration of an index type, before any table is opened with it.

    name              its name in option ``index.type``
    make              what finds keys, by the table's options; None: the HASH index alone does
    limits            what it cannot promise, said when a table is made with it; ``""`` when there is nothing to say
    fixed_buckets     goes with a fixed number of buckets, where it is the bucket function that decides
    cross_partition   goes with primary keys that leave out partition columns
    stays_in_process  one object for all batches of a process that work on the same table; it holds all keys of the table
    fills_buckets     a bucket takes new keys up to ``dynamic-bucket.target-row-num``; False when the key alone decides
    requires          option without which it cannot work, ``""`` for none
    footer            makes what the footers of data files carry for it, one builder per file; None where they carry nothing
    placement         options that say where it finds the keys it has placed: they cannot change once there are some
    options           class of its options: `IndexOptions`, or one derived from it with the type's own
    advice            for `lakeidx advise`: a `lakeidx.key_index.advice.advise.Profile`; None: it is not recommended
    """

    name: str
    make: Callable[[IndexOptions], Locator] | None
    limits: str = ""
    fixed_buckets: bool = False
    cross_partition: bool = False
    stays_in_process: bool = False
    fills_buckets: bool = True
    requires: str = ""
    footer: Callable[[TableSchema], Callable[[], FooterMetadataBuilder] | None] = lambda schema: None
    placement: tuple[str, ...] = ()
    options: type[IndexOptions] = IndexOptions
    advice: Any = None


def find_type(options: IndexOptions) -> IndexType:
    """Return the index type that option ``index.type`` names.

    errors   InvalidInputError for a plug-in that cannot be imported
    """
    return _CORE.get(options.index_type) or load_plugin(PLUGINS, options.index_type)


def index_types() -> tuple[IndexType, ...]:
    """Return all index types: those of the core, and plug-ins."""
    return (*_CORE.values(), *(load_plugin(PLUGINS, name) for name in plugin_names(PLUGINS)))


def make_locator(options: IndexOptions) -> Locator | None:
    """Return what finds keys by option ``index.type``; None: the HASH index alone does."""
    make = find_type(options).make
    return None if make is None else make(options)


def data_file_footer(schema: TableSchema) -> Callable[[], FooterMetadataBuilder] | None:
    """Return what makes the footer entries that the table's index type wants in its data files; None when it wants none."""
    return find_type(index_options_of(schema)).footer(schema)


def built_beside(schema: TableSchema) -> Mapping[str, Any]:
    """Return what the table's options want beside the rows of its data files, as arguments of `DataFileWriter`, found once.

    errors   InvalidInputError for a file index that cannot be built
    """
    from lakeidx.file_index.write import index_builder

    return {"index_builder": index_builder(schema), "footer_metadata": data_file_footer(schema)}


def _make_bucket(options: IndexOptions) -> Locator:
    from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex, has_rings

    return BucketKeyIndex(splits_buckets=has_rings(options))


def _make_bloom(options: IndexOptions, *, is_global: bool = False) -> Locator:
    from lakeidx.key_index.bloom.bloom_index import BloomKeyIndex

    moves = is_global and options.hoodie_bloom_index_update_partition_path
    return BloomKeyIndex(is_global=is_global, moves_keys=moves)


def _make_simple(options: IndexOptions, *, is_global: bool = False) -> Locator:
    from lakeidx.key_index.simple import SimpleKeyIndex

    moves = is_global and options.hoodie_simple_index_update_partition_path
    return SimpleKeyIndex(is_global=is_global, moves_keys=moves)


def _make_state(options: IndexOptions, *, name: str) -> Locator:
    # A state is a table, and works with what is above this package, as tables do: it is named, and not imported.
    made: Locator = getattr(import_module("lakeidx.batch.key_state.index"), name)(
        is_global=options.index_global_enabled
    )
    return made


def _bloom_footer(schema: TableSchema) -> Callable[[], FooterMetadataBuilder] | None:
    from lakeidx.key_index.bloom.footer import bloom_footer

    return bloom_footer(schema)


_SCOPE = ("index.global.enabled", "index.partition.regex")

_CORE = {
    t.name: t
    for t in (
        IndexType(
            name="hash",
            make=None,
            fixed_buckets=True,
        ),
        IndexType(
            name="bucket",
            make=_make_bucket,
            limits="New keys are placed by hash, however full that bucket is; choose hoodie.bucket.index.num.buckets for the "
            "table's final size, as it only applies to new keys, or use the engine CONSISTENT_HASHING and resize.",
            fixed_buckets=True,
            fills_buckets=False,
            placement=("hoodie.index.bucket.engine", "hoodie.bucket.index.hash.field"),
        ),
        IndexType(
            name="bloom",
            make=_make_bloom,
            limits="Slows down when filters are small for the files: each false positive reads a file's keys.",
            footer=_bloom_footer,
        ),
        IndexType(
            name="global-bloom",
            make=partial(_make_bloom, is_global=True),
            limits="As bloom; cost grows with the whole table. A batch that loses a commit race is planned again, whatever "
            "keys the winner had. Java's writers do not handle keys that change partition.",
            footer=_bloom_footer,
            placement=("hoodie.bloom.index.update.partition.path",),
        ),
        IndexType(
            name="simple",
            make=_make_simple,
            limits="Reads all keys of the partitions a batch touches.",
        ),
        IndexType(
            name="global-simple",
            make=partial(_make_simple, is_global=True),
            limits="Reads all keys of the table for every batch. A batch that loses a commit race is planned again, whatever "
            "keys the winner had. Java's writers do not handle keys that change partition.",
            placement=("hoodie.simple.index.update.partition.path",),
        ),
        IndexType(
            name="inmemory",
            make=partial(_make_state, name="MemoryKeyIndex"),
            limits="Held in memory by each process, which rebuilds it; for tests, and tables whose keys fit in memory. Beyond "
            "index.driver-memory tasks read all keys of the partitions that are looked in for every batch, as global-simple does.",
            cross_partition=True,
            stays_in_process=True,
            placement=_SCOPE,
        ),
        IndexType(
            name="state",
            make=partial(_make_state, name="StateKeyIndex"),
            limits="Built from the whole table when there is no state yet, or it is lost. With index.state.ttl keys are forgotten, "
            "and may then be written a second time.",
            cross_partition=True,
            placement=_SCOPE,
        ),
    )
}
