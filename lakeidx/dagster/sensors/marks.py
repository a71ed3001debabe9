"""Memory of a landing sensor: a file beside the table's staging, where the table's committed files are written down, too.

Dagster keeps the cursor of every tick, so a cursor names a file that has what grows with the folder. A file is written before its
tick is recorded, under a new name, and never changed: the cursor of a tick that was not recorded names the file before, which stays
until a newer cursor has come back. Names begin with a word of the cursor's own, for several Dagsters may load one table.

A file that is lost, or a cursor that was reset, loses nothing and loads nothing twice: what the table has is written down by the
batches themselves, and a file that is noticed for the first time is looked up there. A run that is requested twice finds its files
committed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence

from lakeidx.batch.artifacts import staging_root
from lakeidx.batch.landed_files import as_source, committed_by
from lakeidx.batch.stages.rerun import still_counts
from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.dagster.resources import StoreResource
from lakeidx.dagster.sensors.planning import LandingCursor
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.storage.base import FileInfo
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.in_parallel import in_parallel

#: Folder in the table's staging.
_MARKS_DIR = "_landing"
#: Files that nobody has replaced for so long are of a sensor that is gone; were it not, its next tick would look files up anew.
_ABANDONED_MS = 30 * 86_400_000


class LandingMemory:
    """Reads and writes what the landing sensor of a table remembers; warnings are collected."""

    def __init__(self, pipeline: PipelineConfig, stores: StoreResource) -> None:
        self._pipeline, self._stores = pipeline, stores
        self._store = stores.open(pipeline.uri)
        self._folder = f"{staging_root(pipeline.paths)}/{_MARKS_DIR}"
        self.warnings: list[str] = []

    def recall(self, cursor: str | None) -> LandingCursor:
        """Return what a cursor says; InvalidInputError when it cannot be read."""
        return LandingCursor.decode(cursor, self._read)

    def _read(self, name: str) -> bytes | None:
        """Read a file of marks; None when it is lost or damaged, with a warning."""
        path = f"{self._folder}/{name}"
        try:
            data = self._store.get(path)
            text = unseal(data, path)
            if len(text) == len(data):
                raise CorruptFileError("the end is missing", path=path)
            return text
        except (NotFoundError, CorruptFileError) as error:
            self.warnings.append(f"{error}: what the table has not loaded of the landing folder is found anew")
            return None

    def remember(self, cursor: str | None, after: LandingCursor, now_ms: int) -> str:
        """Write what the next tick has to know; return its cursor.

        cursor   of this tick
        """
        before = json.loads(cursor).get("marks", "") if cursor else ""
        own = before.partition("-")[0] or secrets.token_hex(4)
        text = after.encode_marks()
        name = f"{own}-{hashlib.sha256(text).hexdigest()[:16]}"
        if name != before:
            self._store.put(f"{self._folder}/{name}", seal(text))
            self._remove_older(own, before, now_ms)
        return after.encode(name)

    def _remove_older(self, own: str, before: str, now_ms: int) -> None:
        """Remove files that came before the one of a cursor that is recorded, and those of sensors that are gone."""
        listed = self._store.list(self._folder)
        recorded = next((f.mtime_ms for f in listed if f.name == before), 0)
        self._store.delete_many(
            f.path
            for f in listed
            if f.name != before and f.mtime_ms < (recorded if f.name.startswith(f"{own}-") else now_ms - _ABANDONED_MS)
        )

    def loaded(self, files: Sequence[FileInfo]) -> list[FileInfo]:
        """Return those of some landing files whose rows are in the table, by whom ever they were loaded."""
        if not files:
            return []
        try:
            table = TableHandle.open(self._pipeline.uri, self._stores.storage_options(self._pipeline.uri))
        except NotFoundError:
            return []

        def is_loaded(file: FileInfo) -> bool:
            try:
                batch_id = committed_by(table.store, table.paths, as_source(file))
            except CorruptFileError:
                # Its run says so.
                return False
            return batch_id is not None and still_counts(table.metadata, batch_id)

        return [f for f, known in zip(files, in_parallel(is_loaded, files), strict=True) if known]
