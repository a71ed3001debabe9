"""Inputs and outputs of key indexes: keys of a batch, data files they may be in, locations, and the result of a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.data_file import DataFileMeta
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.types import DataType

if TYPE_CHECKING:
    from lakeidx.codec.hudi.bloom import FirstHashes
    from lakeidx.key_index.keys.codes import KeyCodes

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class KeyBatch:
    """Keys of n rows. A key may come several times, in one partition or several; order is the batch's.

    partitions  distinct partitions of the batch, as manifest bytes
    partition   int32[n], which of them each row has
    keys        the trimmed primary key: n rows, its columns in key order, no nulls
    key_types   their types
    hashes      int32[n], hash of the trimmed primary key's BinaryRow
    """

    partitions: tuple[bytes, ...]
    partition: Int32s
    keys: pa.Table
    key_types: tuple[DataType, ...]
    hashes: Int32s

    def __len__(self) -> int:
        return len(self.partition)

    @cached_property
    def codes(self) -> KeyCodes:
        """The keys as comparable codes."""
        from lakeidx.key_index.keys.codes import key_codes

        return key_codes(self.keys.columns, self.key_types)

    @cached_property
    def record_keys(self) -> RowBytes:
        """The keys as Hudi's record key text, UTF-8."""
        from lakeidx.key_index.keys.record_key import record_keys

        return record_keys(self.keys.columns, self.keys.column_names)

    @cached_property
    def filter_hashes(self) -> FirstHashes:
        """First hashes of the record keys, which take most of a test by a filter and are the same for all filters."""
        from lakeidx.codec.hudi.bloom import first_hashes

        return first_hashes(self.record_keys)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the snapshot a batch is tagged on.

    partition   manifest bytes
    path        full path
    """

    partition: bytes
    bucket: int
    path: str
    meta: DataFileMeta

    @property
    def level(self) -> int:
        """Its level."""
        return self.meta.level

    @property
    def max_sequence(self) -> int:
        """Its largest sequence number."""
        return self.meta.max_sequence_number


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Age and place of a data file with a key, to choose the newest of several; see `LiveFile`."""

    partition: bytes
    bucket: int
    level: int
    max_sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """m times a key was seen in a file.

    key       int64[m] position in the batch of the first row with the key
    file      int64[m] number of the file
    sequence  int64[m] sequence number of the record, zeros when not read
    dead      bool[m] the record is a delete, False when not read
    metrics   of the task that read them
    order     columns of ``sequence.field`` over the m records, when read
    """

    key: Int64s
    file: Int64s
    sequence: Int64s
    dead: Bools
    metrics: IndexMetrics
    order: tuple[pa.ChunkedArray, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeyLocations:
    """Locations of n keys.

    bucket      int32[n], -1 = the key is nowhere: an insert
    partition   int32[n] position in `partitions` of where the key lives (of the row's own partition for inserts)
    partitions  the batch's partitions, then others that keys were found in
    file        int32[n] position in `files` of the newest data file with the key, -1 = not known
    notes       metrics of the index type's own
    """

    bucket: Int32s
    partition: Int32s
    partitions: tuple[bytes, ...]
    file: Int32s
    files: tuple[LiveFile | FoundFile, ...] = ()
    metrics: IndexMetrics = field(default_factory=IndexMetrics)
    notes: Mapping[str, float] = field(default_factory=dict)

    @property
    def known(self) -> Bools:
        """bool[n], True where the key has a location."""
        return self.bucket >= 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CommitInfo:
    """Rows of a commit, where they went, and the snapshots that have them.

    instant      text that names the commit for ever (from commit user and identifier), known before it is put
    snapshot_id  newest snapshot the commit made; None until it is there
    base_id      snapshot the batch was tagged on
    batch        keys of the batch; None for a compaction
    partition    int32[n] position in `partitions` where each row went
    bucket       int32[n]
    deleted      bool[n] rows that took their key away
    partitions   see `KeyLocations.partitions`
    was          what `tag` had answered
    """

    instant: str
    snapshot_id: int | None = None
    base_id: int | None = None
    batch: KeyBatch | None = None
    partition: Int32s | None = None
    bucket: Int32s | None = None
    deleted: Bools | None = None
    partitions: tuple[bytes, ...] = ()
    was: KeyLocations | None = None


def no_locations(batch: KeyBatch, metrics: IndexMetrics | None = None) -> KeyLocations:
    """Answer that every key is new."""
    n = len(batch)
    return KeyLocations(
        bucket=np.full(n, -1, np.int32),
        partition=batch.partition,
        partitions=batch.partitions,
        file=np.full(n, -1, np.int32),
        metrics=metrics or IndexMetrics(keys=n),
    )
