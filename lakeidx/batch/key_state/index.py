"""Index types state and inmemory: the location of every key in a table beside the one that is served (`state_table`), so that a
batch reads only the buckets of its keys, and no machine has to keep anything.

A state is of one snapshot. Before it answers it is brought to the snapshot the batch is tagged on, by the first of
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
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.batch.artifacts import Target
from lakeidx.batch.key_state.load import (
    ROW_BYTES,
    LoadUnit,
    StateLoad,
    count_written,
    plan_catch_up,
    plan_load,
    run_load,
)
from lakeidx.batch.key_state.locate import Located, add_counts, count_by_place, locate_keys
from lakeidx.batch.key_state.state_table import Counts, Described, KeyState, StateTables
from lakeidx.batch.key_state.update import (
    StateUpdate,
    StoredBucket,
    columns_of_keys,
    targets_of,
    touched_by,
)
from lakeidx.errors import CommitConflictError, CorruptFileError, NotFoundError
from lakeidx.key_index.joined import FileJoiner
from lakeidx.key_index.locations import CommitInfo, KeyBatch, KeyLocations, LiveFile, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, Locator, SharedState, TagTasks
from lakeidx.storage.memory import MemoryStore
from lakeidx.table.commit.changes import merge_changes
from lakeidx.table.view import number_partitions
from lakeidx.tasks.runner import Runner

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86400
_LABEL = "key_state"
#: How often a state is looked for that others bring to newer snapshots meanwhile.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class StateAction:
    """Ways by which a state comes to the snapshot it answers for.

    kind     warm, caught up or rebuilt
    reason   why nothing quicker would do, "" for warm
    keys     keys read from the table
    """

    kind: str
    reason: str
    keys: int
    seconds: float


class StateKeyIndex(Locator, SharedState):
    """The key state of one table; not for use by several threads at once.

    is_global    see the module
    store        keeps the states; None: the table's store does
    clock        epoch seconds, for TTL
    """

    def __init__(
        self, *, is_global: bool = True, store: MemoryStore | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.is_global = self.moves_keys = is_global
        self._memory = store
        self._clock = clock
        self._state: KeyState | None = None
        self.last_action: StateAction | None = None

    # -- ports -----------------------------------------------------------------------------------------------------------

    def prepare_tag(self, context: IndexContext, tasks: TagTasks) -> None:
        """Bring the state to the view's snapshot, and put it where every `tag` finds it; tasks build one that is not there."""
        self._bring_to_snapshot(context, tasks)

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate keys: those of the batch, or any part of them; any number of processes may do so side by side.

        errors   CommitConflictError when the state is of a later snapshot than the view
        """
        metrics = IndexMetrics(keys=len(batch))
        found = self._look_up(batch, context)
        if not len(batch):
            return no_locations(batch, metrics)
        known = found.bucket >= 0
        metrics.found, metrics.rows_read = int(np.count_nonzero(known)), found.rows_read
        partitions, numbers = number_partitions(batch.partitions, found.partitions)
        to_result = np.array([*(numbers[p] for p in found.partitions), 0], np.int32)
        return KeyLocations(
            bucket=found.bucket,
            partition=np.where(known, to_result[found.partition], batch.partition).astype(np.int32, copy=False),
            partitions=partitions,
            file=np.full(len(batch), -1, np.int32),
            metrics=metrics,
            notes=self._notes(),
        )

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Take the state to the snapshot of a commit that has changed no location (else the next `tag` reads its new files).

        context   its view is at the commit's snapshot
        """
        tasks = TagTasks(context.pool, lambda: context, _LABEL)
        begun = self.begin_update(commit, commit.partitions, context, 0, tasks)
        if begun is not None:
            self.finish_update(begun[0], (), context, tasks)

    def begin_update(
        self, commit: CommitInfo, partitions: Iterable[bytes], context: IndexContext, rows: int, tasks: TagTasks
    ) -> tuple[StateUpdate, Sequence[Target]] | None:
        """Return what tasks do to store a batch's locations, and the buckets of the state.

        returns   None when another writer has committed in between: the next `tag` reads the new files
        """
        state, self._state = self._before(commit, context, rows), None
        if state is None:
            return None
        return self._update(state, context), targets_of(state, rows)

    def finish_update(
        self, update: StateUpdate, stored: Sequence[StoredBucket], context: IndexContext, tasks: TagTasks
    ) -> None:
        """Adopt what the tasks of `begin_update` wrote; a state that others have written into since is left to them."""
        try:
            with self._tables(context).superseded_is_conflict(update.state):
                self._state = self._put(update.state, stored, context, tasks.runner)
        except (CommitConflictError, CorruptFileError, NotFoundError) as error:
            _log.warning("the key state was not updated to snapshot %s: %s", context.view.snapshot_id, error)

    def count_keys(self, context: IndexContext) -> Counts | None:
        """Count keys per (partition, bucket), to place new keys."""
        state, expire_before = self._bring_to_snapshot(context), self._expire_before(context)
        if state.counts is not None and not expire_before:
            return state.counts
        with self._tables(context).superseded_is_conflict(state):
            work = [(bucket, files) for (_, bucket), files in state.view().by_bucket().items()]
            return add_counts(context.pool.map(lambda w: count_by_place(state, *w, expire_before=expire_before), work))

    def close(self) -> None:
        """Forget what was read; states in memory stay."""
        self._state = None

    # -- coming to a snapshot ------------------------------------------------------------------------------------------

    def _look_up(self, batch: KeyBatch, context: IndexContext) -> Located:
        failed = 0
        while True:
            # What one process holds may have gone for newer states; only what is found again and fails again is damaged.
            state = self._bring_to_snapshot(context, damaged=failed > 1)
            try:
                return locate_keys(state, columns_of_keys(state, batch), expire_before=self._expire_before(context))
            except (CorruptFileError, NotFoundError) as error:
                self._state = None
                # Nothing that was just written may be wrong; it goes when other programs have put newer states.
                if self.last_action is not None and self.last_action.kind == "rebuilt":
                    if isinstance(error, NotFoundError):
                        raise CommitConflictError(
                            f"the key state of snapshot {state.of.snapshot} was removed while it was read, for newer ones: "
                            "plan the batch again"
                        ) from error
                    raise
                _log.warning("ignoring the key state of snapshot %s: %s", state.of.snapshot, error)
                failed += 1

    def _bring_to_snapshot(
        self, context: IndexContext, tasks: TagTasks | None = None, *, damaged: bool = False
    ) -> KeyState:
        """Return the state at the view's snapshot.

        tasks     where it is brought there; None = in this process
        damaged   no state that is there is to be used
        """
        started, wanted = time.monotonic(), self._described(context)
        if self._state is not None and self._state.of == wanted and not damaged:
            return self._done(self._state, "warm", "", started, 0)
        failed = 0
        for _ in range(_TRIES):
            found = [] if damaged else list(self._tables(context).states())
            there = next((state for state, _ in found if state.of == wanted), None)
            if there is not None:
                return self._done(there, "warm", "", started, 0)
            behind = self._to_catch_up(found, context, tasks)
            try:
                if behind is None:
                    state, keys = self._rebuilt(wanted, context, tasks)
                    return self._done(state, "rebuilt", "there is none that belongs", started, keys)
                state, units = behind
                state = self._caught_up(state, units, context, tasks)
                reason = f"it was at snapshot {behind[0].of.snapshot} of {wanted.snapshot}"
                return self._done(state, "caught up", reason, started, sum(u.rows for u in units))
            except CommitConflictError:
                # Another program was first: what it put may be of this very snapshot.
                damaged = False
            except (CorruptFileError, NotFoundError) as error:
                if behind is None:
                    raise
                _log.warning("ignoring the key state of snapshot %s: %s", behind[0].of.snapshot, error)
                failed += 1
                damaged = failed > 1
        raise CommitConflictError("other programs changed the key state again and again: plan the batch again")

    def _to_catch_up(
        self, found: Sequence[tuple[KeyState, bool]], context: IndexContext, tasks: TagTasks | None
    ) -> tuple[KeyState, list[LoadUnit]] | None:
        """Return the state that can be brought to the view's snapshot, and what is to be read for it; None where there is none.

        errors   CommitConflictError when there is only one of a later snapshot of the same history: a batch that was
                 planned before that snapshot would have to be planned again anyway
        """
        state = next((state for state, newest in found if newest), None)
        view, wanted = context.view, self._described(context)
        if state is None or (state.of.table, state.of.scope) != (wanted.table, wanted.scope):
            return None
        at, now = state.of.snapshot, view.snapshot_id
        if at is None or now is None or state.of.token != view.snapshot_token(at):
            return None
        if at > now:
            raise CommitConflictError(
                f"the key state is at snapshot {at}, the batch was planned before it: plan it again"
            )
        if not view.kept_since(at):
            return None
        try:
            before = view.files_at(at)
        except NotFoundError:
            return None
        units = plan_catch_up(before, self._files(context), context, is_global=self.is_global)
        if units is None or not state.holds(sum(u.rows for u in units)):
            return None
        in_driver = tasks is None and self._memory is None
        if in_driver and sum(u.rows for u in units) * ROW_BYTES > context.options.index_driver_memory:
            return None
        return state, units

    def _caught_up(
        self, state: KeyState, units: Sequence[LoadUnit], context: IndexContext, tasks: TagTasks | None
    ) -> KeyState:
        rows = sum(u.rows for u in units)
        if tasks is None or rows * ROW_BYTES <= context.options.index_driver_memory:
            tasks = TagTasks(context.pool, lambda: context, _LABEL)
        load = StateLoad(self._update(state, context), tasks, False, len(units))
        with self._tables(context).superseded_is_conflict(state):
            return self._put(state, run_load(load, units, None), context, tasks.runner)

    def _rebuilt(self, wanted: Described, context: IndexContext, tasks: TagTasks | None) -> tuple[KeyState, int]:
        """Build the state of the view's snapshot from the table's key columns."""
        files = self._files(context)
        units = plan_load(files, context, is_global=self.is_global)
        rows = sum(u.rows for u in units)
        state = self._tables(context).create(context.reader.key_fields, rows, wanted, is_global=self.is_global)
        if wanted.snapshot is None:
            return state, 0
        budget = context.options.index_state_cache_mb << 20
        local = tasks is None or rows * ROW_BYTES <= budget
        if tasks is None or local:
            tasks = TagTasks(context.pool, lambda: context, _LABEL)
        load = StateLoad(self._update(state, context), tasks, True, len(units))
        with self._tables(context).superseded_is_conflict(state):
            stored = run_load(load, units, budget if local else None)
            counts = count_written(load, merge_changes(p.changes for p in stored)) if self.is_global else None
            return self._put(state, stored, context, tasks.runner, counts), rows

    def _before(self, commit: CommitInfo, context: IndexContext, rows: int) -> KeyState | None:
        """Return the state of the snapshot directly before a commit; None when it cannot be updated by the commit alone."""
        view, base = context.view, commit.base_id
        if commit.snapshot_id is None or commit.snapshot_id != view.snapshot_id:
            return None
        if commit.snapshot_id != (base or 0) + 1 or not view.kept_since(base or 0):
            return None
        own = self._described(context)
        found = list(self._tables(context).states())
        if any(state.of == own for state, _ in found):
            # It has been told already.
            return None
        before = Described(own.table, own.scope, base, None if base is None else view.snapshot_token(base))
        if base is None:
            return self._tables(context).create(context.reader.key_fields, rows, before, is_global=self.is_global)
        state = next((state for state, newest in found if newest), None)
        return state if state is not None and state.of == before and state.holds(rows) else None

    def _put(
        self,
        state: KeyState,
        stored: Sequence[StoredBucket],
        context: IndexContext,
        runner: Runner,
        counts: Counts | None = None,
    ) -> KeyState:
        """Make a state that of the view's snapshot, and put it on the store.

        errors   CommitConflictError when others have written into it since
        """
        tables = self._tables(context)
        changes = merge_changes(part.changes for part in stored)
        if counts is None:
            counts = None if state.counts is None else add_counts([state.counts, *(part.moved for part in stored)])
        made = tables.commit(state, changes, self._described(context), counts)
        ttl = context.options.index_state_ttl * _DAY_SECONDS
        return tables.upkeep(made, touched_by(stored), runner, label=_LABEL, ttl=ttl)

    def _done(self, state: KeyState, kind: str, reason: str, started: float, keys: int) -> KeyState:
        self._state = state
        self.last_action = StateAction(kind, reason, keys, time.monotonic() - started)
        if kind != "warm":
            _log.info("key state %s (%s): %d keys read", kind, reason, keys)
        return state

    def _notes(self) -> dict[str, float]:
        """Describe how the state was synchronized to the snapshot."""
        done = self.last_action
        if done is None:
            return {}
        return {f"state_{done.kind.replace(' ', '_')}": 1.0, "state_keys_read": float(done.keys)}

    # -- small things --------------------------------------------------------------------------------------------------

    def _tables(self, context: IndexContext) -> StateTables:
        # A table without a snapshot has nothing that a state could be of.
        store = self._memory or (MemoryStore() if context.view.snapshot_id is None else context.store)
        return StateTables(store, context.index_dir, keep=context.options.index_state_keep_checkpoints)

    def _files(self, context: IndexContext, partitions: Collection[bytes] | None = None) -> list[LiveFile]:
        """Return the view's data files in the partitions that a state is of, or in some of these."""
        pattern = re.compile(context.options.index_partition_regex)
        text = context.view.partition_text
        wanted: dict[bytes, bool] = {}
        out = []
        for file in context.view.files(partitions):
            if file.partition not in wanted:
                wanted[file.partition] = pattern.fullmatch(text(file.partition)) is not None
            if wanted[file.partition]:
                out.append(file)
        return out

    def _described(self, context: IndexContext) -> Described:
        """Describe the view's snapshot."""
        view, kind = context.view, "global" if self.is_global else "partition"
        keys = ", ".join(f"{f.name} {f.type}" for f in context.reader.key_fields)
        scope = f"{kind} {context.options.index_partition_regex} ({keys})"
        at = view.snapshot_id
        return Described(view.table_id, scope, at, None if at is None else view.snapshot_token(at))

    def _update(self, state: KeyState, context: IndexContext) -> StateUpdate:
        return StateUpdate(
            state,
            now=int(self._clock()),
            expire_before=self._expire_before(context),
            deletes_hide=context.deletes_hide,
            refresh=bool(context.options.index_state_ttl),
            budget=context.options.index_state_cache_mb << 20,
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
        return self._files(context, partitions)

    def count_keys(self, context: IndexContext) -> Counts | None:
        """Count keys per (partition, bucket); None where they were found in data files."""
        return None if self._state is None else super().count_keys(context)
