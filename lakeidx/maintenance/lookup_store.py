"""Stage `lookup_store`: lookup files for the data files of the newest snapshot that have none yet, listed bucket by bucket.

A data file never changes, so a lookup file is good as long as its data file lives: files that compaction moved to another level
keep theirs. Files are made and listed group by group: one that cannot be made is left out and named at the end, a driver that dies
loses the group it was in. Running the stage twice builds nothing the second time; two runs at once build some files twice.

One data file made into one lookup file: trimmed primary key -> row, sequence number, kind (and position), or less than that.

source   org.apache.paimon.mergetree.LookupLevels#createSstFileFromDataFile, release 1.4.2
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.rows.compacted_row import encode_compacted_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import InvalidInputError
from lakeidx.format.file_names import NameKind, lookup_name, parse_file_name
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.listing import LISTING_NAME, LookupPlaces, StoredLookup, read_listing, write_listing
from lakeidx.lookup.point.answers import lookup_keys
from lakeidx.lookup.scratch_file import os_errors
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, StoreType, parse_store_type
from lakeidx.lookup.stored_files import Place, StoredFiles
from lakeidx.lookup.value_rows import Processor, encode_positions, encode_value_rows
from lakeidx.results import Result
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import join, parent_of
from lakeidx.table.expiration.orphans import used_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import is_superseded, load_newest
from lakeidx.table.scan.plan import skips_level_0
from lakeidx.table.view import data_file_path, decode_partition_dict
from lakeidx.tasks.groups import GroupedWork
from lakeidx.tasks.in_parallel import in_parallel, parallel_walk, runner_of_small_files
from lakeidx.tasks.runner import Runner


class LookupStoreReport(Result, BaseModel):
    """Report of the stage.

    snapshot_id   snapshot that is listed; None for a table without one
    built         lookup files made, with `entries` keys and `bytes` bytes
    reused        lookup files that were there
    removed       lookup files and listings removed because nothing needs them any more
    """

    model_config = ConfigDict(frozen=True)

    snapshot_id: int | None
    store_type: str
    built: int
    reused: int
    removed: int
    entries: int
    bytes: int
    seconds: float


def run_lookup_store(
    metadata: TableMetadata,
    runner: Runner,
    *,
    partitions: Collection[bytes] | None = None,
    local_dir: str | None = None,
    remove: bool = True,
) -> LookupStoreReport:
    """Build missing lookup files of the newest snapshot.

    partitions   build only for these (partition bytes); files that are there for others stay listed
    local_dir    local directory for files before they are uploaded
    remove       also remove what no live data file needs
    errors       of the kind of the first data file's that no lookup file could be made of, naming it, when all others are listed;
                 InvalidInputError for a table without primary key; CorruptFileError, UnavailableError
    """
    started = time.monotonic()
    schema = metadata.latest_schema()
    if not schema.primary_keys:
        raise InvalidInputError("lookup files need a primary key", path=metadata.paths.root)
    store_type = lookup_store_type(schema)
    view = load_newest(metadata)
    if view.snapshot is None:
        return LookupStoreReport(
            snapshot_id=None, store_type=store_type, built=0, reused=0, removed=0, entries=0, bytes=0,
            seconds=time.monotonic() - started,
        )  # fmt: skip
    hides_level_0 = skips_level_0(schema)
    live = [e for e in view.entries if e.bucket >= 0 and not (hides_level_0 and e.file.level == 0)]
    stored = StoredFiles(metadata, schema)
    kept = stored.serving(live, _lookup_processor(schema), store_type)
    todo = [
        LookupBuild(metadata, schema, e, local_dir)
        for e in live
        if e.file.file_name not in kept and (partitions is None or e.partition in partitions)
    ]
    label = f"lookup_store: {metadata.paths.root}"
    runner = runner_of_small_files(runner, metadata.store, max(map(_file_size, todo), default=0))
    tasks = GroupedWork(runner, _build_lookup_file, _data_file, _file_size, label, ("data files", "made ready"))
    made: list[StoredLookup] = []
    for group in tasks.groups(_by_bucket(todo)):
        done = tasks.run(group)
        _list_files(metadata, stored, {e.file.file_name for e in live}, done)
        made += [f for _, f in done]
        if tasks.failed and not made:
            break
    if tasks.failed and is_superseded(metadata, view.snapshot):
        tasks.take_missing()  # What others have replaced meanwhile needs none.
    tasks.raise_failed(len(todo), len(made))
    removed = len(clean_lookup_files(metadata)) if remove else 0
    return LookupStoreReport(
        snapshot_id=view.snapshot.id,
        store_type=store_type,
        built=len(made),
        reused=len(kept),
        removed=removed,
        entries=sum(f.entries for f in made),
        bytes=sum(f.size for f in made),
        seconds=time.monotonic() - started,
    )


def _by_bucket(work: Sequence[LookupBuild]) -> list[LookupBuild]:
    """Sort work so that few groups list files of the same bucket: heaviest buckets first, in each its largest files."""
    weights: Counter[Place] = Counter()
    for w in work:
        weights[w.place] += _file_size(w)
    return sorted(work, key=lambda w: (-weights[w.place], w.place, -_file_size(w)))


def _data_file(work: LookupBuild) -> str:
    return data_file_path(work.metadata, work.entry)


def _file_size(work: LookupBuild) -> int:
    return work.entry.file.file_size


def _list_files(
    metadata: TableMetadata,
    stored: StoredFiles,
    live: Collection[str],
    made: Sequence[tuple[LookupBuild, StoredLookup]],
) -> None:
    """Add the built files to the listings of their buckets; drop entries that are neither live nor in the store."""
    new: dict[Place, dict[str, StoredLookup]] = {}
    for work, file in made:
        new.setdefault(work.place, {})[file.data_file] = file

    def add(place: Place) -> None:
        folder = stored.folder(place)
        path = stored.listing(folder)
        before = read_listing(metadata.store, path)
        kept = {name: f for name, f in before.items() if name in live or stored.has(folder, name)}
        write_listing(metadata.store, path, kept | new[place])

    in_parallel(add, list(new))


def clean_lookup_files(metadata: TableMetadata, *, dry_run: bool = False) -> tuple[FileInfo, ...]:
    """Remove lookup files whose data file no snapshot, tag or branch refers to, and listings of buckets that have none left.

    Call it after snapshots have expired.
    returns  what was removed, or in a dry run would be
    errors   CorruptFileError, UnavailableError: while a snapshot cannot be read it is unknown what it needs
    """
    places = LookupPlaces(metadata.paths)
    # What is built in the meantime is not among the files examined: they are listed before the metadata.
    found = parallel_walk(metadata.store, places.root)
    if not found:
        return ()
    used = used_names(metadata)
    gone, kept, listings = [], set(), []
    for file in found:
        name = parse_file_name(file.name.removesuffix(CONTEXT_SUFFIX))
        if name.kind is not NameKind.LOOKUP:
            listings.append(file)
        elif name.label in used:
            kept.add(parent_of(file.path))
        else:
            gone.append(file)
    gone += [f for f in listings if _is_listing(f, places) and parent_of(f.path) not in kept]
    if not dry_run:
        metadata.store.delete_many(f.path for f in gone)
    return tuple(gone)


def _is_listing(file: FileInfo, places: LookupPlaces) -> bool:
    """Return True for a listing; earlier releases had one for each snapshot, which no one reads any more."""
    if file.name == LISTING_NAME:
        return True
    return file.name.startswith("listing-") and len(file.path[len(places.root) + 1 :].split("/")) <= 2


def lookup_coverage(metadata: TableMetadata) -> tuple[int, int]:
    """Return (live data files of the newest snapshot with a lookup file of the kind the table wants, all of them)."""
    schema, live = metadata.latest_schema(), load_newest(metadata).entries
    if not len(live):
        return 0, 0
    return len(StoredFiles(metadata, schema).serving(live, _lookup_processor(schema), lookup_store_type(schema))), len(
        live
    )


_COPY_BYTES = 8 << 20
_COMPRESSION, _BLOCK_SIZE = "lookup.cache-spill-compression", "cache-page-size"
#: Of lookup files beside a table, unless it says otherwise.
BLOCK_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class LookupBuild:
    """The work on one data file; pickles.

    schema      the table's newest schema: its options say how lookup files are made
    local_dir   where the file is made before it goes to the store; None: the system's temporary directory
    """

    metadata: TableMetadata
    schema: TableSchema
    entry: ManifestEntry
    local_dir: str | None = None

    @property
    def place(self) -> tuple[bytes, int]:
        """Partition bytes and bucket."""
        return self.entry.partition, self.entry.bucket


def _lookup_processor(schema: TableSchema) -> Processor:
    """Return the content of the values, by ``lookup.store.values``: with rows, positions only where deletion vectors need them.

    source   as org.apache.paimon.mergetree.compact.MergeTreeCompactManagerFactory chooses, but for what the table says it wants
    """
    wanted = schema.table_options.lookup_store_values
    if wanted != "value":
        return Processor.POSITION if wanted == "position" else Processor.EMPTY
    with_vectors = schema.table_options.deletion_vectors_enabled
    return Processor.POSITION_AND_VALUE if with_vectors else Processor.VALUE


def lookup_store_type(schema: TableSchema) -> StoreType:
    """Return ``lookup.store.type`` of a table."""
    return parse_store_type(schema.table_options.lookup_store_type)


def _lookup_store_options(schema: TableSchema) -> LookupStoreOptions:
    """Return the options by which a table's lookup files are built.

    Paimon's defaults (zstd, blocks of 64 KB) are for scratch files that a compaction reads in key order. These files are read
    keys from everywhere, and a key costs the check of a whole block: where the table says nothing, blocks are not compressed
    (they are read in place) and have 16 KB.
    """
    said = schema.table_options
    options = LookupStoreOptions.from_table_options(said)
    if not said.is_set(_COMPRESSION):
        options = replace(options, compression=BlockCodec.NONE)
    return options if said.is_set(_BLOCK_SIZE) else replace(options, block_size=BLOCK_BYTES)


def _build_lookup_file(work: LookupBuild) -> StoredLookup:
    """Make the lookup file of one data file and put it into the table's store.

    memory   a batch of rows and what the store's writer keeps
    errors   those of reading the data file; UnavailableError for a full disk
    """
    metadata, entry = work.metadata, work.entry
    file = entry.file
    file_schema = metadata.load_schema(file.schema_id)
    partition = decode_partition_dict(entry.partition, work.schema)
    source = metadata.paths.data_file(partition, entry.bucket, file.file_name, external_path=file.external_path)
    processor, store_type = _lookup_processor(work.schema), lookup_store_type(work.schema)
    factory = LookupStoreFactory(
        store_type,
        order=KeyOrder.row_compacted(file_schema.key_types),
        options=_lookup_store_options(work.schema),
    )
    columns = None if processor.has_rows else file_schema.trimmed_primary_keys
    with tempfile.TemporaryDirectory(prefix="lakeidx-lookup-", dir=work.local_dir) as folder:
        with factory.create_writer(Path(folder) / "store", expected_entries=file.row_count) as writer:
            position = 0
            for rows in read_data_file(metadata.store, source, file, file_schema, file_schema, columns):
                writer.write(lookup_keys(rows, file_schema), _values(rows, file_schema, processor, position))
                position += rows.num_rows
            made = writer.finish()
        name = lookup_name(file.file_name, made.size, str(processor))
        return _upload(
            work, made, join(LookupPlaces(metadata.paths).bucket_dir(partition, entry.bucket), name), processor
        )


def _values(rows: pa.Table, schema: TableSchema, processor: Processor, first: int) -> RowBytes:
    """Encode the values of rows that begin at a position of their file."""
    n = rows.num_rows
    if processor is Processor.EMPTY:
        return RowBytes(np.zeros(0, np.uint8), np.zeros(n + 1, np.int64))
    positions = np.arange(first, first + n)
    if processor is Processor.POSITION:
        return encode_positions(positions)
    compacted = encode_compacted_rows(
        [rows.column(f.name) for f in schema.fields], [f.type for f in schema.fields], n, room=processor.tail
    )
    sequences, kinds = rows.column(SEQUENCE_NUMBER).to_numpy(), rows.column(VALUE_KIND).to_numpy()
    return encode_value_rows(
        compacted, sequences, kinds, positions if processor is Processor.POSITION_AND_VALUE else None
    )


def _upload(work: LookupBuild, made: LookupFile, path: str, processor: Processor) -> StoredLookup:
    """Copy a finished file and what belongs to it into the store; the file itself last."""
    store, places = work.metadata.store, LookupPlaces(work.metadata.paths)
    sides = tuple(str(context_path(path)) for _ in made.side_files)
    for local, remote in (*zip(made.side_files, sides, strict=True), (made.path, path)):
        with os_errors(Path(local)), open(local, "rb") as source, store.open_output(places.full(remote)) as sink:
            shutil.copyfileobj(source, sink, _COPY_BYTES)
    return StoredLookup(
        data_file=work.entry.file.file_name,
        path=path,
        schema_id=work.entry.file.schema_id,
        processor=processor,
        store_type=made.store_type,
        size=made.size,
        entries=made.entries,
        checksum=made.checksum,
        side_files=sides,
    )
