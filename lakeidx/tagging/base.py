"""What every tagger takes and gives: a batch's keys, a view of the table, locations; and the calls around a commit.

A **tagger** answers for each key of a batch where it lives now: (partition, bucket), and the data file where that is
known, or nowhere (an insert). Around the commit of a batch it is called in this order:

1.  ``tag``                before rows are placed
2.  ``prepare_commit``     before the snapshot is put: what must be on record if the process dies right after the put
3.  ``update_locations``   after the snapshot is there
4.  ``rollback``           instead of 3, when the commit is given up

A process may die between any two of these. Whatever a tagger keeps outside the table is therefore only believed as
far as the table's own snapshots confirm it.

source   org.apache.hudi.index.HoodieIndex, release 1.0.2 (tagLocation, updateLocation, rollbackCommit)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rowbytes import RowBytes
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.hudi_footer import KeyFooter
from lakeidx.storage.base import ObjectStore
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.key_codes import KeyCodes, key_codes
from lakeidx.tagging.options import IndexOptions
from lakeidx.tagging.record_key import record_keys
from lakeidx.types import DataType

T = TypeVar("T")
R = TypeVar("R")
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
        return key_codes(self.keys.columns, self.key_types)

    @cached_property
    def record_keys(self) -> RowBytes:
        """The keys as Hudi's record key text, UTF-8."""
        return record_keys(self.keys.columns, self.keys.column_names)


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


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Keys read from a data file.

    codes      of m rows, comparable with a batch's
    rows       int64[m] their positions in the file
    sequence   int64[m] sequence numbers, None when not asked for
    kinds      int8[m] row kinds, None when not asked for
    keys       the key columns, as in `KeyBatch.keys`
    order      columns of the table's ``sequence.field``, when asked for and the table has one
    """

    codes: KeyCodes
    rows: Int64s
    sequence: Int64s | None
    kinds: npt.NDArray[np.int8] | None
    keys: pa.Table
    order: tuple[pa.ChunkedArray, ...] = ()


class OpenKeyFile(Protocol):
    """A data file opened for its keys."""

    def footer(self) -> KeyFooter:
        """The key index in the footer; an empty one for formats and writers that leave none."""
        ...

    def read(self, wanted: KeyCodes | None, figures: TagFigures, *, versions: bool = False) -> KeyRows:
        """Key columns, and nothing else.

        wanted    leave out row groups that hold none of these keys; None reads all
        versions  with sequence numbers, row kinds and what else orders the records of a key
        """
        ...


class KeyReader(Protocol):
    """Opens data files for their keys."""

    def open(self, file: LiveFile) -> OpenKeyFile:
        """Open one file; threads may open different files at once."""
        ...


class TableView(Protocol):
    """The table as of the snapshot a batch is tagged on."""

    @property
    def table_id(self) -> str:
        """Tells this table from any other, one of the same path that was dropped and made again included."""
        ...

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot; None for a table without one."""
        ...

    def snapshot_token(self, snapshot_id: int) -> str | None:
        """Tells a snapshot from another one that had its number (after a rollback); None when it is not there any more."""
        ...

    def kept_since(self, snapshot_id: int) -> bool:
        """True when all snapshots after it only added rows and compacted files; False when one replaced or dropped rows, or
        cannot be seen any more."""
        ...

    def is_committed(self, instants: Sequence[str]) -> list[bool]:
        """Which of the commits that `CommitInfo.instant` names made it into the table, expired snapshots included."""
        ...

    def confirm(self, instant: str) -> None:
        """Note that a commit is in the table, so that `is_committed` knows it when its snapshot has expired."""
        ...

    def files(self, partitions: Collection[bytes] | None) -> Sequence[LiveFile]:
        """Live data files of some partitions, None = of all."""
        ...

    def hashes(self, partition: bytes) -> Sequence[tuple[int, Int32s]]:
        """(bucket, hashes) of each HASH index file of a partition, in the order of the index manifest."""
        ...

    def partition_text(self, partition: bytes) -> str:
        """A partition as its directory path below the table, ``""`` for an unpartitioned table."""
        ...


