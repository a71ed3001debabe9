"""Index types by name. A new one is a module with a class that implements a port, and one `register` of it.

A type is imported with the first table that has it. Tasks in other processes know a registered type when they import the module
that registers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lakeidx.data.write_spec import FooterMetadataBuilder
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.advice import model, suitability
from lakeidx.key_index.advice.measures import Needs
from lakeidx.key_index.advice.model import WorkModel
from lakeidx.key_index.advice.sizing import FPP, MAX_ENTRIES, NUM_BUCKETS, NUM_ENTRIES, TARGET_ROWS
from lakeidx.key_index.advice.suitability import in_own_partition
from lakeidx.key_index.options import INDEX_TYPES, IndexOptions, options_of
from lakeidx.key_index.port import Locator


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexType:
    """What an index type is, before any table is opened with it.

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
    work              what a batch costs with it, for `lakeidx advise`; None = it is not recommended
    unsuited          why it is out of the question for what is needed, ``""`` when it is not
    sized_by          options whose values `lakeidx advise` derives from the workload
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
    work: WorkModel | None = None
    unsuited: Callable[[Needs], str] = in_own_partition
    sized_by: tuple[str, ...] = ()


_TYPES: dict[str, IndexType] = {}


def register(index_type: IndexType) -> None:
    """Make an index type known.

    errors   InvalidInputError when there is one of that name
    """
    if index_type.name in _TYPES:
        raise InvalidInputError(f"there is an index type {index_type.name!r} already")
    _TYPES[index_type.name] = index_type
    if index_type.name not in INDEX_TYPES:
        INDEX_TYPES.append(index_type.name)


def find_type(options: IndexOptions) -> IndexType:
    """Return the index type that option ``index.type`` names."""
    return _TYPES[str(options.index_type)]


def index_types() -> tuple[IndexType, ...]:
    """Return all index types, in the order of their registration."""
    return tuple(_TYPES.values())


def make_locator(options: IndexOptions) -> Locator | None:
    """Return what finds keys by option ``index.type``; None: the HASH index alone does."""
    make = find_type(options).make
    return None if make is None else make(options)


def data_file_footer(schema: TableSchema) -> Callable[[], FooterMetadataBuilder] | None:
    """Return what makes the footer entries that the table's index type wants in its data files; None when it wants none."""
    return find_type(options_of(schema)).footer(schema)


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


def _make_state(options: IndexOptions) -> Locator:
    from lakeidx.key_index.state.state_index import StateKeyIndex

    return StateKeyIndex(is_global=options.index_global_enabled)


def _make_memory(options: IndexOptions) -> Locator:
    from lakeidx.key_index.state.state_index import MemoryKeyIndex

    return MemoryKeyIndex(is_global=options.index_global_enabled)


def _make_hbase(options: IndexOptions) -> Locator:
    from lakeidx.key_index.hbase.hbase_index import HBaseKeyIndex

    return HBaseKeyIndex(moves_keys=options.hoodie_hbase_index_update_partition_path)


def _bloom_footer(schema: TableSchema) -> Callable[[], FooterMetadataBuilder] | None:
    from lakeidx.key_index.bloom.footer import bloom_footer

    return bloom_footer(schema)


_ROWS = (TARGET_ROWS,)
_FILTERS = (TARGET_ROWS, NUM_ENTRIES, MAX_ENTRIES, FPP)
_SCOPE = ("index.global.enabled", "index.partition.regex")

register(
    IndexType(
        name="hash",
        make=None,
        fixed_buckets=True,
        work=model.hash_work,
        sized_by=_ROWS,
    )
)
register(
    IndexType(
        name="bucket",
        make=_make_bucket,
        limits="New keys are placed by hash, however full that bucket is; choose hoodie.bucket.index.num.buckets for the "
        "table's final size, as it only applies to new keys, or use the engine CONSISTENT_HASHING and resize.",
        fixed_buckets=True,
        fills_buckets=False,
        placement=("hoodie.index.bucket.engine", "hoodie.bucket.index.hash.field"),
        work=model.bucket_work,
        unsuited=suitability.computed,
        sized_by=(NUM_BUCKETS,),
    )
)
register(
    IndexType(
        name="bloom",
        make=_make_bloom,
        limits="Slows down when filters are small for the files: each false positive reads a file's keys.",
        footer=_bloom_footer,
        work=model.bloom_work,
        sized_by=_FILTERS,
    )
)
register(
    IndexType(
        name="global-bloom",
        make=partial(_make_bloom, is_global=True),
        limits="As bloom; cost grows with the whole table. A batch that loses a commit race is planned again, whatever "
        "keys the winner had. Java's writers do not handle keys that change partition.",
        footer=_bloom_footer,
        placement=("hoodie.bloom.index.update.partition.path",),
        work=partial(model.bloom_work, everywhere=True),
        unsuited=suitability.in_all_partitions,
        sized_by=_FILTERS,
    )
)
register(
    IndexType(
        name="simple",
        make=_make_simple,
        limits="Reads all keys of the partitions a batch touches.",
        work=model.simple_work,
        sized_by=_ROWS,
    )
)
register(
    IndexType(
        name="global-simple",
        make=partial(_make_simple, is_global=True),
        limits="Reads all keys of the table for every batch. A batch that loses a commit race is planned again, whatever "
        "keys the winner had. Java's writers do not handle keys that change partition.",
        placement=("hoodie.simple.index.update.partition.path",),
        work=partial(model.simple_work, everywhere=True),
        unsuited=suitability.in_all_partitions,
        sized_by=_ROWS,
    )
)
register(
    IndexType(
        name="inmemory",
        make=_make_memory,
        limits="Held in memory by each process, which rebuilds it; for tests, and tables whose keys fit in memory. Beyond "
        "index.driver-memory tasks read all keys of the partitions that are looked in for every batch, as global-simple does.",
        cross_partition=True,
        stays_in_process=True,
        placement=_SCOPE,
        work=model.in_memory_work,
        unsuited=suitability.for_tests,
        sized_by=_ROWS,
    )
)
register(
    IndexType(
        name="hbase",
        make=_make_hbase,
        limits="Contains only keys that were written through it, or loaded into HBase once: when another writer moves a key to "
        "a new partition, its old row stays.",
        requires="hoodie.index.hbase.table",
        placement=(
            "index.hbase.rebalanced",
            "hoodie.index.hbase.table",
            "hoodie.index.hbase.bucket.number",
            "hoodie.hbase.index.update.partition.path",
        ),
        work=model.hbase_work,
        unsuited=suitability.on_a_server,
        sized_by=_ROWS,
    )
)
register(
    IndexType(
        name="state",
        make=_make_state,
        limits="Built from the whole table when there is no state yet, or it is lost. With index.state.ttl keys are forgotten, and "
        "may then be written a second time.",
        cross_partition=True,
        placement=_SCOPE,
        work=model.state_work,
        unsuited=suitability.key_state,
        sized_by=_ROWS,
    )
)
