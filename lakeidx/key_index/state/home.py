"""Where the state of a table is, and how it comes to a snapshot: found, caught up with files that were added, or rebuilt.

A state is used as far as the table's snapshots confirm it: it is of a snapshot that is there under the identity that it was
written with. So no rollback, no other table of the path, no other writer and no program that died can make it say what is not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

from lakeidx.errors import CommitConflictError, CorruptFileError, NotFoundError
from lakeidx.key_index.locations import CommitInfo, LiveFile
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, TagTasks
from lakeidx.key_index.state.key_state import KeyState
from lakeidx.key_index.state.load import StateLoader
from lakeidx.key_index.state.load_tasks import catch_up_in_tasks, load_in_tasks
from lakeidx.key_index.state.manifest import StateFolder, StateManifest
from lakeidx.key_index.state.memory_store import MemoryStore
from lakeidx.key_index.state.run_files import RunFiles
from lakeidx.key_index.state.scope import StateScope

#: Bytes that a key takes in this process from when it is read until it is written.
_ROW_BYTES = 160
_log = logging.getLogger(__name__)


class StateHome:
    """The states of one scope.

    scope    which keys they hold
    memory   keeps them in this process; None = on the table's store
    clock    epoch seconds
    """

    def __init__(self, scope: StateScope, memory: MemoryStore | None, clock: Callable[[], float]) -> None:
        self.scope = scope
        self._memory = memory
        self._clock = clock

    def there(self, state: KeyState | None, context: IndexContext, damaged: set[str]) -> KeyState | None:
        """Return the state of the view's snapshot, if there is one.

        state     the one that was used last
        damaged   names of files that no state may use
        """
        view = context.view
        token = None if view.snapshot_id is None else view.snapshot_token(view.snapshot_id)
        if (
            state is not None
            and (state.table_id, state.scope) == (view.table_id, self.scope.text(context))
            and (state.snapshot_id, state.token) == (view.snapshot_id, token)
        ):
            return state
        if view.snapshot_id is None or token is None:
            return None
        found = self._folder(context).find(view.snapshot_id, token)
        if found is None or self._behind(found, context) != "" or found.files & damaged:
            return None
        return self._opened(found, context)

    def caught_up(
        self, context: IndexContext, metrics: IndexMetrics, damaged: set[str], tasks: TagTasks | None = None
    ) -> tuple[KeyState | None, str]:
        """Return a state that was brought from an earlier snapshot to the view's, and what it lacked.

        tasks    where, when it is more than the driver may hold; None = in this process
        errors   CommitConflictError when there is only one of a later snapshot of the same history: a batch that was
                 planned before that snapshot would have to be planned again anyway
        """
        folder, later = self._folder(context), 0
        for path, snapshot_id, manifest in folder.candidates():
            missing = self._behind(manifest, context)
            if manifest.files & damaged:
                folder.discard(path, CorruptFileError("one of its files is damaged"))
                continue
            if missing is None:
                later = snapshot_id if self._is_ahead(manifest, context) else later
                continue
            state = self._opened(manifest, context)
            try:
                if missing:
                    self._catch_up(state, context, metrics, tasks)
            except (CorruptFileError, NotFoundError) as error:
                _log.warning("ignoring the key state of snapshot %d: %s", snapshot_id, error)
                continue
            return self.at_snapshot(state, context), missing
        if later:
            raise CommitConflictError(
                f"the key state is at snapshot {later}, the batch was planned before it: plan it again"
            )
        return None, ""

    def _catch_up(self, state: KeyState, context: IndexContext, metrics: IndexMetrics, tasks: TagTasks | None) -> None:
        assert state.snapshot_id is not None
        loader = self._loader(context)
        planned = loader.plan_catch_up(state, context.view.files_at(state.snapshot_id), self.files(context), context)
        # Where a bucket lost files all shards are rewritten.
        rows = planned.rows + (state.rows if planned.lost else 0)
        if tasks is None or self._memory is not None or rows * _ROW_BYTES <= context.options.index_driver_memory:
            loader.catch_up(state, planned, context, metrics)
        else:
            catch_up_in_tasks(loader, state, planned, tasks, metrics)

    def rebuilt(self, context: IndexContext, metrics: IndexMetrics, tasks: TagTasks | None = None) -> KeyState:
        """Build the state of the view's snapshot from the table's key columns.

        tasks   where; None = in this process
        """
        files = self.files(context)
        state = self._empty(context, sum(f.meta.row_count for f in files))
        if tasks is None or self._memory is not None:
            self._loader(context).load(state, files, context, metrics)
        else:
            load_in_tasks(self._loader(context), state, files, context, tasks, metrics)
        return self.at_snapshot(state, context)

    def _empty(self, context: IndexContext, expected_rows: int = 0) -> KeyState:
        return KeyState.empty(
            self._run_files(context),
            table_id=context.view.table_id,
            scope=self.scope.text(context),
            is_global=self.scope.is_global,
            expected_rows=expected_rows,
        )

    def before(self, state: KeyState | None, commit: CommitInfo, context: IndexContext) -> KeyState | None:
        """Return the state of the snapshot directly before a commit; None when it cannot be updated by the commit alone.

        state   the one that was used last
        """
        view, base = context.view, commit.base_id
        if commit.snapshot_id is None or commit.snapshot_id != view.snapshot_id:
            return None
        if commit.snapshot_id != (base or 0) + 1 or not view.kept_since(base or 0):
            return None
        token = None if base is None else view.snapshot_token(base)
        scope = self.scope.text(context)
        if (
            state is not None
            and (state.table_id, state.scope) == (view.table_id, scope)
            and (state.snapshot_id, state.token) == (base, token)
        ):
            return state
        own = view.snapshot_token(commit.snapshot_id)
        if own is None or self._folder(context).find(commit.snapshot_id, own) is not None:
            # It has been told already.
            return None
        if base is None:
            return self._empty(context)
        found = None if token is None else self._folder(context).find(base, token)
        if found is None or (found.table_id, found.scope) != (view.table_id, scope):
            return None
        return self._opened(found, context)

    def at_snapshot(self, state: KeyState, context: IndexContext) -> KeyState:
        """Make a state that of the view's snapshot, and put it on the store; returns the one that counts."""
        view = context.view
        state.snapshot_id = view.snapshot_id
        state.token = None if view.snapshot_id is None else view.snapshot_token(view.snapshot_id)
        if state.snapshot_id is None or state.token is None:
            return state
        folder = self._folder(context)
        keep = context.options.index_state_keep_checkpoints
        manifest = state.manifest(state.snapshot_id, state.token)
        if folder.publish(manifest, keep=keep, token_of=view.snapshot_token):
            # Runs that were merged before anyone knew them.
            state.files.forget(state.files.written - manifest.files)
            state.files.written.clear()
            return state
        # Another program was first: what was written here is not used.
        other = folder.find(state.snapshot_id, state.token)
        if other is None or (other.table_id, other.scope) != (state.table_id, state.scope):
            return state
        state.files.forget(state.files.written - other.files)
        return self._opened(other, context)

    def _behind(self, manifest: StateManifest, context: IndexContext) -> str | None:
        """Compare a state with the view's snapshot: "" when it is there, what it lacks if it can catch up, None if it cannot."""
        view = context.view
        if (manifest.table_id, manifest.scope) != (view.table_id, self.scope.text(context)):
            return None
        if manifest.snapshot_id is None or view.snapshot_id is None or manifest.snapshot_id > view.snapshot_id:
            return None
        if manifest.token != view.snapshot_token(manifest.snapshot_id):
            return None
        if manifest.snapshot_id == view.snapshot_id:
            return ""
        if not view.kept_since(manifest.snapshot_id):
            return None
        return f"it was at snapshot {manifest.snapshot_id} of {view.snapshot_id}"

    def _is_ahead(self, manifest: StateManifest, context: IndexContext) -> bool:
        """Return True for a state of a later snapshot of the very same history."""
        view = context.view
        if (manifest.table_id, manifest.scope) != (view.table_id, self.scope.text(context)):
            return False
        if manifest.snapshot_id is None or manifest.snapshot_id <= (view.snapshot_id or 0):
            return False
        there = view.snapshot_token(manifest.snapshot_id)
        return there is not None and there == manifest.token

    def _opened(self, manifest: StateManifest, context: IndexContext) -> KeyState:
        return KeyState(self._run_files(context), manifest, is_global=self.scope.is_global)

    def _folder(self, context: IndexContext) -> StateFolder:
        return StateFolder(self._memory or context.store, self.scope.folder(context))

    def _run_files(self, context: IndexContext) -> RunFiles:
        return RunFiles(self._memory or context.store, self.scope.folder(context))

    def files(self, context: IndexContext, partitions: Collection[bytes] | None = None) -> list[LiveFile]:
        """Return the view's data files in the partitions that the state is of, or in some of these."""
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

    def _loader(self, context: IndexContext) -> StateLoader:
        return StateLoader(
            is_global=self.scope.is_global,
            share=self.scope.share,
            key_types=context.reader.key_types,
            now=int(self._clock()),
            budget=context.options.index_state_cache_mb << 20,
        )