class TaskPool(Protocol):
    """Runs tasks side by side."""

    @property
    def parallelism(self) -> int:
        """How many run at a time."""
        ...

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Results in item order; the first error is raised as it is."""
        ...


class ThreadPool:
    """Tasks in threads of this process: kernels and Arrow release the interpreter lock."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)

    @property
    def parallelism(self) -> int:
        """How many run at a time."""
        return self._threads

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Results in item order; the first error is raised as it is."""
        if self._threads == 1 or len(items) <= 1:
            return [task(item) for item in items]
        with ThreadPoolExecutor(min(self._threads, len(items))) as pool:
            return list(pool.map(task, items))


@dataclass(frozen=True, slots=True, kw_only=True)
class TagContext:
    """What a tagger works with.

    view          the table
    reader        keys of data files
    options       the table's options
    pool          where files are checked
    store         the store of the table
    index_dir     directory on it where an index may keep files of its own (never inside the table's directory)
    deletes_hide  a record of kind -D or -U as a key's newest one means that the key is gone; False for merge engines
                  that ignore deletes
    """

    view: TableView
    reader: KeyReader
    options: IndexOptions
    pool: TaskPool
    store: ObjectStore
    index_dir: str
    deletes_hide: bool = True
    descending: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TagResult:
    """Locations of n keys.

    bucket      int32[n], -1 = the key is nowhere: an insert
    partition   int32[n] position in `partitions` of where the key lives (of the row's own partition for inserts)
    partitions  the batch's partitions, then others that keys were found in
    file        int32[n] position in `files` of the newest data file with the key, -1 = not known
    """

    bucket: Int32s
    partition: Int32s
    partitions: tuple[bytes, ...]
    file: Int32s
    files: tuple[LiveFile, ...] = ()
    figures: TagFigures = field(default_factory=TagFigures)

    @property
    def known(self) -> Bools:
        """bool[n], True where the key has a location."""
        return self.bucket >= 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CommitInfo:
    """What a commit did to locations, and to files.

    instant      text that names the commit for ever (from commit user and identifier), known before it is put
    started_ms   epoch ms before anything of the commit was written
    snapshot_id  newest snapshot the commit made; None until it is there
    base_id      snapshot the batch was tagged on
    batch        keys of the batch; None for a compaction
    partition    int32[n] position in `partitions` where each row went
    bucket       int32[n]
    deleted      bool[n] rows that took their key away
    partitions   see `TagResult.partitions`
    was          what `tag` had answered
    added        data files the commit added, removed: names of those it took away
    """

    instant: str
    started_ms: int
    snapshot_id: int | None = None
    base_id: int | None = None
    batch: KeyBatch | None = None
    partition: Int32s | None = None
    bucket: Int32s | None = None
    deleted: Bools | None = None
    partitions: tuple[bytes, ...] = ()
    was: TagResult | None = None
    added: Sequence[LiveFile] = ()
    removed: Collection[str] = ()


class Tagger(Protocol):
    """One index type."""

    @property
    def name(self) -> str:
        """Its name in option ``index.type``."""
        ...

    @property
    def is_global(self) -> bool:
        """True when a key is looked for in all partitions."""
        ...

    @property
    def needs_state(self) -> bool:
        """True when it keeps something outside the table."""
        ...

    @property
    def moves_keys(self) -> bool:
        """Global indexes: a row of another partition takes its key there; False = the row goes where its key lives."""
        ...

    def tag(self, batch: KeyBatch, context: TagContext) -> TagResult:
        """Where the batch's keys live."""
        ...

    def place_inserts(self, batch: KeyBatch, context: TagContext) -> Int32s | None:
        """int32[n] bucket of each row if it is an insert; None = by the PartitionIndex rules."""
        ...

    def prepare_commit(self, commit: CommitInfo, context: TagContext) -> None:
        """Called before the snapshot is put."""
        ...

    def update_locations(self, commit: CommitInfo, context: TagContext) -> None:
        """Called when the snapshot is there."""
        ...

    def rollback(self, commit: CommitInfo, context: TagContext) -> None:
        """Called when the commit is given up; what `prepare_commit` left must not be believed any more."""
        ...


def no_locations(batch: KeyBatch, figures: TagFigures | None = None) -> TagResult:
    """The answer that every key is new."""
    n = len(batch)
    return TagResult(
        bucket=np.full(n, -1, np.int32),
        partition=batch.partition,
        partitions=batch.partitions,
        file=np.full(n, -1, np.int32),
        figures=figures or TagFigures(keys=n),
    )


def number_partitions(first: Sequence[bytes], more: Iterable[bytes]) -> tuple[tuple[bytes, ...], Mapping[bytes, int]]:
    """Partitions numbered: the batch's own first, then others as they come."""
    numbers = {p: i for i, p in enumerate(first)}
    for p in more:
        numbers.setdefault(p, len(numbers))
    return tuple(numbers), numbers


class StatelessTagger:
    """What taggers have in common that keep nothing outside the table: nothing to do around a commit."""

    needs_state = False

    def place_inserts(self, batch: KeyBatch, context: TagContext) -> Int32s | None:
        """By the PartitionIndex rules."""
        return None

    def prepare_commit(self, commit: CommitInfo, context: TagContext) -> None:
        """Nothing to record."""

    def update_locations(self, commit: CommitInfo, context: TagContext) -> None:
        """The table's own files say it all."""

    def rollback(self, commit: CommitInfo, context: TagContext) -> None:
        """Nothing was recorded."""


def record_ages(order: Sequence[pa.ChunkedArray], sequence: Int64s, *, descending: bool) -> Int64s:
    """Numbers that order records of a key as merging does: by ``sequence.field`` columns if there are any, then by sequence
    number; higher = newer.

    order     columns over all m records; null is before every value, in both directions
    sequence  int64[m]
    returns   int64[m]
    """
    if not order:
        return sequence
    direction = "descending" if descending else "ascending"
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for i, column in enumerate(order):
        columns[f"valid{i}"], columns[f"o{i}"] = column.is_valid(), column
        keys += [(f"valid{i}", "ascending"), (f"o{i}", direction)]
    table = pa.table({**columns, "sequence": pa.array(sequence)})
    sorted_rows = pc.sort_indices(table, sort_keys=[*keys, ("sequence", "ascending")]).to_numpy()
    out = np.empty(len(sequence), np.int64)
    out[sorted_rows] = np.arange(len(sequence))
    return out
