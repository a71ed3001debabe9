"""Staging of a small batch without a name in memory: nobody could run it again, so its reports and rows need no files.

What a batch with a name leaves in its staging directory has two uses. Run again under its name it goes on where it stopped: of a
batch whose id was drawn by the call that runs it there is no second run. And the cleaning of orphans spares the files that a staged
batch has written and not committed yet: for that, a batch in memory leaves a note, ``_writing/<batch id>``, before its first file,
and takes it away after its snapshot was put, or when it failed. Files as new as a note are no orphans.

When the store does not tell whether the snapshot was written, or the batch is held, all is copied into the staging directory after
all, so that the batch can be committed later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from lakeidx.batch.artifacts import BatchFiles, writing_note
from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.errors import BatchHeldError, CommitUnknownError, LakeIdxError, UnavailableError
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.memory import MemoryStore

log = logging.getLogger(__name__)

#: A batch of more Arrow bytes is staged in files: this is what its rows may take of the memory of the process.
_MOST_BYTES = 32 << 20


def fits_memory(context: BatchContext, rows: pa.Table | pa.RecordBatchReader) -> bool:
    """Return True for rows that are few enough, of a table whose index keeps nothing outside it."""
    return isinstance(rows, pa.Table) and rows.nbytes <= _MOST_BYTES and TableIndex.of(context.schema).locator is None


@contextmanager
def memory_staging(context: BatchContext) -> Iterator[BatchContext]:
    """Run a batch whose id was drawn for it, and whose tasks run in this process, with its staging in memory.

    The context must not be used after the block.
    """
    files = BatchFiles(MemoryStore(context.store.uri), context.paths, context.files.batch_id)
    note = writing_note(context.paths, files.batch_id)
    context.store.put(note, b"")
    try:
        yield replace(context, files=files)
    except BatchHeldError:
        _copy(files, context.store)
        raise
    except (CommitUnknownError, UnavailableError):
        if any(files.was_committing(attempt) for attempt in range(1, files.latest_attempt() + 1)):
            try:
                _copy(files, context.store)
                log.warning(
                    "batch %s is staged: commit it again to find out whether it is in the table", files.batch_id
                )
            except LakeIdxError as error:
                log.warning("batch %s cannot be staged: %s", files.batch_id, error)
        raise
    finally:
        try:
            context.store.delete(note)
        except (CommitUnknownError, UnavailableError) as error:
            # It only spares orphans, and goes with the staging of batches that have died.
            log.warning("batch %s ended, but its note %s is left: %s", files.batch_id, note, error)


def _copy(files: BatchFiles, store: ObjectStore) -> None:
    """Copy a batch's files to its staging directory, in the order in which they were put: reports after what they name."""
    for file in files.store.walk(files.directory):
        store.put(file.path, files.store.get(file.path))
