"""What programs do with a handle: plain functions, so that another process can be asked to do them, too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.landing.read import LandingOptions
from lakeidx.maintenance import staging_cleanup
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import run_file_index_rebuild, spec_to_build
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.rollback import roll_back as roll_back_only
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.tasks.runner import LocalRunner
from tests.kit.upserts import upsert_files, upsert_table

_TWO_DAYS_MS = 2 * 86_400_000


def upsert(table: Table, batch: str, rows: pa.Table, overwrite: str | None = None) -> Any:
    """Run a whole batch."""
    context = make_context(table.metadata, batch, runner=LocalRunner(1), overwrite=overwrite)
    return upsert_table(context, rows, missing="null")


def upsert_file(table: Table, batch: str, path: Path, overwrite: str | None = None) -> Any:
    """Run a whole batch from a landing file; columns that it does not have are null."""
    context = make_context(table.metadata, batch, runner=LocalRunner(1), overwrite=overwrite)
    return upsert_files(context, [str(path)], LandingOptions(missing="null"))


def compact(table: Table, full: bool, shrink: bool = False, partition: int | None = None) -> Any:
    """Compact all partitions or one, and plan again at once where others were faster."""
    chosen = None if partition is None else {with_arity(encode_row([partition], table.schema.partition_types), 1)}
    return run_compaction(
        table.metadata, LocalRunner(1), full=full, shrink=shrink, partitions=chosen, sleep=lambda _: None
    )


def expire(table: Table, retain: int, soon: bool = False) -> Any:
    """Keep so many snapshots; `soon`: leases of this moment are alive."""
    now_ms = int(time.time() * 1000) + 1000 if soon else _later()
    retention = Retention(num_min=1, num_max=retain, time_ms=0, limit=1000)
    return expire_table(table.metadata, table.schema, now_ms=now_ms, retention=retention)


def tag(table: Table, name: str, snapshot_id: int) -> Any:
    """Name a snapshot."""
    return create_tag(table.metadata, name, snapshot_id=snapshot_id)


def untag(table: Table, name: str) -> Any:
    """Delete a tag."""
    return delete_tag(table.metadata, table.schema, name)


def clean(table: Table) -> Any:
    """Remove orphans, of any age."""
    return staging_cleanup.clean_orphans(table.metadata, now_ms=_later(), older_than_ms=0, dry_run=False)


def lookup_files(table: Table) -> Any:
    """Build lookup files."""
    return run_lookup_store(table.metadata, LocalRunner(1))


def index_files(table: Table, column: str = "v") -> Any:
    """Give the data files that have none a bloom filter of a column."""
    spec = spec_to_build(table.schema, "bloom-filter", [column])
    return run_file_index_rebuild(table.metadata, LocalRunner(1), spec, sleep=lambda _: None)


def add_column(table: Table, name: str) -> Any:
    """Alter the table."""
    return alter_table(table, SchemaEdits(add={name: "INT"}))


def roll_back(table: Table, where: dict[str, Any], foreign: bool = False) -> Any:
    """Go back to a snapshot or tag; `foreign`: as another program does, which changes the table alone."""
    return (roll_back_only if foreign else roll_back_table)(table.metadata, table.schema, **where)


def clean_staging(table: Table) -> Any:
    """Remove what is left of batches that have ended."""
    return staging_cleanup.clean_staging(table.metadata, now_ms=_later())


def _later() -> int:
    return int(time.time() * 1000) + _TWO_DAYS_MS
