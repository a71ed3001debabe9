"""Keys of level-0 files in higher-level files that have lookup files: looked up there if that costs less than reading.

A lookup file is asked for some keys; without it all key columns of its data file are read. Large batches read, small ones ask.

source   org.apache.paimon.mergetree.LookupLevels, which makes a lookup file where there is none, and its RemoteLookupFileManager
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.compaction.bucket import BucketCompaction, BucketReader
from lakeidx.errors import NotFoundError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.lookup.listing import LookupPlaces, StoredLookup, read_listing
from lakeidx.lookup.open_readers import LookupReaders
from lakeidx.lookup.point.answers import kv_rows
from lakeidx.lookup.stored_files import lookup_file_beside
from lakeidx.lookup.value_rows import Processor, decode_positions, decode_value_rows
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.in_parallel import in_parallel

Int64s = npt.NDArray[np.int64]

#: Rows of which the key columns are read in the time that a lookup file takes for a key.
_ROWS_PER_KEY = 16
#: A lookup file that is not on this machine is copied for a compaction when it is so much smaller than its data file.
_COPIED_SHARE = 4
_WITH_POSITIONS = frozenset({Processor.POSITION, Processor.POSITION_AND_VALUE})


class Need(Enum):
    """Needs of a compaction from higher levels: that a key is there, its row, or the place of it."""

    KEYS = frozenset(Processor)
    ROWS = _WITH_POSITIONS | {Processor.VALUE}
    POSITIONS = _WITH_POSITIONS


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer of a lookup file for some keys.

    there       int64[k], rising: which keys are there
    positions   int64[k] in the data file; None where values have none
    rows        k rows of a KV table in the newest schema, where values have rows and no positions
    """

    there: Int64s
    positions: Int64s | None = None
    rows: pa.Table | None = None


class StoredKeys:
    """The lookup files of a bucket's higher levels.

    schema    the table's newest
    lookups   by name of the data file
    """

    def __init__(
        self, metadata: TableMetadata, schema: TableSchema, lookups: Mapping[str, StoredLookup], need: Need
    ) -> None:
        self._metadata, self._schema = metadata, schema
        self._lookups = lookups
        self._need = need
        self._readers = LookupReaders(metadata)

    def is_cheaper(self, file: DataFileMeta, keys: int, *, some_deleted: bool) -> bool:
        """Return True when asking for so many keys costs less than reading the key columns of a file.

        some_deleted   the file has a deletion vector: which row a key is must be known
        """
        stored = self._lookups.get(file.file_name)
        if stored is None or keys * _ROWS_PER_KEY > file.row_count:
            return False
        if stored.processor not in (_WITH_POSITIONS if some_deleted else self._need.value):
            return False
        return stored.size * _COPIED_SHARE <= file.file_size or self._readers.is_at_hand(stored)

    def find(self, file: DataFileMeta, keys: RowBytes) -> StoredAnswer | None:
        """Find keys in a data file, by its lookup file.

        keys      trimmed primary keys as `lakeidx.lookup.point.answers.lookup_keys` encodes them
        returns   None when there is no lookup file any more, or no room for a copy
        errors    CorruptFileError
        """
        stored = self._lookups[file.file_name]
        try:
            reader = self._readers.open(stored)
        except NotFoundError:
            # Removed with an older snapshot's listing, or by hand.
            return None
        if reader is None:
            return None
        answer = reader.lookup_many(keys)
        found = np.flatnonzero(answer.found)
        if stored.processor is Processor.EMPTY or (self._need is Need.KEYS and stored.processor is Processor.VALUE):
            return StoredAnswer(found)
        values = answer.values.take(found)
        path = self._readers.places.full(stored.path)
        if stored.processor is Processor.POSITION:
            return StoredAnswer(found, decode_positions(values, file.row_count, path))
        decoded = decode_value_rows(values, stored.processor, path)
        if decoded.positions is not None:
            return StoredAnswer(found, decoded.positions)
        return StoredAnswer(found, rows=kv_rows(decoded, self._metadata.load_schema(stored.schema_id), self._schema))

    def close(self) -> None:
        """Close the lookup files."""
        self._readers.close()


def with_lookup_files(metadata: TableMetadata, work: Sequence[BucketCompaction]) -> list[BucketCompaction]:
    """Pass the lookup files of their buckets to compactions that look keys up."""
    places = LookupPlaces(metadata.paths)

    def told(w: BucketCompaction) -> BucketCompaction:
        if not any(step.lookup for step in w.task.steps):
            return w
        partition = decode_partition_dict(w.partition, w.schema)
        listed = read_listing(metadata.store, places.listing(partition, w.bucket))
        return replace(w, lookups=_lookup_files(w, listed))

    return in_parallel(told, work)


def _lookup_files(work: BucketCompaction, listed: Mapping[str, StoredLookup]) -> dict[str, StoredLookup]:
    reader, out = BucketReader(work), {}
    for file in work.kept:
        found = listed.get(file.file_name) or lookup_file_beside(file, reader.path(file), work.schema.id)
        if found is not None:
            out[file.file_name] = found
    return out
