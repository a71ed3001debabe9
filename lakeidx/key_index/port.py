"""The port of key indexes: the interface of every index type, and the view of the table it works on.

A **key index** answers for each key of a batch where it lives now: (partition, bucket), and the data file where that is
known, or nowhere (an insert). Around the commit of a batch it is called in this order:

1.  ``tag``                before rows are placed
2.  ``prepare_commit``     before the snapshot is put: what must be on record if the process dies right after the put
3.  ``update_locations``   after the snapshot is there; or ``begin_update``, what it gives in tasks, and ``finish_update``
4.  ``rollback``           instead of 3, when the commit is aborted

A process may die between any two of these. Whatever a key index keeps outside the table is therefore only valid as
far as the table's own snapshots confirm it.

source   org.apache.hudi.index.HoodieIndex, release 1.0.2 (tagLocation, updateLocation, rollbackCommit)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakeidx.errors import InternalError
from lakeidx.key_index.keys.ranges import Candidates
from lakeidx.key_index.keys.reader import KeyReader
from lakeidx.key_index.locations import CommitInfo, Int32s, KeyBatch, KeyLocations, LiveFile, Matches
from lakeidx.key_index.options import IndexOptions
from lakeidx.storage.base import ObjectStore
from lakeidx.table.key_buckets import KeyBuckets
from lakeidx.tasks.runner import LocalRunner, Runner


class TableView(Protocol):
    """The table as of the snapshot a batch is tagged on."""

    @property
    def table_id(self) -> str:
        """Identity of the table, different for one of the same path that was dropped and created again."""
        ...

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot; None for a table without one."""
        ...

    def snapshot_token(self, snapshot_id: int) -> str | None:
        """Return a token that differs for another snapshot of the same id (after a rollback); None when it no longer exists."""
        ...

    def kept_since(self, snapshot_id: int) -> bool:
        """Return True when all snapshots after it only added rows and compacted files; False when one replaced or dropped rows, or
        cannot be seen any more.
        """
        ...

    def is_committed(self, instants: Sequence[str]) -> list[bool]:
        """Return which of the commits that `CommitInfo.instant` names made it into the table, expired snapshots included."""
        ...

    def confirm(self, instant: str) -> None:
        """Record that a commit is in the table, so that `is_committed` finds it after its snapshot has expired."""
        ...

    def files(self, partitions: Collection[bytes] | None) -> Sequence[LiveFile]:
        """Return the live data files of some partitions, None = of all."""
        ...

    def files_at(self, snapshot_id: int) -> Sequence[LiveFile]:
        """Return the live data files of all partitions at another snapshot.

        errors   NotFoundError when it has expired
        """
        ...

    def key_buckets(self, partition: bytes, hashes: Int32s, *, threads: int = 1) -> KeyBuckets:
        """Read the HASH index of a partition for some hashes.

        threads   index files read at a time
        """
        ...

    def partition_text(self, partition: bytes) -> str:
        """Format a partition as its directory path below the table, ``""`` for an unpartitioned table."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexContext:
    """What a key index works with.

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
    pool: LocalRunner
    store: ObjectStore
    index_dir: str
    deletes_hide: bool = True
    descending: bool = False


@dataclass(frozen=True, slots=True)
class TagTasks:
    """Where work for a batch may be done, other than in this process.

    context   makes an `IndexContext` of the same table and snapshot; pickles
    label     of the work
    """

    runner: Runner
    context: Callable[[], IndexContext]
    label: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the runner: tasks start no others."""
        return TagTasks, (LocalRunner(), self.context, self.label)


class ShareUpdate(Protocol):
    """How tasks store a batch's locations; pickles, and its size does not grow with rows or with the index."""

    def route(self, commit: CommitInfo) -> tuple[pa.Table, Int32s]:
        """Return what is to be stored of some rows of the batch, and the task of each row of that, int32[n]."""
        ...

    def store(self, share: Any, rows: Iterable[pa.Table]) -> Any:
        """Store what has come to one task, in the order of the batch; the answer does not grow with rows.

        share   what that task owns, as `KeyIndex.begin_update` said
        """
        ...


