"""The table for Python users: every operation on a table, in one object.

table = lakeidx.Table.create("/lake/db.db/users", {"fields": [...], "primaryKeys": ["id"], "options": {"bucket": "-1"}})
table.upsert(pa.table({"id": [1, 2], "name": ["Ada", "Alan"]}))
table.scan(where="id = 1").to_arrow()

Upserts and scans are imported with the class; what the other verbs need comes with the first call of one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from threading import Event
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import pyarrow as pa

from lakeidx.api.arrow_input import Rows, absent_columns, as_stream, as_table, step_rows
from lakeidx.api.folder_load import load_folder, watch_folder
from lakeidx.api.history import HistoryMethods, of_table
from lakeidx.api.listings import (
    as_html,
    as_line,
    describe_table,
    list_buckets,
    list_files,
    list_index_files,
    list_snapshots,
    locate_rows,
)
from lakeidx.api.maintenance import Maintenance, advise_new_table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import BatchContext, make_context, new_batch_id
from lakeidx.batch.index_types import TableIndex, check_index_type
from lakeidx.batch.stages.memory_staging import fits_memory, memory_staging
from lakeidx.batch.upsert import OnStage, finish_batch, ingest_rows
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.landing.kind_rules import OnDelete
from lakeidx.landing.new_columns import merge_policy
from lakeidx.maintenance.after_commit import compact_after_commit
from lakeidx.maintenance.landed_columns import ingest_given, ingest_landing
from lakeidx.options.arguments import PathLike, paths
from lakeidx.options.limits import GivenLimits
from lakeidx.table.handle import TableHandle
from lakeidx.tasks.runner import RunnerLike, make_runner

if TYPE_CHECKING:
    from lakeidx.api.merge import Merge
    from lakeidx.format.schema.edits import TypeSpec
    from lakeidx.landing.read import LandingOptions
    from lakeidx.lookup.point.table_lookup import TableLookup
    from lakeidx.maintenance.alter import AlterResult
    from lakeidx.predicate import Predicate
    from lakeidx.table.scan.changes import ChangeScan
    from lakeidx.table.scan.incremental import IncrementalMode
    from lakeidx.table.scan.states import StateName
    from lakeidx.table.scan.table_scan import TableScan
    from lakeidx.table.stream.follow import StreamStep
    from lakeidx.table.stream.start import Start
    from lakeidx.table.times import Moment

log = logging.getLogger(__name__)
V = TypeVar("V", bound=Callable[..., Any])


def plannable(verb: V) -> V:
    """Let a verb of a table, or of a merge into it, be run with ``dry_run=True``: it gives a `BatchPlan`, and writes nothing."""

    @wraps(verb)
    def run(holder: Any, *args: Any, dry_run: bool = False, **given: Any) -> Any:
        if not dry_run:
            return verb(holder, *args, **given)
        from lakeidx.api.dry_run.plan import plan_of

        return plan_of(verb, holder, *args, **given)

    return run  # type: ignore[return-value]


class Table(HistoryMethods, TableHandle):
    """One table, by its directory; cheap to make, pickles, metadata that was read is kept."""

    #: By whether they answer from what readers do not see yet, for verbs that write.
    _lookups: dict[bool, TableLookup] | None = None

    #: For a table that does not exist yet; see `advise` for one that does.
    advise_files = staticmethod(advise_new_table)

    load = load_folder
    watch = watch_folder
    describe = describe_table
    snapshots = list_snapshots
    files = list_files
    buckets = list_buckets
    index_files = list_index_files
    keys = locate_rows
    __repr__ = as_line
    _repr_html_ = as_html
    compact = of_table(Maintenance.compact)
    expire = of_table(Maintenance.expire)
    orphans = of_table(Maintenance.orphans)
    metrics = of_table(Maintenance.metrics)
    partitions = of_table(Maintenance.partitions)
    drop_partitions = of_table(Maintenance.drop_partitions)
    expire_partitions = of_table(Maintenance.expire_partitions)
    mark_done = of_table(Maintenance.mark_done)
    consumers = of_table(Maintenance.consumers)
    delete_consumer = of_table(Maintenance.delete_consumer)
    rebuild_index = of_table(Maintenance.rebuild_index)
    resize_rings = of_table(Maintenance.resize_rings)
    build_lookup_store = of_table(Maintenance.build_lookup_store)
    held_batches = of_table(Maintenance.held_batches)
    held_batch = of_table(Maintenance.held_batch)
    explain_batch = of_table(Maintenance.explain_batch)
    release_batch = of_table(Maintenance.release_batch)
    discard_batch = of_table(Maintenance.discard_batch)
    advise = of_table(Maintenance.advise)
    verify = of_table(Maintenance.verify)
    system = of_table(Maintenance.system)

    @property
    def maintenance(self) -> Maintenance:
        """The verbs that keep the table small, fast and right; each is also a method of the table."""
        return Maintenance(self)

    @classmethod
    def create(
        cls,
        uri: PathLike,
        spec: Mapping[str, Any],
        storage_options: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Self:
        """Create a table; see `TableHandle.create`. What its index type cannot promise is logged.

        errors   besides InvalidInputError, UnsupportedError for index options that cannot be used with the table
        """
        schema = new_schema(spec)
        if schema.asks_for_index:
            check_index_type(schema)
            if limits := TableIndex.of(schema).limits:
                log.warning("index type %s: %s", TableIndex.of(schema).name, limits)
        return super().create(uri, spec, storage_options, exist_ok=exist_ok)

    @classmethod
    def create_from(
        cls, uri: PathLike, rows: Rows, *, primary_key: Sequence[str] = (), partition_by: Sequence[str] = ()
    ) -> Self:
        """Create a table of rows; see `create_from_rows`."""
        from lakeidx.api.inference.rows import create_from_rows

        return create_from_rows(cls, uri, rows, primary_key, partition_by)

    def alter(
        self,
        *,
        add: Mapping[str, TypeSpec] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        types: Mapping[str, TypeSpec] | None = None,
        nullable: Mapping[str, bool] | None = None,
        comments: Mapping[str, str | None] | None = None,
        defaults: Mapping[str, str | None] | None = None,
        move: Mapping[str, str] | None = None,
        set: Mapping[str, Any] | None = None,
        reset: Sequence[str] = (),
        comment: str | None = None,
        dry_run: bool = False,
    ) -> AlterResult:
        """Change columns and options: all of the changes, as one new schema, or none. Data files stay as they are.

        Fields of a ROW are named by their path (``address.city``), what an ARRAY or MAP holds by ``lines.element.price``.
        add       new columns -> type; rows that are there have null in them
        types     columns -> wider type
        move      columns -> ``first`` or ``after NAME``
        set, reset   options
        dry_run   check and compare only
        errors    InvalidInputError, UnsupportedError naming what cannot change and why; see `SchemaEdits`
        """
        from lakeidx.format.schema.edits import SchemaEdits
        from lakeidx.maintenance.alter import alter_table

        edits = SchemaEdits(
            add=add, drop=drop, rename=rename, types=types, nullable=nullable, comments=comments, defaults=defaults,
            move=move, set=set, reset=reset, comment=comment,
        )  # fmt: skip
        return alter_table(self, edits, dry_run=dry_run)

    @overload
    def scan(
        self,
        where: str | Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        timestamp_ms: int | None = None,
        limit: int | None = None,
        batch: str | None = None,
    ) -> TableScan: ...

    @overload
    def scan(
        self,
        where: str | Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        incremental: tuple[StateName, StateName | None],
        mode: IncrementalMode | str = "auto",
        kinds: bool = False,
        batch: str | None = None,
    ) -> ChangeScan: ...

    def scan(
        self,
        where: str | Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment | None = None,
        timestamp_ms: int | None = None,
        limit: int | None = None,
        incremental: tuple[StateName, StateName | None] | None = None,
        mode: IncrementalMode | str = "auto",
        kinds: bool = False,
        batch: str | None = None,
    ) -> TableScan | ChangeScan:
        """Plan a scan of one state of the table, or of the rows between two; reading starts when its rows are requested.

        The result is an Arrow stream: DuckDB, Polars, pandas, PyArrow and others take it as it is.
        where        SQL text (``"carrier = 'UA' AND month >= 6"``) or a predicate
        columns      columns to give back, in order; None = all
        state        newest unless one of `snapshot`, `tag`, `timestamp` is given; time travel reads with the schema of that time
        timestamp    ISO text, datetime, or epoch milliseconds; without a zone UTC
        incremental  (after, upto): what the commits in between brought, by `mode`; see `changes`
        kinds        with `incremental`: rows have their kind in ``_rowkind``, deletes among them; else only new and changed rows
        batch        a held batch (`held_batches`): read the table as it would be with it; with `incremental` what it would change
        """
        from lakeidx.table.scan.table_scan import scan_table
        from lakeidx.table.times import epoch_ms

        table: TableHandle = self
        if batch is not None:
            from lakeidx.api.reads import with_batch

            table = with_batch(self, batch)
        if incremental is None:
            if kinds or mode != "auto":
                raise InvalidInputError("kinds and mode need incremental, the two states whose changes are read")
            if timestamp is not None and timestamp_ms is not None:
                raise InvalidInputError("give timestamp or timestamp_ms, not both")
            ms = timestamp_ms if timestamp is None else epoch_ms(timestamp)
            return scan_table(
                table, where=where, columns=columns, snapshot=snapshot, tag=tag, timestamp_ms=ms, limit=limit
            )
        if any(v is not None for v in (snapshot, tag, timestamp, timestamp_ms)):
            raise InvalidInputError("incremental=(after, upto) cannot be combined with another state")
        from lakeidx.table.scan.changes import scan_between
        from lakeidx.table.scan.incremental import IncrementalMode
        from lakeidx.table.scan.layout import Layout

        layout = Layout.KINDS if kinds else Layout.PLAIN
        return scan_between(
            table.metadata, incremental, where, columns=columns, limit=limit, mode=IncrementalMode(mode), layout=layout
        )

    def changes(
        self,
        after: StateName,
        upto: StateName | None = None,
        *,
        mode: IncrementalMode | str = "auto",
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> ChangeScan:
        """Plan the changes of the snapshots in (after, upto], each row with its kind (+I -U +U -D) in column ``_rowkind``.

        after, upto   snapshot ids, tags or ISO times; 0 = from the beginning, None = up to the newest
        mode          see `lakeidx.table.scan.changes`; ``derived`` works for tables without a changelog producer, ``diff``
                      compares the two states and gives every key once
        where         tested on each row by its own values
        returns       an Arrow stream: ``to_arrow``, ``to_reader``, or any library that takes ``__arrow_c_stream__``
        errors        InvalidInputError, NotFoundError when a snapshot of the range has expired
        """
        return self.scan(incremental=(after, upto), mode=mode, kinds=True, where=where, columns=columns, limit=limit)

    def follow(
        self,
        start: int | str | Start = "latest-full",
        *,
        consumer: str | None = None,
        ignore_progress: bool = False,
        every: float | None = None,
        stop: Event | None = None,
        mode: IncrementalMode | str = "auto",
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> Generator[StreamStep]:
        """Follow the table: yield what each snapshot brings, with row kinds, a step a snapshot.

        Asking for the next step says that the one before is done. While the stream runs, expiry (Java's, too) leaves what it
        has not read.

        start            latest-full (the whole newest state, then each commit), latest, compacted-full, earliest, a snapshot
                         id (with its commit), a tag (what came after it) or an ISO time
        consumer         id under which the table keeps what is done: the stream resumes there, whatever `start` says
        ignore_progress  begin at `start` although the consumer has progress
        every            seconds between two looks for new snapshots; None = end at the newest one
        stop             ends the stream before its next step
        mode             as for `changes`, without diff
        errors           NotFoundError when a snapshot it is to read has expired; InvalidInputError when one it has read was
                         rolled back or replaced
        """
        from lakeidx.api.reads import start_stream

        return start_stream(
            self.metadata, start, consumer, mode, where, columns,
            ignore_progress=ignore_progress, every=every, stop=stop,
        )  # fmt: skip

    def diff(
        self,
        before: StateName,
        after: StateName,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> ChangeScan:
        """Compare two states by key: every row that is new, changed (before and after) or deleted, once.

        before, after   snapshot ids, tags, ISO times, ``branch:NAME`` or ``branch:NAME@STATE``
        returns         rows with their kinds; ``.stat()`` counts them by kind, and changed values by column
        """
        from lakeidx.table.scan.incremental import IncrementalMode

        return self.changes(before, after, mode=IncrementalMode.DIFF, where=where, columns=columns)

    def lookup(self, keys: Rows) -> pa.Table:
        """Look up the rows of some keys in the newest snapshot; loaded blocks are cached for the next call.

        keys      the primary key's columns
        returns   one row per key, in their order: column ``_FOUND`` (bool), then the table's columns, null when not found
        errors    InvalidInputError for a missing or wrong key column, or a column ``_FOUND`` of the table; CorruptFileError
        """
        return self._look_up(keys, unseen=False)

    def _look_up(self, keys: Rows, *, unseen: bool) -> pa.Table:
        """Look up rows; `unseen`: of this branch alone, with what readers see after a compaction."""
        from lakeidx.lookup.point.table_lookup import TableLookup

        lookups = self._lookups = self._lookups or {}
        if unseen not in lookups:
            lookups[unseen] = TableLookup(self.metadata, unseen=unseen, falls_back=not unseen)
        answer = lookups[unseen].lookup(as_table(keys))
        if "_FOUND" in answer.rows.column_names:
            raise InvalidInputError("the table has a column '_FOUND', the name of the answer's first column: rename it")
        return answer.rows.add_column(0, "_FOUND", pa.array(answer.found))

    @plannable
    def upsert(
        self,
        rows: Rows,
        *,
        batch_id: str | None = None,
        missing: str = "refuse",
        on_delete: OnDelete = "apply",
        merge_schema: bool | str = False,
        dry_run: bool = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult:
        """Insert new keys, update known ones; row kinds (+I -U +U -D) in column ``_kind`` when present.

        rows       the table's columns in any order; a record batch reader without kinds and `batch_id` is staged as it comes
        batch_id   name of the batch: a batch of the same name that was committed changes nothing
        missing    columns that `rows`, or single dictionaries, do not have: ``refuse``; ``null`` sets them to null (or their
                   default), also in rows that are there. Merge engines partial-update and aggregation keep the old values, so
                   there columns may always be missing
        on_delete  what becomes of rows of kind -D and -U: ``apply``, where the table's merge engine and options take them;
                   ``reject``; ``ignore``: left out, and counted; ``remove``: a -D removes the row, which the table's options
                   must say (`partial-update.remove-record-on-delete`). Or one for each kind, ``{"-D": "remove", "-U": "ignore"}``
        merge_schema  columns that the table does not have: refused; ``add`` adds them, nullable and at the end; True or
                   ``widen`` also widens columns to the types that `rows` have (lists of dictionaries have none). Keys and
                   partition columns stay as they are. The schema changes with the batch: not when that is refused, or was
                   ingested before
        limits     hold the batch beyond them (BatchHeldError): ``{"deletes": "5%"}``; default: option ``lakeidx.limits``; {}: none
        dry_run    write nothing: a `BatchPlan`, which says what the batch would do (`lakeidx.api.dry_run`)
        runner     where stages run; default this process, two threads
        on_stage   called with the name of each stage as it begins
        errors     InvalidInputError naming row and column, CommitUnknownError, UnavailableError
        """
        context = self._context(batch_id, runner, limits=limits)
        own = batch_id is None and runner is None
        return self._write(context, rows, missing, merge_schema, on_stage, on_delete=on_delete, own=own)

    def upsert_changes(
        self,
        step: StreamStep,
        *,
        missing: str = "refuse",
        on_delete: OnDelete = "apply",
        merge_schema: bool | str = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
    ) -> BatchResult | None:
        """Upsert what a step of another table's stream brings (`follow`), as one batch; None when it has no row.

        The batch is named after the step: one that comes again, as its run ended before it was recorded, changes nothing.
        errors   as for `upsert`
        memory   the rows of the step
        """
        rows = step_rows(step.changes.to_arrow(), self.schema.table_options.rowkind_field)
        if not rows.num_rows:
            return None
        return self.upsert(
            rows, batch_id=step.batch_id, missing=missing, on_delete=on_delete, merge_schema=merge_schema, limits=limits,
            runner=runner,
        )  # fmt: skip

    @plannable
    def overwrite(
        self,
        rows: Rows,
        *,
        whole_table: bool = False,
        where: str | Predicate | None = None,
        batch_id: str | None = None,
        merge_schema: bool | str = False,
        dry_run: bool = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult:
        """Replace the partitions that `rows` touch, or the whole table, by `rows`; columns they do not have are null.

        where    replace all partitions it holds for, also those that `rows` do not touch, and no others: a condition over
                 partition columns
        merge_schema, dry_run, limits   as for `upsert`
        errors   InvalidInputError also for a row that `where` does not hold for, before anything is visible
        """
        mode = "table" if whole_table else "partitions"
        if whole_table and where is not None:
            raise InvalidInputError("overwrite the whole table, or the partitions of a condition (where), not both")
        context = self._context(batch_id, runner, overwrite=mode, limits=limits, where=where)
        return self._write(context, rows, "null", merge_schema, on_stage)

    @plannable
    def upsert_files(
        self,
        files: Sequence[PathLike],
        options: LandingOptions | None = None,
        *,
        batch_id: str | None = None,
        strict: bool = False,
        max_rejected: str | int | None = None,
        overwrite: str | None = None,
        dry_run: bool = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult:
        """Upsert landing files (Parquet, CSV, JSON lines, changes of a database) as one batch; bad rows go aside, with reasons.

        strict        refuse the batch when a row is rejected (RejectedRowsError)
        max_rejected  refuse it when more rows are: ``100``, ``5%`` or ``100,5%``
        overwrite     None, ``partitions`` (those the files have rows for) or ``table``
        dry_run, limits   as for `upsert`
        """
        from lakeidx.landing.reject_limit import RejectLimit

        context = self._context(batch_id, runner, overwrite=overwrite, limits=limits)
        limit = None if max_rejected is None else RejectLimit.parse(max_rejected)
        (tell := on_stage or (lambda stage: None))("ingest")
        ingest_landing(context, paths(files, name="files"), options, strict=strict, max_rejected=limit)
        return self._finished(finish_batch(context, tell), context)

    @plannable
    def delete(
        self,
        keys: Rows | None = None,
        *,
        where: str | Predicate | None = None,
        batch_id: str | None = None,
        dry_run: bool = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult | None:
        """Delete rows by key, or all rows that match a condition, as one batch.

        Rows are looked for in the newest snapshot, also those that readers see only after a compaction (deletion vectors); more
        than 10,000 in the hash index alone where -D rows are keys, and manifests say that it has no deleted ones. A row that
        another batch updates before this one commits is deleted, too, unless `sequence.field` orders it later.

        keys      the primary key's columns; keys that are not there are skipped
        where     as for `scan`
        dry_run, limits   as for `upsert`
        returns   None when no row was found: then nothing is written
        errors    InvalidInputError without exactly one of the two, or a primary key; UnsupportedError by merge engine
        memory    the rows to delete (of a deduplicate table only keys and what decides their order)
        """
        from lakeidx.api.verbs import delete_rows

        return delete_rows(self, keys, where, batch_id=batch_id, limits=limits, runner=runner, on_stage=on_stage)

    @plannable
    def update(
        self,
        set: Mapping[str, Any],
        *,
        keys: Rows | None = None,
        where: str | Predicate | None = None,
        batch_id: str | None = None,
        dry_run: bool = False,
        limits: GivenLimits | None = None,
        runner: RunnerLike = None,
        on_stage: OnStage | None = None,
    ) -> BatchResult | None:
        """Change columns of rows by key or by a condition, as one batch; read again where others have written meanwhile.

        set       by column: a SQL expression over the row's columns, ``{"qty": "qty * 10"}``, or a value that is no text
        keys      the primary key's columns; keys that are not there are skipped
        where     as for `scan`; without it and keys every row
        dry_run   as for `upsert`
        limits    as for `upsert`
        returns   None when no row was found
        errors    InvalidInputError for a column of the key and what DuckDB does not understand; UnsupportedError by merge engine
        memory    the rows that change, where those are given by keys, `set` looks at other rows, or `batch_id`, `runner` is given
        """
        from lakeidx.api.verbs import update_rows

        return update_rows(self, set, keys, where, batch_id=batch_id, limits=limits, runner=runner, on_stage=on_stage)

    def merge(self, source: Rows, on: Sequence[str] | str, *, aliases: tuple[str, str] = ("target", "source")) -> Merge:
        """Begin a merge of a source into the table: ``merge(rows, on=["id"]).when_matched_update_all().execute()``."""
        from lakeidx.api.merge import Merge

        return Merge(self, source, on, aliases)

    def _write(
        self,
        context: BatchContext,
        rows: Rows,
        missing: str,
        merge_schema: bool | str,
        on_stage: OnStage | None,
        *,
        on_delete: OnDelete = "apply",
        own: bool = False,
    ) -> BatchResult:
        """Run rows in memory through all stages; `own`: nobody else knows the batch's id, and it runs in this process."""
        (tell := on_stage or (lambda stage: None))("ingest")
        policy = "add" if (asked := merge_policy(merge_schema)) == "widen" and isinstance(rows, list) else asked
        given = as_stream(rows, context.schema.fields, whole=not own or policy != "refuse")
        with memory_staging(context) if own and fits_memory(context, given) else nullcontext(context) as running:
            known = partial(ingest_rows, schema=running.schema)
            ingest = known if policy == "refuse" else partial(ingest_given, merge_schema=policy)
            ingest(running, given, missing=missing, absent=absent_columns(rows), on_delete=on_delete)
            result = finish_batch(running, tell)
        return self._finished(result, context)

    def _context(self, batch_id: str | None, runner: RunnerLike, **asked: Any) -> BatchContext:
        name = new_batch_id() if batch_id is None else batch_id
        return make_context(self.metadata, name, runner=make_runner(runner), **asked)

    def _finished(self, result: BatchResult, context: BatchContext) -> BatchResult:
        if self.metadata.seen_schema().table_options.compacts_after_commit:
            compact_after_commit(self.metadata, context.runner, result.assign)
        return result

    def file_system(self) -> Any:
        """Return an fsspec file system that opens the paths of `files` with the table's storage options, for other libraries."""
        from lakeidx.storage import file_system

        return file_system(self.store)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_lookups"}
