"""A warehouse: the folder of databases, which contain tables (``<warehouse>/<database>.db/<table>``)."""

from __future__ import annotations

import html
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeidx.api.reports import DropResult
from lakeidx.api.table import Table
from lakeidx.batch.artifacts import staging_root
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, did_you_mean
from lakeidx.format.paths import MAIN_BRANCH, TablePaths, check_table_name, split_table_name
from lakeidx.maintenance.branches.losses import who_has
from lakeidx.options.arguments import PathLike, as_text, path_text, paths
from lakeidx.results import Listing
from lakeidx.storage import join, name_of, open_store
from lakeidx.storage.files import copy_file, parent_of
from lakeidx.storage.local import absolute
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.runner import RunnerLike, make_runner

if TYPE_CHECKING:
    import builtins

    from lakeidx.api.feeds import FeedResult
    from lakeidx.api.sql.query import QueryResult
    from lakeidx.api.sql.verbs import VerbResult
    from lakeidx.api.system_table import SystemRows
    from lakeidx.batch.upsert import OnStage
    from lakeidx.landing.feed_options import FeedOptions
    from lakeidx.landing.types import LandingOptions
    from lakeidx.options.limits import GivenLimits

log = logging.getLogger(__name__)

_SUFFIX = ".db"


class Warehouse:
    """The tables below one folder or ``s3://`` prefix, by ``database.table``.

    uri              ``/lake`` or ``s3://bucket/lake``
    storage_options  as for `Table.open`
    """

    def __init__(self, uri: PathLike, storage_options: Mapping[str, Any] | None = None) -> None:
        uri = path_text(uri, name="a warehouse")
        self.uri = uri.rstrip("/") or "/"
        self.storage_options = storage_options
        self.store = open_store(uri, storage_options)

    def path(self, name: str) -> str:
        """Return the directory of ``database.table``; InvalidInputError for another form."""
        database, table = split_table_name(name)
        return join(self.uri, f"{database}{_SUFFIX}", table)

    def databases(self) -> list[str]:
        """Return the names of the databases, sorted."""
        return sorted(f.name[: -len(_SUFFIX)] for f in self.store.list(self.uri) if f.is_dir and _is_database(f.name))

    def tables(self, database: str | None = None) -> list[str]:
        """Return the names of the tables as ``database.table``, sorted; all, or those of one database."""
        return list(self._names(self.databases() if database is None else [as_text(database, name="database")]))

    def list(self) -> Listing:
        """Return the tables with their newest snapshot, rows (stored versions) and columns; for unreadable ones the reason."""
        return Listing([self._describe(name) for name in self.tables()])

    def table(self, name: str) -> Table:
        """Open ``database.table``.

        errors   NotFoundError naming the tables there are, the nearest first
        """
        try:
            return Table.open(self.path(name), self.storage_options)
        except NotFoundError as error:
            raise NotFoundError(f"no table {name!r}; {self._near(name)}", path=self.uri) from error

    def system(self, name: str) -> SystemRows:
        """Return a system table of Paimon's database ``sys``: tables, partitions, catalog_options or all_table_options.

        errors   InvalidInputError naming the tables there are
        """
        from lakeidx.api.system_table import warehouse_system

        return warehouse_system(self, name)

    def create(self, name: str, spec: Mapping[str, Any], *, exist_ok: bool = False) -> Table:
        """Create ``database.table``; see `Table.create`."""
        return Table.create(self.path(name), spec, self.storage_options, exist_ok=exist_ok)

    def sync_database(
        self,
        database: str,
        files: Sequence[PathLike],
        landing: LandingOptions,
        feed: FeedOptions | None = None,
        *,
        strict: bool = False,
        max_rejected: str | int | None = None,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> builtins.list[FeedResult]:
        """Bring feed files, in order, each with messages of many tables of a source, into the tables of a database; tables that are
        not there are made.

        landing   how messages are read: `format` is one of debezium, canal, maxwell, ogg, dms-json; the feed says `merge_schema`
                  and `source`
        feed      which tables, under which names
        strict, max_rejected   as for `Table.upsert_files`, for each table; and for the lines that are of no table
        limits    as there: a table's batch beyond one is held, an error of this table; once it is released or discarded, the
                  feed goes on where it stopped
        errors    FeedError after a file of which some tables could not get their rows, and no file after it; InvalidInputError
                  for options; NotFoundError, CorruptFileError for a file that cannot be read
        """
        from lakeidx.api.feeds import FeedSync
        from lakeidx.landing.feed_options import FeedOptions

        feed, name = feed or FeedOptions(), as_text(database, name="database")
        sync = FeedSync(self, name, landing, feed, strict, max_rejected, limits, make_runner(runner), on_stage)
        return sync.run([absolute(f) for f in paths(files, name="files")])

    def sql(
        self,
        statement: str,
        *,
        sources: Mapping[str, Any] | None = None,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
    ) -> QueryResult | VerbResult:
        """Run one SQL statement, in Spark's dialect: a query by DuckDB over the tables' scans, a verb by the call that does it.

        statement   SELECT, INSERT (which upserts by key), INSERT OVERWRITE, UPDATE, DELETE, MERGE INTO, CREATE, ALTER, TRUNCATE
                    and DROP TABLE, COMMENT ON, SHOW, DESCRIBE, EXPLAIN, CALL; tables are ``database.table``
        sources     rows that it may name as a table: Arrow data, data frames, lists of dictionaries, by name
        limits      of a verb, as for `Table.upsert`
        runner      where the stages of a verb run
        returns     a query's rows as an Arrow stream with `to_arrow`; of a verb the numbers `inserted`, `updated`, `deleted`
        errors      InvalidInputError naming line and column of what is not understood; those of the calls
        """
        from lakeidx.api.sql.run import run_statement
        from lakeidx.api.sql.statement import one_statement

        return run_statement(one_statement(statement), self, sources, {"runner": runner, "limits": limits})

    def drop(self, name: str, *, dry_run: bool = False) -> DropResult:
        """Delete a table with all its files and the staging of its batches; no one may be at work on it.

        errors    NotFoundError when there is no such table
        """
        return drop_table(self.table(name), dry_run=dry_run)

    def rename(self, name: str, to: str) -> int:
        """Give a table another name: its files are copied, the schemas last, and then those of the old name deleted.

        No one may be at work on it. A rename that was interrupted leaves the table under its old name, or under both. Iceberg
        metadata, which names files by whole paths, is made anew.
        returns   files copied
        errors    NotFoundError when there is no such table; InvalidInputError when the new name is taken, or is none of a table
        """
        from lakeidx.table.iceberg.publish import publish_iceberg

        table, target = self.table(name), self.path(to)
        check_table_name(name_of(target), path=target)
        if next(iter(self.store.walk(target)), None) is not None:
            raise InvalidInputError(
                f"there is something under the name {to!r}: drop it first, or take another", path=target
            )
        schemas, iceberg = TablePaths(table.uri).schema_dir, f"{table.uri}/metadata/"
        found = [f.path for f in self.store.walk(table.uri) if not f.path.startswith(iceberg)]

        def copy(path: str) -> None:
            copy_file(self.store, path, target + path[len(table.uri) :])

        in_parallel(copy, [p for p in found if not p.startswith(schemas)])
        in_parallel(copy, [p for p in found if p.startswith(schemas)])
        drop_table(table)
        renamed = self.table(to).metadata
        publish_iceberg(renamed, renamed.latest_schema())
        log.info("%s: renamed to %s, %d files", table.uri, target, len(found))
        return len(found)

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __contains__(self, name: str) -> bool:
        return name in self.tables(as_text(name, name="a table").partition(".")[0])

    def __repr__(self) -> str:
        return f"Warehouse({self.uri!r}, {len(self.tables())} tables)"

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self.uri)}</b>{self.list()._repr_html_()}"

    def _names(self, databases: Iterator[str] | Any) -> Iterator[str]:
        for database in databases:
            folder = join(self.uri, f"{database}{_SUFFIX}")
            for entry in self.store.list(folder):
                if entry.is_dir and any(f.name == "schema-0" or f.name.startswith("schema-")
                                        for f in self.store.list(join(folder, entry.name, "schema"))):  # fmt: skip
                    yield f"{database}.{entry.name}"

    def _describe(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {"table": name}
        try:
            table = Table.open(self.path(name), self.storage_options)
            snapshot = table.snapshot
            row["columns"] = len(table.schema.fields)
            row["snapshot"] = None if snapshot is None else snapshot.id
            row["rows"] = 0 if snapshot is None else snapshot.total_record_count
        except LakeIdxError as error:
            row["error"] = error.message
        return row

    def _near(self, name: str) -> str:
        return did_you_mean(name, self.tables(), empty="the warehouse is empty")


def drop_table(table: Table, *, dry_run: bool = False) -> DropResult:
    """Delete a table's directory, the staging of its batches and what an Iceberg catalog has of it; the schema is deleted last, so
    that an interrupted drop can be repeated.
    """
    if table.paths.branch != MAIN_BRANCH:
        raise InvalidInputError(
            "this is a branch: `lakeidx branch delete` (Table.delete_branch) deletes it", path=table.uri
        )
    store = table.store
    in_table, in_staging = list(store.walk(table.uri)), list(store.walk(staging_root(table.paths)))
    catalog = None
    try:
        catalog = _in_iceberg_catalog(table)
        rows = 0 if table.snapshot is None else table.snapshot.total_record_count or 0
        loses = who_has(table.metadata)
    except LakeIdxError as error:
        rows, loses = 0, (f"some of it cannot be read: {error.message}",)
    in_staging += store.walk(catalog) if catalog is not None else ()
    size = sum(f.size for f in (*in_table, *in_staging))
    result = DropResult(table.uri, rows, len(in_table) + len(in_staging), size, loses, dry_run)
    if dry_run:
        return result
    files, staged = [f.path for f in in_table], [f.path for f in in_staging]
    schema_dir = TablePaths(table.uri).schema_dir
    last = [p for p in files if p.startswith(schema_dir)]
    store.delete_many([*staged, *(p for p in files if not p.startswith(schema_dir))])
    store.delete_many(last)
    folders = sorted({p.rpartition("/")[0] for p in (*files, *staged)}, key=len, reverse=True)
    for folder in (*_with_parents(folders, table.uri), *([] if catalog is None else [parent_of(catalog)])):
        store.delete_empty_dir(folder)
    log.info("%s: dropped, %d files", table.uri, len(files) + len(staged))
    return result


def _in_iceberg_catalog(table: Table) -> str | None:
    """Return the directory of the table's metadata in an Iceberg catalog, None where it is in no other than the table's."""
    from lakeidx.table.iceberg.files import metadata_dir

    if not table.schema.table_options.writes_iceberg:
        return None
    found = metadata_dir(table.uri, table.schema)
    return None if found.startswith(f"{table.uri}/") else found


def _with_parents(folders: list[str], root: str) -> list[str]:
    """Return folders and their parents below the table's directory, deepest first."""
    every = set(folders) | {root}
    for folder in folders:
        while folder.startswith(root) and folder != root:
            every.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(every, key=len, reverse=True)


def _is_database(name: str) -> bool:
    return name.endswith(_SUFFIX) and len(name) > len(_SUFFIX)
