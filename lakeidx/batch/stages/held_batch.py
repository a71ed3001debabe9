"""A small batch that has no name stays in this process: nobody could run it again, so its reports and rows need no files.

What a batch with a name leaves in its staging directory has two uses. Run again under its name it goes on where it stopped: of a
batch whose id was drawn by the call that runs it there is no second run. And the cleaning of orphans spares the files that a staged
batch has written and not committed yet: for that, such a batch leaves a note, ``_writing/<batch id>``, before its first file, and
takes it away after its snapshot was put, or when it failed. Files as new as a note are no orphans.

When the store does not tell whether the snapshot was written, all is staged after all, so that the batch can be committed again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import pyarrow as pa
from pydantic import BaseModel

from lakeidx.batch.artifacts import (
    AnyReport,
    BatchFiles,
    BucketAssignmentReport,
    IndexWriteReport,
    IngestReport,
    Report,
    writing_note,
)
from lakeidx.batch.assignment.room import fits_driver
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import finds_by_keys
from lakeidx.batch.parts import write_rows
from lakeidx.batch.target_files import write_targets
from lakeidx.errors import CommitUnknownError, LakeIdxError, UnavailableError
from lakeidx.table.commit.changes import encode_changes
from lakeidx.tasks.runner import LocalRunner

log = logging.getLogger(__name__)

#: A batch of more rows, or more Arrow bytes, is staged.
_MOST_ROWS, _MOST_BYTES = 100_000, 32 << 20
#: Arrow bytes of a batch that one thread writes to a local disk as fast as several.
_ONE_THREAD_BYTES = 1 << 20


class HeldBatch(BatchFiles):
    """The artifacts of a batch whose id nobody else knows, in memory. For one thread."""

    in_memory = True

    def __init__(self, context: BatchContext) -> None:
        super().__init__(context.store, context.paths, context.files.batch_id)
        self._paths, self._metadata = context.paths, context.metadata
        self._run = 1
        self._note = writing_note(context.paths, self.batch_id)
        self._noted = False
        self._reports: dict[tuple[type[BaseModel], int], tuple[Report, int]] = {}
        self._begun: list[int] = []

    def supersede(self, reason: str, *, branch: str | None = None) -> None:
        """Do nothing: there is no other run."""

    def is_current(self) -> bool:
        """Return True: there is no other run."""
        return True

    def begin_commit(self, attempt: int) -> bool:
        """See `BatchFiles.begin_commit`."""
        if attempt in self._begun:
            return False
        self._begun.append(attempt)
        return True

    def was_committing(self, attempt: int) -> bool:
        """See `BatchFiles.was_committing`."""
        return attempt in self._begun

    def read(self, model: type[AnyReport], *, attempt: int = 1) -> AnyReport | None:
        """See `BatchFiles.read`."""
        found = self._reports.get((model, attempt))
        return None if found is None else cast(AnyReport, found[0])

    def close(self, report: AnyReport, *, attempt: int = 1) -> AnyReport:
        """Keep a report; the first one announces that files of the table will follow."""
        if not self._noted:
            self._noted = True
            self.store.put(self._note, b"")
        self._reports[type(report), attempt] = report, int(time.time() * 1000)
        return report

    def closed_ms(self, model: type[BaseModel], *, attempt: int = 1) -> int:
        """See `BatchFiles.closed_ms`; by the clock of this process."""
        found = self._reports.get((model, attempt))
        return 0 if found is None else found[1]

    def latest_attempt(self) -> int:
        """See `BatchFiles.latest_attempt`."""
        return max((r.attempt for r in self._reports_of(BucketAssignmentReport)), default=1)

    def end(self, error: BaseException | None) -> None:
        """End the batch: well, or with an error. What may be in the table, or not, is staged."""
        if self._begun and isinstance(error, CommitUnknownError | UnavailableError):
            try:
                self._stage()
                log.warning("batch %s is staged: commit it again to find out whether it is in the table", self.batch_id)
            except LakeIdxError as second:
                log.warning("batch %s cannot be staged: %s", self.batch_id, second)
        if self._noted:
            self.store.delete(self._note)

    def _reports_of(self, model: type[AnyReport]) -> list[AnyReport]:
        return [report for report, _ in self._reports.values() if isinstance(report, model)]

    def _stage(self) -> None:
        """Write everything into the staging directory, as a batch with a name does stage by stage."""
        files = BatchFiles(self.store, self._paths, self.batch_id)
        for ingest in self._reports_of(IngestReport):
            for part in ingest.parts:
                with self.store.open_output(part.path) as sink:
                    write_rows(part.held, sink)
            files.close(ingest)
        for assign in self._reports_of(BucketAssignmentReport):
            for path, targets in zip(assign.targets_paths, assign.held, strict=True):
                write_targets(self.store, path, targets)
            files.close(assign, attempt=assign.attempt)
        for write in self._reports_of(IndexWriteReport):
            self.store.put(write.changes_path, encode_changes(write.held))
            files.close(write, attempt=write.attempt)
        for attempt in self._begun:
            files.begin_commit(attempt)


def may_hold(context: BatchContext, rows: pa.Table) -> bool:
    """Return True for rows that are few enough, of a table whose index keeps nothing outside it."""
    schema, count = context.schema, rows.num_rows
    small = count <= _MOST_ROWS and rows.nbytes <= _MOST_BYTES
    return small and not finds_by_keys(schema) and fits_driver(schema, count, 0, context.driver_bytes)


@contextmanager
def held_batch(context: BatchContext, rows: pa.Table) -> Iterator[BatchContext]:
    """Run a batch whose id was drawn for it in memory; the context must not be used after the block."""
    files = HeldBatch(context)
    # Few rows for a disk are mostly work of the interpreter, which threads only pass to each other.
    alone = rows.nbytes <= _ONE_THREAD_BYTES and not context.store.waits
    error: BaseException | None = None
    try:
        yield replace(context, files=files, runner=LocalRunner() if alone else context.runner)
    except BaseException as caught:
        error = caught
        raise
    finally:
        files.end(error)
