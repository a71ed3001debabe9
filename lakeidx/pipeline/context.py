"""What every stage of a batch works with."""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.format.paths import TablePaths
from lakeidx.pipeline.artifacts import BatchFiles
from lakeidx.pipeline.runner import Runner
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata

#: The driver assigns some ten million rows a second; beyond this many, reading their keys in one place takes too long.
PARALLEL_ROWS = 50_000_000


@dataclass(frozen=True, slots=True)
class BatchContext:
    """One batch of one table.

    metadata    the table
    files       the batch's staging directory
    runner      where tasks run
    overwrite   None = upsert; "partitions" = replace the partitions the batch has rows for; "table" = replace all
    parallel_rows   batches of so many rows or more are assigned by several assigners in tasks instead of the driver
    """

    metadata: TableMetadata
    files: BatchFiles
    runner: Runner
    overwrite: str | None = None
    parallel_rows: int = PARALLEL_ROWS

    @property
    def store(self) -> ObjectStore:
        """The store the table lies on."""
        return self.metadata.store

    @property
    def paths(self) -> TablePaths:
        """Names of the table's files."""
        return self.metadata.paths
