"""A table by its directory: create, open, scan. Composes the parts of `lakeidx.table`; no logic of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from lakeidx.arguments import PathLike, path_text
from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import TablePaths, check_table_name
from lakeidx.format.schema.feature_gate import warn_once
from lakeidx.format.schema.schema_file import TableSchema, encode_schema, new_schema
from lakeidx.format.snapshot import Snapshot
from lakeidx.predicate import TRUE, BoundPredicate, Predicate, bind
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore, name_of
from lakeidx.storage.local import absolute
from lakeidx.table.expiration.overtaken import on_newest, says_expired
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.bucket_finder import make_bucket_finder
from lakeidx.table.scan.file_indexes import FileIndexTest
from lakeidx.table.scan.layout import split_system_name
from lakeidx.table.scan.plan import PlanOptions, ScanPlan, plan_scan
from lakeidx.table.scan.states import time_travel
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.table.usable import check_usable


class TableHandle:
    """One table. Cheap to make, pickles; metadata that was read is kept.

    metadata   what was read of the table before
    """

    def __init__(self, store: ObjectStore, paths: TablePaths, metadata: TableMetadata | None = None) -> None:
        self.store = store
        self.paths = paths
        self.metadata = TableMetadata(store, paths) if metadata is None else metadata

    @classmethod
    def open(cls, uri: PathLike, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Open the table in a directory.

        What the table's options request and lakeidx does not do is logged once; uses that would go wrong are refused when
        they are tried.

        uri      ``/lake/db.db/flights`` or ``s3://bucket/lake/db.db/flights``
        errors   NotFoundError when the directory is not a table; InvalidInputError for a system table
        """
        uri = path_text(uri)
        if split_system_name(uri)[1] is not None:
            raise InvalidInputError(
                "system tables are read-only: use SystemTable.open, lakeidx scan, or Spark", path=uri
            )
        store = open_store(uri, storage_options)
        metadata = TableMetadata.open(store, absolute(uri))
        return cls(store, metadata.paths, metadata)

    @classmethod
    def create(
        cls,
        uri: PathLike,
        spec: Mapping[str, Any],
        storage_options: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Self:
        """Create a table from ``{"fields": [...], "primaryKeys": [], "partitionKeys": [], "options": {}}``.

        exist_ok   take a table that is already there, if its columns and keys are the same
        errors     InvalidInputError naming the column or option; when the table exists already
        """
        uri = path_text(uri)
        check_table_name(name_of(uri), path=uri)
        schema = new_schema(spec)
        table = cls(open_store(uri, storage_options), TablePaths.of(absolute(uri), schema))
        if not table.metadata.schema_ids():
            check_usable(schema)
            if table.store.info(table.paths.root) is not None:
                raise InvalidInputError("a file has this name: a table needs a directory", path=table.paths.root)
            if table.store.put_if_absent(table.paths.schema_path(0), encode_schema(schema)):
                warn_once(schema, uri)
                return table
        if not exist_ok:
            raise InvalidInputError(
                "the table already exists; exist_ok (--if-not-exists) opens it as it is", path=table.paths.root
            )
        _check_same(table.schema, schema, table.paths.root)
        return table

    @property
    def uri(self) -> str:
        """The table's directory."""
        return self.paths.root

    @property
    def schema(self) -> TableSchema:
        """The newest schema."""
        return self.metadata.latest_schema()

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        return self.metadata.latest_snapshot()


def scan_table(
    table: TableHandle,
    *,
    where: str | Predicate | None = None,
    columns: Sequence[str] | None = None,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp_ms: int | None = None,
    limit: int | None = None,
    layers: PlanOptions | None = None,
) -> TableScan:
    """Plan a scan of one state of the table; reading starts when its batches are requested.

    where    SQL text (``"carrier = 'UA' AND month >= 6"``) or a predicate
    state    newest unless one of `snapshot`, `tag`, `timestamp_ms` is given; time travel reads with the schema of
             that time, the newest state with the newest schema
    layers   pruning layers that take part (for tests and comparisons)
    """
    newest = table.schema
    if snapshot is None and tag is None and timestamp_ms is None:
        planned = on_newest(
            table.metadata, lambda found: plan_state(table.metadata, found, newest, where, layers=layers)
        )
    else:
        found = time_travel(table.metadata, snapshot_id=snapshot, tag=tag, timestamp_ms=timestamp_ms)
        schema = newest if found is None else table.metadata.load_schema(found.schema_id)
        planned = plan_state(table.metadata, found, schema, where, layers=layers)
    return TableScan(table.metadata, planned, columns=columns, limit=limit)


def scan_committed(
    table: TableHandle,
    *,
    where: str | Predicate | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> TableScan:
    """Plan a scan of the newest state as the next compaction leaves it, with what readers do not see before: for verbs that
    read before they write.
    """
    schema = table.schema
    planned = on_newest(table.metadata, lambda found: plan_state(table.metadata, found, schema, where, least_level=0))
    return TableScan(table.metadata, planned, columns=columns, limit=limit)


def plan_state(
    metadata: TableMetadata,
    found: Snapshot | None,
    schema: TableSchema,
    where: str | Predicate | None = None,
    *,
    layers: PlanOptions | None = None,
    least_level: int | None = None,
) -> ScanPlan:
    """Plan a scan of a snapshot that was found before, in the columns of a schema.

    errors   NotFoundError, which says that the snapshot has expired or was rolled back, when it was
    """
    predicate = bind_where(where, schema)
    with says_expired(metadata, found):
        return plan_scan(
            metadata,
            found,
            schema,
            predicate,
            bucket_finder=make_bucket_finder(metadata, schema),
            embedded_test=FileIndexTest(metadata.store, BoundPredicate(predicate, schema.fields)).embedded_may_match,
            layers=layers,
            least_level=least_level,
        )


def bind_where(where: str | Predicate | None, schema: TableSchema) -> Predicate:
    """Bind a filter, text or tree, to the schema's columns and types."""
    if where is None:
        return TRUE
    if isinstance(where, str):
        # sqlglot takes a fifth of a second to import: only text needs it.
        from lakeidx.predicate.parse import parse_where

        return parse_where(where, schema.fields)
    if not isinstance(where, Predicate):
        raise InvalidInputError(f"where must be SQL text or a predicate, not {where!r}")
    return bind(where, schema.fields)


def _check_same(have: TableSchema, wanted: TableSchema, path: str) -> None:
    if [(f.name, f.type) for f in have.fields] != [(f.name, f.type) for f in wanted.fields]:
        raise InvalidInputError("the table exists with other columns", path=path)
    if have.primary_keys != wanted.primary_keys or have.partition_keys != wanted.partition_keys:
        raise InvalidInputError("the table exists with another primary key or partitioning", path=path)
