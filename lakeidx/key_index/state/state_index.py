"""state and inmemory: the location of every key in an embedded key-value state, so that a warm one needs no read of the table.

A state is at one snapshot. Before it answers it is brought to the snapshot the batch is tagged on, by the first of
these that can be done: it is there (warm); it is behind, and only appends and compactions came since (the new files'
keys are read); a checkpoint on the object store can be restored and is behind in that way; else it is rebuilt from
the table. So a state that is lost, late, of another table or of a snapshot that was rolled back costs time and never
an answer.

Global: a key lives in one partition at a time; a row of another partition takes it there (`moves`).
``index.state.ttl`` makes the state forget keys that were not written for so long; a forgotten key is inserted again,
and is in the table twice if its old record still does. ``inmemory`` is the same in this process's memory, without
checkpoints: for tests, and tables that fit.

source   Flink's org.apache.hudi.sink.partitioner.BucketAssignFunction, sink.bootstrap.BootstrapOperator, Hudi 1.0.2;
         org.apache.paimon.crosspartition.GlobalIndexAssigner, release 1.4.2
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lakeidx.codec.distinct import sorted_distinct
from lakeidx.errors import CommitConflictError, InternalError
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import (
    Bools,
    CommitInfo,
    Int32s,
    Int64s,
    KeyBatch,
    KeyLocations,
    LiveFile,
    no_locations,
)
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, KeyIndexDefaults
from lakeidx.key_index.state.home import StateHome, StateScope
from lakeidx.key_index.state.key_state import KeyState, StateMeta
from lakeidx.key_index.state.load import Share, StateLoader
from lakeidx.key_index.state.pages import GONE, state_keys, take_rows, with_prefix

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86400


@dataclass(frozen=True, slots=True)
class _StateAction:
    """How a state came to the snapshot it answered for.

    kind     warm, caught up, restored or rebuilt
    reason   why nothing quicker would do, "" for warm
    keys     keys read from the table
    """

    kind: str
    reason: str
    keys: int
    seconds: float


class StateKeyIndex(KeyIndexDefaults):
    """The state of one table, or of one assigner's share of its keys; not for use by several threads at once.

    is_global    see the module
    in_memory    keep the state in this process
    share        keys this state is responsible for; `tag` takes only those
    clock        epoch seconds, for TTL
    """

    has_external_state = True
    catches_up = True
    follows_compactions = True

    def __init__(
        self,
        *,
        is_global: bool = True,
        in_memory: bool = False,
        share: Share | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.is_global = is_global
        self.moves_keys = is_global
        self.name = "inmemory" if in_memory else "state"
        self._scope = StateScope(is_global, share or Share())
        self._home = StateHome(self._scope, in_memory=in_memory)
        self._clock = clock
        self._state: KeyState | None = None
        self.last_action: _StateAction | None = None

    # -- KeyIndex --------------------------------------------------------------------------------------------------------

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch.

        errors   InternalError for a key of another assigner's share; CommitConflictError when the state is of a later
                 snapshot than the view; UnavailableError when another process keeps the state open
        """
        metrics = IndexMetrics(keys=len(batch))
        share = self._scope.share
        if share.of > 1 and not bool(share.mine(batch.hashes).all()):
            raise InternalError(f"keys of another share than {share.id} of {share.of} were given")
        state = self._bring_to_snapshot(batch, context, metrics)
        if not len(batch):
            return no_locations(batch, metrics)
        numbers = np.array([self._number(state, p) for p in batch.partitions], np.int32)
        keys = state_keys(batch.codes)
        if not self.is_global:
            keys = with_prefix(keys, numbers[batch.partition])
        where, bucket = state.lookup(keys, expire_before=self._expire_before(context))
        known = where >= 0
        metrics.found = int(known.sum())
        partitions = list(batch.partitions)
        position = {p: i for i, p in enumerate(partitions)}
        to_result = np.zeros(len(state.meta.partitions) + 1, np.int32)
        for number, text in enumerate(state.meta.partitions):
            raw = bytes.fromhex(text)
            if raw not in position:
                position[raw] = len(partitions)
                partitions.append(raw)
            to_result[number] = position[raw]
        return KeyLocations(
            bucket=bucket,
            partition=np.where(known, to_result[where], batch.partition).astype(np.int32),
            partitions=tuple(partitions),
            file=np.full(len(batch), -1, np.int32),
            metrics=metrics,
            notes=self._notes(),
        )

    def _notes(self) -> dict[str, float]:
        """Describe how the state was synchronized to the snapshot."""
        done = self.last_action
        if done is None:
            return {}
        return {f"state_{done.kind.replace(' ', '_')}": 1.0, "state_keys_read": float(done.keys)}

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Store the batch's locations, if no other writer committed in between (else the next `tag` reads the new files).

        context   its view is at the commit's snapshot
        """
        if self._state is None:
            # Another process than the one that tagged the batch may see its commit.
            self._state, _ = self._home.open_local(context)
        state = self._state
        if state is None or state.meta.snapshot_id != commit.base_id or commit.snapshot_id is None:
            return
        files = context.view.files(None)
        live = {f.meta.file_name for f in files}
        known = (set(state.meta.files) | {f.meta.file_name for f in commit.added}) - set(commit.removed)
        if live != known or state.meta.table_id != context.view.table_id:
            return
        state.begin()
        if commit.batch is not None and len(commit.batch):
            self._apply(state, commit, context)
        self._at_snapshot(state, context, files)
        every = context.options.index_state_checkpoint_every
        if every and not self._home.in_memory:
            since = commit.snapshot_id - self._home.newest_checkpoint(context)
            # Negative: that checkpoint is of a snapshot that was rolled back.
            if not 0 <= since < every:
                self.checkpoint(context)

    # -- more ----------------------------------------------------------------------------------------------------------

    def count_keys(self, context: IndexContext) -> dict[tuple[bytes, int], int]:
        """Count keys per (partition, bucket) of a loaded state, to place new keys."""
        state = self._state
        if state is None:
            raise InternalError("the key state has not been synchronized to a snapshot")
        counts = state.bucket_counts(expire_before=self._expire_before(context))
        return {(bytes.fromhex(state.meta.partitions[p]), b): n for (p, b), n in counts.items()}

    def checkpoint(self, context: IndexContext) -> None:
        """Upload the state to the object store as a checkpoint of its snapshot. In-memory states have none."""
        if self._state is not None and self._state.meta.snapshot_id is not None:
            self._home.save(self._state, context)

    def close(self) -> None:
        """Release the database."""
        self._home.close()
        self._state = None

    # -- coming to a snapshot ------------------------------------------------------------------------------------------

    def _bring_to_snapshot(self, batch: KeyBatch, context: IndexContext, metrics: IndexMetrics) -> KeyState:
        started = time.monotonic()
        loader = self._loader(batch, context)
        reason = "there is no state yet"
        if self._state is None:
            self._state, reason = self._home.open_local(context)
        if self._state is not None:
            missing = self._behind(self._state.meta, context)
            if missing == "":
                return self._done("warm", "", started, 0)
            if missing is not None:
                self._catch_up(self._state, loader, context, metrics)
                return self._done("caught up", missing, started, metrics.rows_read)
            self._refuse_to_go_back(self._state, context)
            reason = "the state is of another table, scope or history"
        self._state = self._home.restore(context, lambda meta: self._behind(meta, context) is not None)
        if self._state is not None:
            if self._behind(self._state.meta, context) != "":
                self._catch_up(self._state, loader, context, metrics)
            return self._done("restored", reason, started, metrics.rows_read)
        files = self._files(context)
        self._state = self._home.empty(context, sum(f.meta.row_count for f in files))
        loader.load(self._state, files, context, metrics)
        self._at_snapshot(self._state, context, context.view.files(None))
        return self._done("rebuilt", reason, started, metrics.rows_read)

    def _done(self, kind: str, reason: str, started: float, keys: int) -> KeyState:
        assert self._state is not None
        self.last_action = _StateAction(kind, reason, keys, time.monotonic() - started)
        if kind != "warm":
            _log.info("key state %s (%s): %d keys read", kind, reason, keys)
        return self._state

    def _behind(self, meta: StateMeta, context: IndexContext) -> str | None:
        """Compare a state with the view's snapshot: "" when it is there, what it lacks if it can catch up, None if it cannot."""
        view = context.view
        if (meta.table_id, meta.scope) != (view.table_id, self._scope.text(context)):
            return None
        if meta.snapshot_id is None or view.snapshot_id is None:
            return "" if meta.snapshot_id == view.snapshot_id else None
        if meta.snapshot_id > view.snapshot_id or meta.token != view.snapshot_token(meta.snapshot_id):
            return None
        if meta.snapshot_id == view.snapshot_id:
            return ""
        if not view.kept_since(meta.snapshot_id):
            return None
        return f"it was at snapshot {meta.snapshot_id} of {view.snapshot_id}"

    def _refuse_to_go_back(self, state: KeyState, context: IndexContext) -> None:
        """Raise CommitConflictError when a state is of a later snapshot of the very same history: a batch that was
        planned before that snapshot would have to be planned again anyway, and the state is not thrown away for it.
        """
        meta, view = state.meta, context.view
        if (meta.table_id, meta.scope) != (view.table_id, self._scope.text(context)) or meta.snapshot_id is None:
            return
        there = view.snapshot_token(meta.snapshot_id)
        if meta.snapshot_id > (view.snapshot_id or 0) and there is not None and there == meta.token:
            raise CommitConflictError(
                f"the key state is at snapshot {meta.snapshot_id}, the batch was planned before it: plan it again"
            )

    def _catch_up(self, state: KeyState, loader: StateLoader, context: IndexContext, metrics: IndexMetrics) -> None:
        state.begin()
        loader.catch_up(state, self._files(context), context, metrics)
        self._at_snapshot(state, context, context.view.files(None))

    def _at_snapshot(self, state: KeyState, context: IndexContext, files: Sequence[LiveFile]) -> None:
        meta, view = state.meta, context.view
        meta.snapshot_id = view.snapshot_id
        meta.token = None if view.snapshot_id is None else view.snapshot_token(view.snapshot_id)
        meta.files = {f.meta.file_name: [state.partition_number(f.partition), f.bucket] for f in files}
        state.commit()

    def _files(self, context: IndexContext) -> list[LiveFile]:
        pattern = re.compile(context.options.index_partition_regex)
        text = context.view.partition_text
        wanted: dict[bytes, bool] = {}
        out = []
        for file in context.view.files(None):
            if file.partition not in wanted:
                wanted[file.partition] = pattern.fullmatch(text(file.partition)) is not None
            if wanted[file.partition]:
                out.append(file)
        return out

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _apply(self, state: KeyState, commit: CommitInfo, context: IndexContext) -> None:
        """Collect the batch's locations: of each key those of its last row."""
        batch = commit.batch
        assert batch is not None
        assert commit.partition is not None
        assert commit.bucket is not None
        numbers = np.array([state.partition_number(p) for p in commit.partitions], np.int32)
        partition, bucket = numbers[commit.partition], commit.bucket
        keys = state_keys(batch.codes)
        if not self.is_global:
            keys = with_prefix(keys, partition)
        elif commit.deleted is not None and context.deletes_hide:
            partition = np.where(commit.deleted, GONE, partition).astype(np.int32)
        last = np.empty(len(batch), np.int64)
        first = KeySet(KeyCodes(rows=keys)).first
        last[first] = np.arange(len(batch))
        rows = sorted_distinct(last[first])
        if not context.options.index_state_ttl and commit.was is not None:
            rows = rows[self._changed(state, commit, rows, partition)]
        state.write(
            take_rows(keys, rows),
            partition[rows],
            bucket[rows].astype(np.int32),
            now=int(self._clock()),
            expire_before=self._expire_before(context),
        )

    def _changed(self, state: KeyState, commit: CommitInfo, rows: Int64s, partition: Int32s) -> Bools:
        """Return rows whose locations differ from those of `tag`; without TTL only those need to be written."""
        was = commit.was
        assert was is not None
        assert commit.bucket is not None
        numbers = np.array([self._number(state, p) for p in was.partitions], np.int32)
        found: Bools = ~((was.bucket == commit.bucket) & (numbers[was.partition] == partition))[rows]
        return found

    def _number(self, state: KeyState, partition: bytes) -> int:
        """Return a partition's number, one that no partition has when the state does not know it."""
        text = partition.hex()
        return state.meta.partitions.index(text) if text in state.meta.partitions else -2

    def _expire_before(self, context: IndexContext) -> int:
        ttl = context.options.index_state_ttl
        return max(0, int(self._clock() - ttl * _DAY_SECONDS)) if ttl else 0

    def _loader(self, batch: KeyBatch, context: IndexContext) -> StateLoader:
        return StateLoader(
            is_global=self.is_global,
            share=self._scope.share,
            key_types=batch.key_types,
            now=int(self._clock()),
            budget=context.options.index_state_cache_mb << 19,
        )
