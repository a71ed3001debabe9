"""state and inmemory: the location of every key in an embedded key-value state, so that a warm one needs no read of the table.

A state is at one snapshot. Before it answers it is brought to the snapshot the batch is tagged on, by the first of
these that can be done: it is there (warm); it is behind, and only appends and compactions came since (the new files'
keys are read); a checkpoint on the object store can be restored and is behind in that way; else it is built anew from
the table. So a state that is lost, late, of another table or of a snapshot that was rolled back costs time and never
an answer.

Global: a key lives in one partition at a time; a row of another partition takes it there (`moves`).
``index.state.ttl`` makes the state forget keys that were not written for so long; a forgotten key is inserted again,
and stands in the table twice if its old record still does. ``inmemory`` is the same in this process's memory, without
checkpoints: for tests, and tables that fit.

source   Flink's org.apache.hudi.sink.partitioner.BucketAssignFunction, sink.bootstrap.BootstrapOperator, Hudi 1.0.2;
         org.apache.paimon.crosspartition.GlobalIndexAssigner, release 1.4.2
"""

from __future__ import annotations

import logging
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from lakeidx.codec.distinct import sorted_distinct
from lakeidx.errors import CommitConflictError, CorruptFileError, InternalError, NotFoundError
from lakeidx.storage.base import join
from lakeidx.tagging.base import (
    Bools,
    CommitInfo,
    Int32s,
    Int64s,
    KeyBatch,
    LiveFile,
    TagContext,
    TagResult,
    no_locations,
)
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.key_codes import KeyCodes
from lakeidx.tagging.key_set import KeySet
from lakeidx.tagging.key_state import KeyState, StateMeta
from lakeidx.tagging.state_checkpoint import CheckpointFolder
from lakeidx.tagging.state_load import Share, StateLoader
from lakeidx.tagging.state_pages import GONE, state_keys, take_rows, with_prefix
from lakeidx.tagging.state_store import DirectoryLock, MemoryStore, RocksStore, clear_directory

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86400


@dataclass(frozen=True, slots=True)
class StateAction:
    """How a state came to the snapshot it answered for.

    kind     warm, caught up, restored or rebuilt
    reason   why nothing quicker would do, "" for warm
    keys     keys read from the table
    """

    kind: str
    reason: str
    keys: int
    seconds: float


