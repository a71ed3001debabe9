"""Context of a batch, which each of its stages works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeidx.batch.artifacts import BatchFiles
from lakeidx.errors import NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import Runner

if TYPE_CHECKING:
    from lakeidx.options.limits import BatchLimits
    from lakeidx.predicate import Predicate


@dataclass(frozen=True, slots=True)
class BatchContext:
    """One batch of one table.

    metadata    the table
    files       the batch's staging directory
    runner      where tasks run
    schema      the table's newest one when the context was made
    overwrite   None = upsert; "partitions" = replace the partitions the batch has rows for; "table" = replace all
    replaces    with "partitions": all partitions this condition holds for are replaced, also those the batch has no row for,
                and it may have rows for no others; bound, over partition columns
    operation   what users call it: DELETE, UPDATE, MERGE; None = WRITE
    read_on     snapshot that its rows were made from, 0 for an empty table: nobody else may have written rows since; None = they
                were made from none
    driver_bytes   what a batch may hold in the driver: the rows of a larger one are placed in tasks; None = as the table's option
                ``index.driver-memory`` says
    limits      beyond which it is held before its commit; None = any batch passes
    """

    metadata: TableMetadata
    files: BatchFiles
    runner: Runner
    schema: TableSchema
    overwrite: str | None = None
    driver_bytes: int | None = None
    replaces: Predicate | None = None
    operation: str | None = None
    read_on: int | None = None
    limits: BatchLimits | None = None

    @property
    def store(self) -> ObjectStore:
        """The table's store."""
        return self.metadata.store

    @property
    def paths(self) -> TablePaths:
        """Names of the table's files."""
        return self.metadata.paths

    def label(self, stage: str, work: str = "") -> str:
        """Return what a stage's tasks are called where they run, with what is known of their work by then."""
        return f"{stage}: batch {self.files.batch_id} of {self.paths.root}" + (f": {work}" if work else "")

    def is_of_table(self, error: NotFoundError) -> bool:
        """Return True when a file of the table is what is missing: another program expired it, or cleaned it away."""
        return error.path is not None and error.path.startswith(f"{self.paths.root}/")
