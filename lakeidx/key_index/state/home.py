"""Where a key state lies: its database in a locked directory of this machine (or in memory), and its checkpoints on the store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import xxhash

from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.state.checkpoint import CheckpointFolder
from lakeidx.key_index.state.key_state import KeyState, StateMeta
from lakeidx.key_index.state.load import Share
from lakeidx.key_index.state.store import DirectoryLock, MemoryStore, RocksStore, clear_directory
from lakeidx.storage.base import join
from lakeidx.storage.private_dir import private_cache

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateScope:
    """Which keys of a table a state holds.

    is_global  a key lives in one partition at a time
    share      the part of the keys that is this state's
    """

    is_global: bool
    share: Share

    def text(self, context: IndexContext) -> str:
        """Name the scope; states of different scopes never replace each other."""
        kind = "global" if self.is_global else "partition"
        return f"{kind} {self.share.id}/{self.share.of} {context.options.index_partition_regex}"

    def digest(self, context: IndexContext, *, table_id: str | None = None) -> str:
        """Shorten the scope, of one table when given, to a directory's name."""
        text = self.text(context) if table_id is None else f"{table_id}\n{self.text(context)}"
        return xxhash.xxh64_hexdigest(text.encode())


class StateHome:
    """The database of one state and what it is restored from; not for use by several threads at once.

    in_memory  keep the state in this process: no directory, no lock, no checkpoints
    """

    def __init__(self, scope: StateScope, *, in_memory: bool) -> None:
        self.scope = scope
        self.in_memory = in_memory
        self._database: RocksStore | MemoryStore | None = None
        self._lock: DirectoryLock | None = None
        self._checkpoints: CheckpointFolder | None = None

    def open_local(self, context: IndexContext) -> tuple[KeyState | None, str]:
        """Open the state that this machine has; else say why there is none.

        errors   UnavailableError when another process keeps it open
        """
        if self.in_memory:
            return None, "there is no state yet"
        directory = self._hold(context)
        if not (directory / "CURRENT").exists():
            return None, "there is no state yet"
        self._close_database()
        try:
            self._database = self._open(directory, context)
            state = KeyState.load(self._database)
        except CorruptFileError as error:
            self._close_database()
            return None, str(error)
        if state is None:
            return None, "the state was left in the middle of a change"
        return state, ""

    def restore(self, context: IndexContext, usable: Callable[[StateMeta], bool]) -> KeyState | None:
        """Restore the newest checkpoint that is usable and whole; None when there is none."""
        if self.in_memory:
            return None
        for checkpoint in self._folder(context).readable():
            meta = StateMeta(checkpoint.table_id, checkpoint.scope, checkpoint.snapshot_id, checkpoint.token)
            if not usable(meta):
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
            if state is not None and usable(state.meta):
                return state
        return None

    def empty(self, context: IndexContext, expected_rows: int) -> KeyState:
        """Begin again: an empty state in place of what was there."""
        self._close_database()
        meta = StateMeta(context.view.table_id, self.scope.text(context))
        if self.in_memory:
            self._database = MemoryStore()
        else:
            directory = self._hold(context)
            clear_directory(directory)
            self._database = self._open(directory, context)
        return KeyState.create(self._database, meta, expected_rows=expected_rows)

    def newest_checkpoint(self, context: IndexContext) -> int:
        """Return the snapshot of the newest checkpoint, readable or not; 0 when there is none."""
        return self._folder(context).newest()

    def save(self, state: KeyState, context: IndexContext) -> None:
        """Put the state on the object store; states in memory have no checkpoints."""
        if isinstance(self._database, RocksStore):
            self._folder(context).save(self._database, state.meta, keep=context.options.index_state_keep_checkpoints)

    def close(self) -> None:
        """Release the database and its directory."""
        self._close_database()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _close_database(self) -> None:
        """Close it; its directory stays ours."""
        if isinstance(self._database, RocksStore):
            self._database.close()
        self._database = None

    def _hold(self, context: IndexContext) -> Path:
        """Lock the database's directory, so that no one else opens or clears it until `close`."""
        directory = self._directory(context)
        if self._lock is None:
            lock = DirectoryLock(directory)
            lock.acquire(context.options.index_state_wait)
            self._lock = lock
        return directory

    def _open(self, directory: Path, context: IndexContext) -> RocksStore:
        return RocksStore(directory, cache_bytes=context.options.index_state_cache_mb << 19)

    def _directory(self, context: IndexContext) -> Path:
        base = context.options.index_state_dir
        root = Path(base) if base else private_cache("lakeidx-state")
        return root / self.scope.digest(context, table_id=context.view.table_id)

    def _folder(self, context: IndexContext) -> CheckpointFolder:
        if self._checkpoints is None:
            folder = join(context.index_dir, "state", self.scope.digest(context))
            self._checkpoints = CheckpointFolder(context.store, folder)
        return self._checkpoints