class StateTagger:
    """The state of one table, or of one assigner's share of its keys; not for use by several threads at once.

    is_global    see the module
    in_memory    keep the state in this process
    share        keys this state is responsible for; `tag` takes only those
    clock        epoch seconds, for TTL
    """

    needs_state = True

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
        self._share = share or Share()
        self._clock = clock
        self._database: RocksStore | MemoryStore | None = None
        self._lock: DirectoryLock | None = None
        self._state: KeyState | None = None
        self._checkpoints: CheckpointFolder | None = None
        self.last_action: StateAction | None = None

    # -- Tagger --------------------------------------------------------------------------------------------------------

    def tag(self, batch: KeyBatch, context: TagContext) -> TagResult:
        """Where the batch's keys live.

        errors   InternalError for a key of another assigner's share; CommitConflictError when the state is of a later
                 snapshot than the view; UnavailableError when another process keeps the state open
        """
        figures = TagFigures(keys=len(batch))
        if self._share.of > 1 and not bool(self._share.mine(batch.hashes).all()):
            raise InternalError(f"keys of another share than {self._share.id} of {self._share.of} were given")
        state = self._bring_to_snapshot(batch, context, figures)
        if not len(batch):
            return no_locations(batch, figures)
        numbers = np.array([self._number(state, p) for p in batch.partitions], np.int32)
        keys = state_keys(batch.codes)
        if not self.is_global:
            keys = with_prefix(keys, numbers[batch.partition])
        where, bucket = state.lookup(keys, expire_before=self._expire_before(context))
        known = where >= 0
        figures.found = int(known.sum())
        partitions = list(batch.partitions)
        position = {p: i for i, p in enumerate(partitions)}
        to_result = np.zeros(len(state.meta.partitions) + 1, np.int32)
        for number, text in enumerate(state.meta.partitions):
            raw = bytes.fromhex(text)
            if raw not in position:
                position[raw] = len(partitions)
                partitions.append(raw)
            to_result[number] = position[raw]
        return TagResult(
            bucket=bucket,
            partition=np.where(known, to_result[where], batch.partition).astype(np.int32),
            partitions=tuple(partitions),
            file=np.full(len(batch), -1, np.int32),
            figures=figures,
        )

    def place_inserts(self, batch: KeyBatch, context: TagContext) -> Int32s | None:
        """By the PartitionIndex rules."""
        return None

    def prepare_commit(self, commit: CommitInfo, context: TagContext) -> None:
        """The state follows the table and never goes ahead of it."""

    def update_locations(self, commit: CommitInfo, context: TagContext) -> None:
        """Take the batch's locations over, if nobody else committed in between (else the next `tag` reads what is new).

        context   its view is at the commit's snapshot
        """
        if self._state is None:
            # Another process than the one that tagged the batch may see its commit.
            self._state, _ = self._open_local(context)
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
        if every and self.name == "state":
            since = commit.snapshot_id - self._folder(context).newest()
            # Negative: that checkpoint is of a snapshot that was rolled back.
            if not 0 <= since < every:
                self.checkpoint(context)

    def rollback(self, commit: CommitInfo, context: TagContext) -> None:
        """Nothing was recorded before the commit."""

    # -- more ----------------------------------------------------------------------------------------------------------

    def bucket_counts(self, context: TagContext) -> dict[tuple[bytes, int], int]:
        """Keys per (partition, bucket) in a state that has answered, for placing new keys."""
        state = self._state
        if state is None:
            raise InternalError("the state has not been brought to a snapshot")
        counts = state.bucket_counts(expire_before=self._expire_before(context))
        return {(bytes.fromhex(state.meta.partitions[p]), b): n for (p, b), n in counts.items()}

    def checkpoint(self, context: TagContext) -> None:
        """Put the state on the object store, as that of the snapshot it is at. In-memory states have none."""
        if self._state is None or self._state.meta.snapshot_id is None or not isinstance(self._database, RocksStore):
            return
        keep = context.options.index_state_keep_checkpoints
        self._folder(context).save(self._database, self._state.meta, keep=keep)

    def close(self) -> None:
        """Release the database."""
        self._close_database()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _close_database(self) -> None:
        """Close it; its directory stays ours."""
        if isinstance(self._database, RocksStore):
            self._database.close()
        self._database, self._state = None, None

    def _hold(self, context: TagContext) -> Path:
        """The database's directory, which nobody else opens or clears until `close`."""
        directory = self._directory(context)
        if self._lock is None:
            lock = DirectoryLock(directory)
            lock.acquire(context.options.index_state_wait)
            self._lock = lock
        return directory

    # -- coming to a snapshot ------------------------------------------------------------------------------------------

    def _bring_to_snapshot(self, batch: KeyBatch, context: TagContext, figures: TagFigures) -> KeyState:
        started = time.monotonic()
        view = context.view
        loader = self._loader(batch, context)
        reason = "there is no state yet"
        if self._state is None:
            self._state, reason = self._open_local(context)
        if self._state is not None:
            missing = self._behind(self._state, context)
            if missing == "":
                return self._done("warm", "", started, 0)
            if missing is not None:
                self._catch_up(self._state, loader, context, figures)
                return self._done("caught up", missing, started, figures.rows_read)
            self._refuse_to_go_back(self._state, context)
            reason = "the state is of another table, scope or history"
        restored = self._restore(context)
        if restored is not None:
            if self._behind(restored, context) != "":
                self._catch_up(restored, loader, context, figures)
            return self._done("restored", reason, started, figures.rows_read)
        files = self._files(context)
        state = self._empty(context, sum(f.meta.row_count for f in files))
        loader.load(state, files, context, figures)
        self._at_snapshot(state, context, view.files(None))
        return self._done("rebuilt", reason, started, figures.rows_read)

    def _done(self, kind: str, reason: str, started: float, keys: int) -> KeyState:
        assert self._state is not None
        self.last_action = StateAction(kind, reason, keys, time.monotonic() - started)
        if kind != "warm":
            _log.info("key state %s (%s): %d keys read", kind, reason, keys)
        return self._state

    def _behind(self, state: KeyState, context: TagContext) -> str | None:
        """ "" when a state is at the view's snapshot, what it is behind of when it can catch up, None when it cannot."""
        meta, view = state.meta, context.view
        if (meta.table_id, meta.scope) != (view.table_id, self._scope(context)):
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

    def _refuse_to_go_back(self, state: KeyState, context: TagContext) -> None:
        """CommitConflictError when a state is of a later snapshot of the very same history: a batch that was planned before
        that snapshot would have to be planned again anyway, and the state is not thrown away for it."""
        meta, view = state.meta, context.view
        if (meta.table_id, meta.scope) != (view.table_id, self._scope(context)) or meta.snapshot_id is None:
            return
        if meta.snapshot_id > (view.snapshot_id or 0) and meta.token == view.snapshot_token(meta.snapshot_id):
            raise CommitConflictError(
                f"the key state is at snapshot {meta.snapshot_id}, the batch was planned before it: plan it again"
            )

    def _catch_up(self, state: KeyState, loader: StateLoader, context: TagContext, figures: TagFigures) -> None:
        state.begin()
        loader.catch_up(state, self._files(context), context, figures)
        self._at_snapshot(state, context, context.view.files(None))

    def _at_snapshot(self, state: KeyState, context: TagContext, files: Sequence[LiveFile]) -> None:
        meta, view = state.meta, context.view
        meta.snapshot_id = view.snapshot_id
        meta.token = None if view.snapshot_id is None else view.snapshot_token(view.snapshot_id)
        meta.files = {f.meta.file_name: [state.partition_number(f.partition), f.bucket] for f in files}
        state.commit()

    def _files(self, context: TagContext) -> list[LiveFile]:
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

    # -- databases -----------------------------------------------------------------------------------------------------

    def _open_local(self, context: TagContext) -> tuple[KeyState | None, str]:
        if self.name == "inmemory":
            return None, "there is no state yet"
        directory = self._hold(context)
        if not (directory / "CURRENT").exists():
            return None, "there is no state yet"
        try:
            self._database = self._open(directory, context)
            state = KeyState.load(self._database)
        except CorruptFileError as error:
            self._close_database()
            return None, str(error)
        if state is None:
            return None, "the state was left in the middle of a change"
        return state, ""

    def _restore(self, context: TagContext) -> KeyState | None:
        if self.name == "inmemory":
            return None
        for checkpoint in self._folder(context).readable():
            meta = StateMeta(checkpoint.table_id, checkpoint.scope, checkpoint.snapshot_id, checkpoint.token)
            if self._behind(KeyState(MemoryStore(), meta), context) is None:
                continue
            self._close_database()
            directory = self._hold(context)
            try:
                self._folder(context).restore(checkpoint, directory)
                self._database = self._open(directory, context)
                state = KeyState.load(self._database)
            except (CorruptFileError, NotFoundError) as error:
                _log.warning("checkpoint of snapshot %d is left aside: %s", checkpoint.snapshot_id, error)
                continue
            if state is not None and self._behind(state, context) is not None:
                self._state = state
                return state
        return None

    def _empty(self, context: TagContext, expected_rows: int) -> KeyState:
        self._close_database()
        meta = StateMeta(context.view.table_id, self._scope(context))
        if self.name == "inmemory":
            self._database = MemoryStore()
        else:
            directory = self._hold(context)
            clear_directory(directory)
            self._database = self._open(directory, context)
        self._state = KeyState.create(self._database, meta, expected_rows=expected_rows)
        return self._state

    def _open(self, directory: Path, context: TagContext) -> RocksStore:
        return RocksStore(directory, cache_bytes=context.options.index_state_cache_mb << 19)

    def _directory(self, context: TagContext) -> Path:
        base = context.options.index_state_dir
        root = Path(base) if base else Path(tempfile.gettempdir()) / "lakeidx-state"
        name = xxhash.xxh64_hexdigest(f"{context.view.table_id}\n{self._scope(context)}".encode())
        return root / name

    def _folder(self, context: TagContext) -> CheckpointFolder:
        if self._checkpoints is None:
            name = xxhash.xxh64_hexdigest(self._scope(context).encode())
            self._checkpoints = CheckpointFolder(context.store, join(context.index_dir, "state", name))
        return self._checkpoints

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _apply(self, state: KeyState, commit: CommitInfo, context: TagContext) -> None:
        """The batch's locations: of each key those of its last row."""
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
        """Which rows' locations are not what `tag` had said; without TTL only those need to be written."""
        was = commit.was
        assert was is not None
        assert commit.bucket is not None
        numbers = np.array([self._number(state, p) for p in was.partitions], np.int32)
        return ~((was.bucket == commit.bucket) & (numbers[was.partition] == partition))[rows]

    def _number(self, state: KeyState, partition: bytes) -> int:
        """A partition's number, one that no partition has when the state does not know it."""
        text = partition.hex()
        return state.meta.partitions.index(text) if text in state.meta.partitions else -2

    def _expire_before(self, context: TagContext) -> int:
        ttl = context.options.index_state_ttl
        return max(0, int(self._clock() - ttl * _DAY_SECONDS)) if ttl else 0

    def _scope(self, context: TagContext) -> str:
        kind = "global" if self.is_global else "partition"
        return f"{kind} {self._share.id}/{self._share.of} {context.options.index_partition_regex}"

    def _loader(self, batch: KeyBatch, context: TagContext) -> StateLoader:
        return StateLoader(
            is_global=self.is_global,
            share=self._share,
            key_types=batch.key_types,
            now=int(self._clock()),
            budget=context.options.index_state_cache_mb << 19,
        )