class KeyIndex(Protocol):
    """One index type. What differs between types is an attribute here, never a test of name or class; `KeyIndexDefaults` has the
    usual answers.
    """

    @property
    def name(self) -> str:
        """Its name in option ``index.type``."""
        ...

    @property
    def needs_keys(self) -> bool:
        """True when it reads keys; False when it uses only hashes, and placing through the HASH index finds them."""
        ...

    @property
    def is_global(self) -> bool:
        """True when a key is looked for in all partitions."""
        ...

    @property
    def has_external_state(self) -> bool:
        """True when it keeps state outside the table that must be updated with every batch's keys."""
        ...

    @property
    def in_shares(self) -> bool:
        """True when `tag` may be called for any share of a batch's keys, in any process, several at a time."""
        ...

    @property
    def holds_keys(self) -> bool:
        """True when `tag` loads the keys of the whole table into this process; they count for the driver's budget."""
        ...

    @property
    def joins_files(self) -> bool:
        """True when keys may be found by reading data files: tasks then read them, and `lakeidx.key_index.joined` locates."""
        ...

    def files_to_join(self, partitions: Collection[bytes] | None, context: IndexContext) -> Sequence[LiveFile]:
        """Return the data files of some partitions (None = of all) whose keys are looked at; of those that join files."""
        ...

    @property
    def narrows_files(self) -> bool:
        """True when `candidates` and `check_file` select the files to read for each key; of types that join files."""
        ...

    def prepare_tag(self, context: IndexContext, tasks: TagTasks) -> None:
        """Do what `tag` needs once for the whole batch; called before several shares of it are tagged."""
        ...

    def candidates(self, batch: KeyBatch, files: Sequence[LiveFile], context: IndexContext) -> Candidates:
        """Return the keys that each file may have, without reading files."""
        ...

    def check_file(self, batch: KeyBatch, file: LiveFile, context: IndexContext) -> Matches:
        """Return which of the keys a file has, its partition's or of all partitions."""
        ...

    @property
    def moves_keys(self) -> bool:
        """Global indexes: True when a row of another partition moves its key there; False when the row is written where its key
        lives.
        """
        ...

    @property
    def catches_up(self) -> bool:
        """True when a call after a commit that fails does no harm: the next batch brings it up to date."""
        ...

    @property
    def follows_compactions(self) -> bool:
        """True when `update_locations` is to be called for compactions, too."""
        ...

    @property
    def why_no_overwrite(self) -> str:
        """Why a table with it cannot be overwritten, and what to do; ``""`` when it can."""
        ...

    def follows_commits(self, options: IndexOptions) -> bool:
        """Return True when `update_locations` is to be called although it has no external state."""
        ...

    def splits_buckets(self, options: IndexOptions) -> bool:
        """Return True when its upkeep moves keys to other buckets: a batch then depends on the partition as a whole."""
        ...

    def count_keys(self, context: IndexContext) -> Mapping[tuple[bytes, int], int] | None:
        """Count the keys per (partition, bucket) after `tag`; None when it does not know."""
        ...

    def close(self) -> None:
        """Release its resources; it may be used again."""
        ...

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch."""
        ...

    def place_inserts(self, batch: KeyBatch, context: IndexContext) -> Int32s | None:
        """Return int32[n] bucket of each row if it is an insert; None = by the PartitionIndex rules."""
        ...

    def prepare_commit(self, commit: CommitInfo, context: IndexContext) -> None:
        """Prepare for the commit; called before the snapshot is put."""
        ...

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Update locations; called when the snapshot is there."""
        ...

    @property
    def prepares_commits(self) -> bool:
        """True when `prepare_commit` and `rollback` do something with the batch's keys."""
        ...

    @property
    def notified_in_shares(self) -> bool:
        """True when `prepare_commit`, `update_locations` and `rollback` may be called with any share of a batch's keys, in any
        process, several at a time; all rows of a key are in one share.
        """
        ...

    @property
    def updates_in_shares(self) -> bool:
        """True when tasks may store a batch's locations (`begin_update`), instead of `update_locations`."""
        ...

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
        ...

    def finish_update(self, stored: Sequence[Any], context: IndexContext) -> None:
        """End what `begin_update` began; `stored` is what the tasks answered."""
        ...

    def rollback(self, commit: CommitInfo, context: IndexContext) -> None:
        """Roll back; called when the commit is aborted, so that what `prepare_commit` left is ignored from now on."""
        ...


class KeyIndexDefaults:
    """What most key indexes have in common: they keep nothing outside the table, so there is nothing to do around a commit."""

    needs_keys = True
    in_shares = False
    holds_keys = False
    joins_files = False
    narrows_files = False
    has_external_state = False
    prepares_commits = True
    notified_in_shares = False
    updates_in_shares = False
    catches_up = False
    follows_compactions = False
    why_no_overwrite = ""

    def follows_commits(self, options: IndexOptions) -> bool:
        """Return False: nothing outside the table follows commits."""
        return False

    def splits_buckets(self, options: IndexOptions) -> bool:
        """Return False: a key stays in its bucket."""
        return False

    def prepare_tag(self, context: IndexContext, tasks: TagTasks) -> None:
        """Do nothing: shares have nothing in common."""

    def files_to_join(self, partitions: Collection[bytes] | None, context: IndexContext) -> Sequence[LiveFile]:
        """Return all of them."""
        return context.view.files(partitions)

    def candidates(self, batch: KeyBatch, files: Sequence[LiveFile], context: IndexContext) -> Candidates:
        """Refuse: files are not narrowed."""
        raise InternalError("this index type does not narrow files")

    def check_file(self, batch: KeyBatch, file: LiveFile, context: IndexContext) -> Matches:
        """Refuse: files are not narrowed."""
        raise InternalError("this index type does not narrow files")

    def count_keys(self, context: IndexContext) -> Mapping[tuple[bytes, int], int] | None:
        """Return None: not known."""
        return None

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def place_inserts(self, batch: KeyBatch, context: IndexContext) -> Int32s | None:
        """Return None: inserts are placed by the PartitionIndex rules."""
        return None

    def prepare_commit(self, commit: CommitInfo, context: IndexContext) -> None:
        """Do nothing: there is nothing to record."""

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Do nothing: everything is in the table's own files."""

    def begin_update(
        self, commit: CommitInfo, partitions: Iterable[bytes], context: IndexContext, rows: int, tasks: TagTasks
    ) -> tuple[ShareUpdate, Sequence[Any]] | None:
        """Refuse: tasks store nothing."""
        raise InternalError("this index type is not updated in shares")

    def finish_update(self, stored: Sequence[Any], context: IndexContext) -> None:
        """Refuse: tasks store nothing."""
        raise InternalError("this index type is not updated in shares")

    def rollback(self, commit: CommitInfo, context: IndexContext) -> None:
        """Do nothing: nothing was recorded."""
