"""The ports of index types, and what they work on.

A key index finds for each key of a batch where it lives now: (partition, bucket), and the data file where that is known, or
nowhere (an insert). A type is a class that implements one of two ports, and a third one where it keeps something of its own:

`Locator`                            finds keys by whatever it has
`lakeidx.key_index.joined.FileJoiner`   finds keys in data files, which this process or tasks read
`ExternalState`                      keeps locations outside the table, which follow each commit

Around the commit of a batch these are called in this order:

1.  ``tag``                before rows are placed
2.  ``prepare_commit``     before the snapshot is put: what must be on record if the process dies right after the put
3.  ``update_locations``   after the snapshot is there
4.  ``rollback``           instead of 3, when the commit is aborted

A process may die between any two of these. Whatever a key index keeps outside the table is therefore only valid as
far as the table's own snapshots confirm it.

source   org.apache.hudi.index.HoodieIndex, release 1.0.2 (tagLocation, updateLocation, rollbackCommit)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lakeidx.key_index.locations import CommitInfo, Int32s, KeyBatch, KeyLocations
from lakeidx.key_index.options import IndexOptions
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from lakeidx.key_index.keys.parquet_keys import ParquetKeyReader
    from lakeidx.key_index.table_view import SnapshotTable


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexContext:
    """Context of a key index.

    view          the table
    reader        keys of data files
    options       the table's options
    pool          where files are checked
    store         the store of the table
    index_dir     directory on it where an index may keep files of its own (never inside the table's directory)
    deletes_hide  a record of kind -D or -U as a key's newest one means that the key is gone; False for merge engines
                  that ignore deletes
    """

    view: SnapshotTable
    reader: ParquetKeyReader
    options: IndexOptions
    pool: LocalRunner
    store: ObjectStore
    index_dir: str
    deletes_hide: bool = True
    descending: bool = False


@dataclass(frozen=True, slots=True)
class TagTasks:
    """Tasks in which a key index may work for a batch.

    context   makes an `IndexContext` of the same table and snapshot; pickles
    label     of the work
    """

    runner: Runner
    context: Callable[[], IndexContext]
    label: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the runner: tasks start no others."""
        return TagTasks, (LocalRunner(), self.context, self.label)


class Locator(ABC):
    """Finds where keys live. `tag` may be called for any share of a batch's keys, in any process, several at a time.

    is_global       a key is looked for in all partitions
    moves_keys      of global ones: a row of another partition moves its key there; False: it is written where its key lives
    splits_buckets  its upkeep moves keys to other buckets: a batch then depends on the partition as a whole
    """

    is_global: bool = False
    moves_keys: bool = False
    splits_buckets: bool = False

    @abstractmethod
    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch."""

    def prepare_tag(self, context: IndexContext, tasks: TagTasks) -> None:  # noqa: B027
        """Do what `tag` needs once for the whole batch; called before several shares of it are tagged."""

    def place_inserts(self, batch: KeyBatch, context: IndexContext) -> Int32s | None:
        """Return int32[n] bucket of each row if it is an insert; None = by the PartitionIndex rules."""
        return None

    def count_keys(self, context: IndexContext) -> Mapping[tuple[bytes, int], int] | None:
        """Count the keys per (partition, bucket) after `tag`; None when it does not know."""
        return None

    def close(self) -> None:  # noqa: B027
        """Release its resources; it may be used again."""


class ExternalState(ABC):
    """Locations outside the table that follow each commit. Each method may be called with any share of a batch's keys, in any
    process, several at a time; all rows of a key are in one share.

    catches_up         the table can tell what was missed: it is not asked before a commit, a call after it that fails does no harm,
                       and it is told of compactions, too, without keys
    why_no_overwrite   why a table with it cannot be overwritten, and what to do; ``""`` when it can
    """

    catches_up: bool = False
    why_no_overwrite: str = ""

    def prepare_commit(self, commit: CommitInfo, context: IndexContext) -> None:  # noqa: B027
        """Prepare for the commit; called before the snapshot is put."""

    @abstractmethod
    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Update locations; called when the snapshot is there."""

    def rollback(self, commit: CommitInfo, context: IndexContext) -> None:  # noqa: B027
        """Roll back; called when the commit is aborted, so that what `prepare_commit` left is ignored: the next attempt commits
        under the same name.
        """


class ShareUpdate(Protocol):
    """Update of shared state by tasks; pickles, and its size does not grow with rows or with the index."""

    def route(self, commit: CommitInfo) -> tuple[pa.Table, Int32s]:
        """Return what is to be stored of some rows of the batch, and the task of each row of that, int32[n]."""
        ...

    def store(self, share: Any, rows: Iterable[pa.Table]) -> Any:
        """Store what has come to one task, in the order of the batch; the answer does not grow with rows.

        share   what that task owns, as `SharedState.begin_update` said
        """
        ...


class SharedState(ExternalState):
    """External state in shares that tasks own, which store a batch's locations. It catches up.

    `update_locations` is called for compactions alone.
    """

    catches_up = True

    @abstractmethod
    def begin_update(
        self, commit: CommitInfo, partitions: Iterable[bytes], context: IndexContext, rows: int, tasks: TagTasks
    ) -> tuple[ShareUpdate, Sequence[Any]] | None:
        """Begin to store a batch's locations in tasks.

        commit       without keys
        partitions   where its rows went
        rows         how many it has
        tasks        where the index may make room for them
        returns      what the tasks do, and for each what it owns; None when nothing is to be done
        """

    @abstractmethod
    def finish_update(self, update: Any, stored: Sequence[Any], context: IndexContext, tasks: TagTasks) -> None:
        """End an update that `begin_update` began; `stored` is what the tasks answered.

        Others may have begun and ended one in between.
        """
