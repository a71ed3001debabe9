"""Priority for a batch, or a compaction, that keeps losing commit races.

Planning a batch again takes about as long as the batch itself, so a writer of small batches could beat one with a large batch
for ever. A batch that lost a few times therefore puts ``_commit_priority.json`` into the table's staging directory; other batches
that touch one of its partitions wait before they publish, until it is gone. A compaction reads more for a try than a batch of one
row does for all: for it all batches wait, whatever they touch, since it is their snapshots that come first.

Only fairness rests on the file, never correctness: the commit checks for conflicts as always. A file that stays the same for
the time it names belongs to a process that died; whoever waited for it takes it away. No clocks are compared.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Literal

from pydantic import ValidationError

from lakeidx.batch.artifacts import Report, staging_root
from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.storage.base import ObjectStore
from lakeidx.table.commit.changes import CommitRequest, CommitResult
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.metadata import TableMetadata

log = logging.getLogger(__name__)

#: Lost races after which a batch requests priority, and those of a compaction, which loses no work with them.
LOST_BEFORE_PRIORITY = 2
_RACES_BEFORE_PRIORITY = 3
#: Named by what everybody waits for: batches of a table whose keys live in one partition at a time, and compactions.
EVERY_PARTITION = "*"
#: How long those that wait pause between looks: shortly at first, for most of what they wait for is a commit.
_LEAST_PAUSE, _MOST_PAUSE = 0.002, 0.1


class PriorityFile(Report):
    """Content of ``_commit_priority.json``.

    partitions       hex of the partition bytes the batch writes to, and EVERY_PARTITION
    lost             races lost so far; grows with every try, so that waiting batches see it alive
    seconds_per_try  how long the file may stay unchanged before its batch is taken for dead
    """

    kind: Literal["turn"] = "turn"
    batch_id: str
    partitions: tuple[str, ...]
    lost: int
    seconds_per_try: float

    def stops(self, partitions: tuple[str, ...]) -> bool:
        """Return True when a batch of these partitions has to wait."""
        return EVERY_PARTITION in self.partitions or not set(self.partitions).isdisjoint(partitions)


class CommitPriority:
    """One batch's side of the agreement. Not for sharing between threads."""

    def __init__(
        self,
        store: ObjectStore,
        paths: TablePaths,
        batch_id: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.path = f"{staging_root(paths)}/_commit_priority.json"
        self.batch_id = batch_id
        self._sleep = sleep
        self._clock = clock
        self._asked = False

    def request(self, partitions: tuple[str, ...], lost: int, seconds: float) -> bool:
        """Request priority after `lost` lost races; `seconds` is the duration of the last attempt.

        Another writer's file stays: that batch has priority, and this one requests it again when it loses again.
        returns  True when others wait for this one now
        """
        if lost < LOST_BEFORE_PRIORITY:
            return False
        # Three times the last try, and some: a try may take longer on a busy machine.
        wanted = PriorityFile(
            batch_id=self.batch_id, partitions=partitions, lost=lost, seconds_per_try=10 + 3 * seconds
        )
        data = seal(wanted.model_dump_json().encode())
        if self.store.put_if_absent(self.path, data):
            self._asked = True
        elif self._is_ours():
            self._asked = True
            self.store.put(self.path, data)
        return self._asked

    def wait(self, partitions: tuple[str, ...]) -> float:
        """Wait while another batch that shares a partition has priority; returns the seconds waited."""
        started = self._clock()
        seen: PriorityFile | None = None
        since, pause = started, _LEAST_PAUSE
        while True:
            found = self._read()
            if found is None or found.batch_id == self.batch_id or not found.stops(partitions):
                return self._clock() - started
            if found != seen:
                seen, since = found, self._clock()
            elif self._clock() - since > found.seconds_per_try:
                log.warning("ignoring the stale priority request of batch %s", found.batch_id)
                self.store.delete(self.path)
                return self._clock() - started
            self._sleep(pause * (1 + random.random()))  # noqa: S311 - jitter
            pause = min(2 * pause, _MOST_PAUSE)

    def done(self) -> None:
        """Release the priority: the batch is committed, or has been aborted."""
        if self._asked and self._is_ours():
            self.store.delete(self.path)
        self._asked = False

    def _is_ours(self) -> bool:
        found = self._read()
        return found is not None and found.batch_id == self.batch_id

    def _read(self) -> PriorityFile | None:
        try:
            return PriorityFile.model_validate_json(unseal(self.store.get(self.path), self.path))
        except NotFoundError:
            return None
        except (ValidationError, CorruptFileError):
            log.warning("%s cannot be read; deleting it", self.path)
            self.store.delete(self.path)
            return None


def commit_with_priority(
    metadata: TableMetadata, request: CommitRequest, *, sleep: Callable[[float], None] = time.sleep
) -> CommitResult:
    """Commit what is no batch: batches wait for it once it has lost a few races with them.

    errors   as `lakeidx.table.commit.commit_changes.commit_changes`
    """
    priority = CommitPriority(metadata.store, metadata.paths, request.commit_user, sleep=sleep)

    def lost(races: int) -> bool:
        return races >= _RACES_BEFORE_PRIORITY and priority.request((EVERY_PARTITION,), races, 0)

    try:
        return commit_changes(metadata, request, sleep=sleep, on_lost=lost)
    finally:
        priority.done()
