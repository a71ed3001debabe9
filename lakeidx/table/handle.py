"""A table by its directory: create and open; `lakeidx.table.scan.table_scan` scans it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import MAIN_BRANCH, TablePaths, check_table_name, split_branch_name
from lakeidx.format.schema.feature_gate import warn_once
from lakeidx.format.schema.schema_file import TableSchema, encode_schema, new_schema
from lakeidx.format.snapshot import Snapshot
from lakeidx.options import arguments
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.storage import open_store
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import name_of
from lakeidx.storage.local import absolute
from lakeidx.table.metadata import TableMetadata


class TableHandle:
    """One table. Cheap to make, pickles; metadata that was read is kept.

    metadata   what was read of the table before
    """

    def __init__(self, store: ObjectStore, paths: TablePaths, metadata: TableMetadata | None = None) -> None:
        self.store = store
        self.paths = paths
        if metadata is not None:
            self.metadata = metadata

    @cached_property
    def metadata(self) -> TableMetadata:
        """The table's metadata files, those that were read among them."""
        return TableMetadata(self.store, self.paths)

    @classmethod
    def open(
        cls, uri: PathLike, storage_options: Mapping[str, Any] | None = None, *, branch: str | None = None
    ) -> Self:
        """Open the table in a directory, or a branch of it.

        What the table's options request and lakeidx does not do is logged once; uses that would go wrong are refused when
        they are tried.

        uri      ``/lake/db.db/flights`` or ``s3://bucket/lake/db.db/flights``; ``…/flights$branch_NAME`` is its branch NAME
        branch   the branch; None: the one `uri` names, else that of the table's option `branch`, else ``main``
        errors   NotFoundError when the directory is not a table, or has no such branch; InvalidInputError for a system table
        """
        uri = path_text(uri)
        if "$" in uri:
            from lakeidx.table.system.names import split_system_name

            if split_system_name(uri)[1] is not None:
                raise InvalidInputError(
                    "system tables are read-only: use SystemTable.open, lakeidx scan, or Spark", path=uri
                )
        root, named = split_branch_name(uri)
        if branch is not None and named not in (None, branch):
            raise InvalidInputError(f"the path names branch {named!r}, not {branch!r}: give one of them", path=uri)
        asked = named if branch is None else arguments.as_text(branch, name="branch")
        store = open_store(root, storage_options)
        metadata = TableMetadata.open(store, absolute(root), branch=asked or MAIN_BRANCH)
        of_option = metadata.latest_schema().table_options.branch.strip() or MAIN_BRANCH
        if asked is None and of_option != MAIN_BRANCH:
            metadata = TableMetadata.open(store, absolute(root), branch=of_option)
        return cls(store, metadata.paths, metadata)

    def branch(self, name: str) -> Self:
        """Open a branch of the table; ``main`` is the table itself. NotFoundError names those there are."""
        metadata = TableMetadata.open(self.store, self.paths.root, branch=arguments.as_text(name, name="branch"))
        return type(self)(self.store, metadata.paths, metadata)

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
        return cls.create_in(open_store(uri, storage_options), uri, spec, exist_ok=exist_ok)

    @classmethod
    def create_in(cls, store: ObjectStore, uri: str, spec: Mapping[str, Any], *, exist_ok: bool = False) -> Self:
        """Create a table as `create` does in a store that is open, such as one in memory above what is there."""
        from lakeidx.table.usable import check_usable

        check_table_name(name_of(uri), path=uri)
        schema = new_schema(spec)
        table = cls(store, TablePaths.of(absolute(uri), schema))
        if not any(f.name.startswith("schema-") for f in table.store.list(table.paths.schema_dir)):
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
        """The table's directory; of a branch with ``$branch_NAME``, as `open` takes it."""
        return self.paths.uri

    @property
    def schema(self) -> TableSchema:
        """The newest schema."""
        return self.metadata.latest_schema()

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        return self.metadata.latest_snapshot()


def _check_same(have: TableSchema, wanted: TableSchema, path: str) -> None:
    if [(f.name, f.type) for f in have.fields] != [(f.name, f.type) for f in wanted.fields]:
        raise InvalidInputError("the table exists with other columns", path=path)
    if have.primary_keys != wanted.primary_keys or have.partition_keys != wanted.partition_keys:
        raise InvalidInputError("the table exists with another primary key or partitioning", path=path)
