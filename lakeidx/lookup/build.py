"""One data file made into one lookup file: trimmed primary key -> row, sequence number, kind (and position), or less than that.

source   org.apache.paimon.mergetree.LookupLevels#createSstFileFromDataFile, release 1.4.2
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakeidx.codec.containers.compress import BlockCodec
from lakeidx.codec.rows.compacted_row import encode_compacted_rows
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.read_data_file import read_data_file
from lakeidx.format.file_names import lookup_name
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.listing import LookupPlaces, StoredLookup
from lakeidx.lookup.point.answers import lookup_keys
from lakeidx.lookup.scratch_file import os_errors
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, StoreType, parse_store_type
from lakeidx.lookup.value_rows import Processor, encode_positions, encode_value_rows
from lakeidx.storage.files import join
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict

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


def lookup_processor(schema: TableSchema) -> Processor:
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


def build_lookup_file(work: LookupBuild) -> StoredLookup:
    """Make the lookup file of one data file and put it into the table's store.

    memory   a batch of rows and what the store's writer keeps
    errors   those of reading the data file; UnavailableError for a full disk
    """
    metadata, entry = work.metadata, work.entry
    file = entry.file
    file_schema = metadata.load_schema(file.schema_id)
    partition = decode_partition_dict(entry.partition, work.schema)
    source = metadata.paths.data_file(partition, entry.bucket, file.file_name, external_path=file.external_path)
    processor, store_type = lookup_processor(work.schema), lookup_store_type(work.schema)
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
