"""Call the table's key index before, after and on abort of the commit of a batch.

prepare     before the snapshot is put, unless the batch is in the table already (its writer died after the commit)
committed   when the snapshot is there; called again when the stage is run again, which changes nothing
on_abort    when the commit lost a conflict, before the batch is assigned again: what `prepare` left must be ignored
            under the batch's name

Only indexes with state outside the table get the batch's keys; those are read again from the staged parts,
since another process may have assigned them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakeidx.batch.artifacts import BucketAssignmentReport, IngestReport
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.batch.schema_drift import staged_schema
from lakeidx.errors import CommitUnknownError, CorruptFileError, NotFoundError, UnavailableError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.key_index.locations import CommitInfo
from lakeidx.key_index.port import ExternalState, SharedState
from lakeidx.storage.overlay import OverlayStore
from lakeidx.table.commit.changes import CommitRequest
from lakeidx.table.commit.earlier_commit import was_committed
from lakeidx.table.metadata import TableMetadata

if TYPE_CHECKING:
    from lakeidx.batch.assignment.committed_keys import CommittedKeys, CommittedPart

log = logging.getLogger(__name__)


class IndexHooks:
    """One attempt of one batch.

    request   what is to be committed
    """

    def __init__(self, context: BatchContext, assign: BucketAssignmentReport, request: CommitRequest) -> None:
        self._context = context
        self._assign = assign
        self._request = request
        self._schema: TableSchema = staged_schema(context.metadata, context.files)
        self._index = TableIndex.of(self._schema)
        self._described: CommitInfo | None = None

    def prepare(self) -> None:
        """Prepare the index before the snapshot is written.

        errors   UnavailableError when the index does not answer; the batch must not be committed then
        """
        if self._catches_up or was_committed(self._context.metadata, self._request):
            return
        self._call("prepare_commit", self._context.metadata.latest_snapshot())

    def committed(self, snapshot_ids: tuple[int, ...]) -> None:
        """Update the index after the batch was committed.

        errors   UnavailableError; the stage has to be run again, which notifies the index again
        """
        if not snapshot_ids:
            return
        metadata = self._context.metadata
        snapshot = _own_snapshot(metadata, snapshot_ids[0], self._request.commit_user) or metadata.latest_snapshot()
        try:
            self._call("update_locations", snapshot, snapshot_ids[0])
        except (UnavailableError, CommitUnknownError, CorruptFileError, NotFoundError) as error:
            if not self._catches_up:
                raise
            log.warning(
                "index %s could not be updated to snapshot %d yet: %s", self._index.name, snapshot_ids[0], error
            )

    def on_abort(self) -> None:
        """Roll the index back after the commit lost a conflict."""
        if self._catches_up:
            return
        self._call("rollback", self._context.metadata.latest_snapshot())

    @property
    def _catches_up(self) -> bool:
        return isinstance(self._index.locator, ExternalState) and self._index.locator.catches_up

    def _call(self, call: str, snapshot: Snapshot | None, snapshot_id: int | None = None) -> None:
        """Call a method of the external state with the batch's keys: in tasks, each with its share, where tasks placed the batch.

        snapshot      that shows which commits are in the table
        snapshot_id   of the batch, when it is there
        """
        from lakeidx.batch.assignment.committed_keys import (
            CommittedKeys,
            committed_parts,
            notify_in_tasks,
            store_locations,
        )

        metadata = self._context.metadata
        keys = CommittedKeys.of(self._context, self._schema, self._assign)
        parts = committed_parts(self._context.files.require(IngestReport), self._assign)
        user, base = self._request.commit_user, self._assign.base_snapshot_id
        info = CommitInfo(instant=user, snapshot_id=snapshot_id, base_id=base)
        remake = partial(self._index.context, metadata, snapshot)
        with self._index.open(self._context.paths) as state:
            if isinstance(state, SharedState):
                context, label = remake(), self._context.label("key_state")
                runner = self._context.runner if self._assign.in_tasks else context.pool
                store_locations(runner, keys, parts, info, state, context, label=label)
            elif self._assign.in_tasks:
                notify_in_tasks(self._context, keys, parts, info, call, remake)
            else:
                getattr(state, call)(self._with_keys(keys, parts, info), remake())

    def _with_keys(self, keys: CommittedKeys, parts: Sequence[CommittedPart], info: CommitInfo) -> CommitInfo:
        """Return a commit with the batch's keys, which are read once."""
        if self._described is None:
            self._described = keys.read(parts, info)
        return replace(self._described, snapshot_id=info.snapshot_id)


def _own_snapshot(metadata: TableMetadata, snapshot_id: int, commit_user: str) -> Snapshot | None:
    """Read a snapshot of a commit; None when it has expired, also when another writer has put one on its id since."""
    try:
        found = metadata.load_snapshot(snapshot_id)
    except NotFoundError:
        return None
    return found if found.commit_user == commit_user else None


def on_compaction(
    metadata: TableMetadata, schema: TableSchema, snapshot_ids: Sequence[int], request: CommitRequest
) -> None:
    """Tell an index that catches up of a compaction, which changes no location.

    One that cannot be reached now, or is behind, finds out by itself when the next batch comes.
    """
    index = TableIndex.of(schema)
    if not isinstance(index.locator, ExternalState) or not index.locator.catches_up or not snapshot_ids:
        return
    if isinstance(metadata.store, OverlayStore):
        return
    try:
        with index.open(metadata.paths) as state:
            assert isinstance(state, ExternalState)
            snapshot = _own_snapshot(metadata, snapshot_ids[-1], request.commit_user)
            if snapshot is None:
                log.warning("the key index is not updated after a compaction: its snapshot has expired")
                return
            info = CommitInfo(instant=snapshot.commit_user, snapshot_id=snapshot.id, base_id=snapshot.id - 1)
            state.update_locations(info, index.context(metadata, snapshot))
    except (UnavailableError, NotFoundError) as error:
        log.warning("the key index could not be updated after a compaction yet: %s", error)
