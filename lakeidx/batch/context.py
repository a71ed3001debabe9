"""Context of a batch, which each of its stages works with, and what makes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeidx.batch.artifacts import BatchFiles
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import check_use
from lakeidx.options.features import Use
from lakeidx.options.limits import BatchLimits, GivenLimits
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from lakeidx.predicate import Predicate

_OVERWRITE_MODES = (None, "partitions", "table")


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


def new_batch_id() -> str:
    """Generate a batch id."""
    return f"batch-{os.urandom(16).hex()}"


def make_context(
    metadata: TableMetadata,
    batch_id: str,
    *,
    runner: Runner | None = None,
    overwrite: str | None = None,
    driver_bytes: int | None = None,
    limits: GivenLimits | None = None,
    where: str | Predicate | None = None,
) -> BatchContext:
    """Make the context of a batch.

    overwrite, driver_bytes   see `BatchContext`
    limits   beyond which it is held; None = as the table's option ``lakeidx.limits`` says
    where    an overwrite of partitions replaces exactly those that match
    errors   UnsupportedError when an option of the table makes writing go wrong; InvalidInputError for a condition over columns
             that are not the partition's
    """
    schema = metadata.latest_schema()
    check_use(schema, Use.WRITE, metadata.paths.root)
    if overwrite not in _OVERWRITE_MODES:
        raise InvalidInputError(f"unknown overwrite mode {overwrite!r}; use partitions or table")
    if overwrite == "partitions" and not schema.partition_keys:
        raise InvalidInputError(
            "overwrite partitions: the table has no partition keys, so all of it would be replaced; to do so, overwrite the table",
            path=metadata.paths.root,
        )
    files, replaces = BatchFiles(metadata.store, metadata.paths, batch_id), None
    if where is not None:
        from lakeidx.batch.stages.overwrite import bind_partitions

        replaces = bind_partitions(metadata, where)
    asked = schema.table_options.lakeidx_limits if limits is None else limits
    bounds = None if asked is None else BatchLimits.parse(asked) or None
    return BatchContext(
        metadata, files, runner or LocalRunner(2), schema, overwrite, driver_bytes, replaces, limits=bounds
    )
