"""state and inmemory: the location of every key in sorted shards on the table's own store, so that a batch reads only the bytes
of its keys, and no machine has to keep anything.

A state is at one snapshot. Before it answers it is brought to the snapshot the batch is tagged on, by the first of
these that can be done: it is there (warm); it is behind, and only appends and compactions came since (the new files'
keys are read, caught up); else it is rebuilt from the table. So a state that is lost, late, of another table or of a snapshot that
was rolled back costs time and never an answer. What was read is put on the store for the next process.

Global: a key lives in one partition at a time; a row of another partition takes it there (`moves`).
``index.state.ttl`` makes the state forget keys that were not written for so long; a forgotten key is inserted again,
and is in the table twice if its old record still does. ``inmemory`` is the same in this process's memory, while the driver may hold
the table's keys. Beyond that tasks find them in the data files, each those of its share, as a state that was rebuilt answers.

source   Flink's org.apache.hudi.sink.partitioner.BucketAssignFunction, sink.bootstrap.BootstrapOperator, Hudi 1.0.2;
         org.apache.paimon.crosspartition.GlobalIndexAssigner, release 1.4.2
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.errors import CommitConflictError, CorruptFileError, InternalError, NotFoundError
from lakeidx.key_index.joined import FileJoiner
from lakeidx.key_index.locations import (
    CommitInfo,
    Int32s,
    KeyBatch,
    KeyLocations,
    LiveFile,
    no_locations,
)
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, Locator, SharedState, TagTasks
from lakeidx.key_index.state.home import StateHome
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.key_index.state.load import Share
from lakeidx.key_index.state.memory_store import MemoryStore
from lakeidx.key_index.state.scope import StateScope
from lakeidx.key_index.state.shard_runs import ShardStretch, StoredShards, stretches_of
from lakeidx.key_index.state.shared_update import StateUpdate, keys_of
from lakeidx.storage.base import name_of
from lakeidx.tasks.routed_rows import count_shares

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86400


@dataclass(frozen=True, slots=True)
class _StateAction:
    """How a state came to the snapshot it answered for.

    kind     warm, caught up or rebuilt
    reason   why nothing quicker would do, "" for warm
    keys     keys read from the table
    """

    kind: str
    reason: str
    keys: int
    seconds: float


def _superseded(state: KeyState) -> CommitConflictError:
    return CommitConflictError(
        f"the key state of snapshot {state.snapshot_id} was removed while it was read, for newer ones: plan the batch again"
    )


class StateKeyIndex(Locator, SharedState):
    """The state of one table, or of one assigner's share of its keys; not for use by several threads at once.

    is_global    see the module
    store        keeps the states; None: the table's store does
    share        keys this state is responsible for; `tag` takes only those
    clock        epoch seconds, for TTL
    """

    def __init__(
        self,
        *,
        is_global: bool = True,
        store: MemoryStore | None = None,
        share: Share | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.is_global = is_global
        self.moves_keys = is_global
        self._share = share or Share()
        self._home = StateHome(StateScope(is_global, self._share), store, clock)
        self._clock = clock
        self._state: KeyState | None = None
        self._updated: KeyState | None = None
        self.last_action: _StateAction | None = None

    # -- ports -----------------------------------------------------------------------------------------------------------

    def prepare_tag(self, context: IndexContext, tasks: TagTasks) -> None:
        """Bring the state to the view's snapshot, and put it where every `tag` finds it; tasks build one that is not there."""
        self._bring_to_snapshot(context, IndexMetrics(), set(), tasks)

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate keys: those of the batch, or any part of them; any number of processes may do so side by side.

        errors   InternalError for a key of another assigner's share; CommitConflictError when the state is of a later
                 snapshot than the view
        """
        metrics = IndexMetrics(keys=len(batch))
        share = self._share
        if share.of > 1 and not bool(share.mine(batch.hashes).all()):
            raise InternalError(f"keys of another share than {share.id} of {share.of} were given")
        state, where, bucket = self._look_up(batch, context, metrics)
        if not len(batch):
            return no_locations(batch, metrics)
        known = where >= 0
        metrics.found = int(np.count_nonzero(known))
        partitions = list(batch.partitions)
        position = {p: i for i, p in enumerate(partitions)}
        to_result = np.zeros(len(state.partitions) + 1, np.int32)
        for number, raw in enumerate(state.partitions):
            if raw not in position:
                position[raw] = len(partitions)
                partitions.append(raw)
            to_result[number] = position[raw]
        return KeyLocations(
            bucket=bucket,
            partition=np.where(known, to_result[where], batch.partition).astype(np.int32, copy=False),
            partitions=tuple(partitions),
            file=np.full(len(batch), -1, np.int32),
            metrics=metrics,
            notes=self._notes(state),
        )

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Store the batch's locations, if no other writer committed in between (else the next `tag` reads the new files).

        context   its view is at the commit's snapshot
        """
        state = self._home.before(self._state, commit, context)
        if state is None:
            return
        self._state = None
        try:
            if commit.batch is not None and len(commit.batch):
                update = self._update(state, commit.partitions, context, 1)
                entries, before = update.entries_of(commit)
                state.write(entries, was=before, expire_before=update.expire_before)
        except (CorruptFileError, NotFoundError) as error:
            _log.warning("the key state was not updated to snapshot %d: %s", commit.snapshot_id, error)
            return
        self._state = self._home.at_snapshot(state, context)

    def begin_update(
        self, commit: CommitInfo, partitions: Iterable[bytes], context: IndexContext, rows: int, tasks: TagTasks
    ) -> tuple[StateUpdate, list[ShardStretch]] | None:
        """Return what tasks do to store a batch's locations, and the shards of each.

        returns   None when the next `tag` reads the new files
        """
        state = self._home.before(self._state, commit, context)
        if state is None:
            return None
        self._state = None
        self._updated = state
        # Tasks own whole shards, and none is to be split in this process afterwards.
        state.make_room(rows, tasks.runner, label=tasks.label, expire_before=self._expire_before(context))
        count = count_shares(rows, tasks.runner.parallelism)
        update = self._update(state, partitions, context, count)
        return update, stretches_of(state.shards, update.tasks)

    def finish_update(self, stored: Sequence[StoredShards], context: IndexContext) -> None:
        """Adopt what the tasks of `begin_update` wrote."""
        state, self._updated = self._updated, None
        if state is None:
            raise InternalError("finish_update of the key state without begin_update")
        state.adopt(stored, expire_before=self._expire_before(context))
        self._state = self._home.at_snapshot(state, context)

    def count_keys(self, context: IndexContext) -> dict[tuple[bytes, int], int] | None:
        """Count keys per (partition, bucket), to place new keys."""
        state = self._bring_to_snapshot(context, IndexMetrics(), set())
        counts = state.bucket_counts(expire_before=self._expire_before(context))
        return {(state.partitions[p], b): n for (p, b), n in counts.items()}

    def close(self) -> None:
        """Forget what was read; states in memory stay."""
        self._state = None

    # -- coming to a snapshot ------------------------------------------------------------------------------------------

    def _look_up(
        self, batch: KeyBatch, context: IndexContext, metrics: IndexMetrics
    ) -> tuple[KeyState, Int32s, Int32s]:
        damaged: set[str] = set()
        while True:
            state = self._bring_to_snapshot(context, metrics, damaged)
            try:
                where, bucket = self._located(state, batch, context)
            except (CorruptFileError, NotFoundError) as error:
                # Nothing that was just written may be wrong; it goes when other programs have put newer states.
                if self.last_action is None or self.last_action.kind == "rebuilt":
                    if isinstance(error, NotFoundError):
                        raise _superseded(state) from error
                    raise
                _log.warning("ignoring the key state of snapshot %s: %s", state.snapshot_id, error)
                damaged.add(name_of(error.path or ""))
                self._state = None
                continue
            metrics.bytes_read += state.files.bytes_read
            return state, where, bucket

    def _located(self, state: KeyState, batch: KeyBatch, context: IndexContext) -> tuple[Int32s, Int32s]:
        numbers = np.array([state.known_number(p) for p in batch.partitions], np.int32)
        own = numbers[batch.partition] if len(batch) else np.zeros(0, np.int32)
        hashes, keys = keys_of(batch, own, is_global=self.is_global)
        return state.lookup(hashes, keys, own, expire_before=self._expire_before(context))

    def _bring_to_snapshot(
        self, context: IndexContext, metrics: IndexMetrics, damaged: set[str], tasks: TagTasks | None = None
    ) -> KeyState:
        """Return the state at the view's snapshot.

        damaged   names of files that no state may use
        """
        started = time.monotonic()
        found = self._home.there(self._state, context, damaged)
        if found is not None:
            self._state = found
            return self._done(found, "warm", "", started, 0)
        state, missing = self._home.caught_up(context, metrics, damaged, tasks)
        if state is not None:
            self._state = state
            return self._done(state, "caught up", missing, started, metrics.rows_read)
        self._state = state = self._home.rebuilt(context, metrics, tasks)
        return self._done(state, "rebuilt", "there is none that belongs", started, metrics.rows_read)

    def _done(self, state: KeyState, kind: str, reason: str, started: float, keys: int) -> KeyState:
        self.last_action = _StateAction(kind, reason, keys, time.monotonic() - started)
        if kind != "warm":
            _log.info("key state %s (%s): %d keys read", kind, reason, keys)
        return state

    def _notes(self, state: KeyState) -> dict[str, float]:
        """Describe how the state was synchronized to the snapshot, and what of it was read."""
        done = self.last_action
        if done is None:
            return {}
        return {
            f"state_{done.kind.replace(' ', '_')}": 1.0,
            "state_keys_read": float(done.keys),
            "state_requests": float(state.files.requests),
        }

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _update(self, state: KeyState, partitions: Iterable[bytes], context: IndexContext, tasks: int) -> StateUpdate:
        """Describe a batch's update of a state; number its partitions."""
        for partition in partitions:
            state.partition_number(partition)
        return StateUpdate(
            files=state.files,
            partitions={p: i for i, p in enumerate(state.partitions)},
            bits=state.bits,
            state_rows=state.rows,
            is_global=self.is_global,
            now=int(self._clock()),
            expire_before=self._expire_before(context),
            deletes_hide=context.deletes_hide,
            changes_only=not self.is_global and not context.options.index_state_ttl,
            tasks=min(tasks, 1 << state.bits),
        )

    def _expire_before(self, context: IndexContext) -> int:
        ttl = context.options.index_state_ttl
        return max(0, int(self._clock() - ttl * _DAY_SECONDS)) if ttl else 0


class MemoryKeyIndex(StateKeyIndex, FileJoiner):
    """A state in the memory of the process that places batches; where tasks place them, they read the keys of data files."""

    def __init__(self, *, is_global: bool = True) -> None:
        super().__init__(is_global=is_global, store=MemoryStore())

    def files_to_join(self, partitions: Collection[bytes] | None, context: IndexContext) -> Sequence[LiveFile]:
        """Return the files of the partitions that a state is of."""
        return self._home.files(context, partitions)

    def count_keys(self, context: IndexContext) -> dict[tuple[bytes, int], int] | None:
        """Count keys per (partition, bucket); None where they were found in data files."""
        return None if self._state is None else super().count_keys(context)
