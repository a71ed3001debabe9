"""Stage `ingest`: landing files to staged rows of the table's schema, bad rows split off with their reasons.

A landing Parquet file that already has the table's types and no nulls where none may be is staged *by reference*: later
stages read the file itself, checked to be the one that was ingested. Everything else is cast and staged as Parquet. Large text
files are cut into shares, so that no task reads more of one than its share.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeidx.batch.artifacts import BatchFiles, IngestReport, SourceFile, StagedPart
from lakeidx.batch.landed_files import landing_store, unchanged
from lakeidx.batch.parts import GROUP_BYTES, is_full, key_names, share_name
from lakeidx.batch.stages.given_rows import Publish, ingest_report
from lakeidx.batch.stages.part_writer import PartWriter
from lakeidx.batch.stages.rejected_rows import RejectedRows, RejectWriter, join_rejected
from lakeidx.batch.stages.rerun import check_landing, describe_sources
from lakeidx.data.declared import has_ranges, is_bounded, value_range
from lakeidx.data.parquet.chunks import FooterChunks
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.landing.cast_rows import CompleteRows, RefuseRows, cast_piece
from lakeidx.landing.changes import OP_COLUMN, OTHER_TABLES, ReadChanges, change_formats, message_formats, refuse_tables
from lakeidx.landing.kind_rules import KIND_COLUMN, KindRules, check_on_delete, has_upserts
from lakeidx.landing.missing_columns import (
    LackingRows,
    check_missing_mode,
    completes_from_table,
    needed_columns,
    refuse_missing,
)
from lakeidx.landing.new_columns import NewColumnsError, merge_policy, new_columns
from lakeidx.landing.read import landing_format, open_chunks, open_parquet, read_landing
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.text.compressed import encoding_of, without_codec
from lakeidx.landing.text.csv import CsvHeader, csv_header
from lakeidx.landing.text.json_arrays import is_array
from lakeidx.landing.text.shares import SHARE_BYTES, Crossing, TextShare, cross_range, plan_ranges, plan_text_shares
from lakeidx.landing.types import LandingOptions, Piece, check_columns
from lakeidx.landing.written.file_columns import names_in_file
from lakeidx.plugins import CHANGE_FORMATS, load_plugin
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.logs import stage_logs
from lakeidx.tasks.runner import Runner
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, Field, Root, to_arrow
from lakeidx.types.widening import is_widening

if TYPE_CHECKING:
    from lakeidx.lookup.point.table_lookup import TableLookup

_FOOTER_THREADS = 8
_BEGIN_BYTES = 64 << 10
_FLOATS = (Root.FLOAT, Root.DOUBLE)
log = logging.getLogger(__name__)


@stage_logs("ingest")
def run_ingest(
    files: BatchFiles,
    schema: TableSchema,
    landing: Sequence[str],
    options: LandingOptions,
    runner: Runner,
    *,
    table_id: str = "",
    strict: bool = False,
    limit: RejectLimit | None = None,
    overwrite: bool = False,
    new: Collection[str] = (),
    table: TableMetadata | None = None,
    judge: RefuseRows | None = None,
    publish: Publish | None = None,
) -> IngestReport:
    """Ingest the landing files of a batch, in order; return the report, of an earlier run if the stage has finished.

    table_id, table   its identity; the table, where rows are compared with the table's, or completed by them
    strict     refuse the batch when a row is rejected (nothing is published)
    limit      refuse it when more are; one whose rows are all rejected is always refused
    overwrite, new   the rows take the place of others; columns that the table gets with the batch
    judge      finds rows to reject; it is sent to the tasks
    publish    puts the schema, when it is one that the table does not have yet
    errors     NewColumnsError when files have columns to add to the table first; RejectedRowsError; InvalidInputError, also
               when the batch was ingested with other content; NotFoundError, CorruptFileError naming the landing file
    """
    done = files.read(IngestReport)
    if done is not None:
        check_landing(files.store, done, landing, options.storage_options)
        return done
    started = time.monotonic()
    options = _checked(schema, landing, options)
    sources = describe_sources(files.store, landing, options.storage_options)
    todo = _tasks(files, schema, options, sources, table, judge, overwrite=overwrite, new=new)
    place = options.storage_options
    with unchanged(files.store, sources, place, since="while it was read", then="run the batch again"):
        tasks, results = _ingest_all(todo, runner, label=_label(files, table, sources))
    _refuse_columns(tasks, results)
    rejected = _rejected(results, rows_in := sum(r.rows_in for r in results), limit, strict=strict)
    report = ingest_report(
        files,
        schema,
        table_id,
        started,
        sources=sources,
        parts=tuple(p for r in results for p in r.parts),
        rows_in=rows_in,
        rows_rejected=rejected.rows,
        rejected_path=rejected.path,
        reject_reasons=dict(rejected.reasons),
        skipped=_skipped(results, rows_in, options),
        newest_change_ms=max((r.newest_ms for r in results if r.newest_ms is not None), default=None),
        rows_ignored=sum(r.ignored for r in results),
        notes=_notes(tasks, results),
        completed_on=next((r.asked for r in results if r.asked is not None), None),
    )
    if publish is not None:
        publish()
    return files.close(report)


def _skipped(results: Sequence[IngestedFile], rows_in: int, options: LandingOptions) -> dict[str, int]:
    """Add up what was skipped; warn where that is all there was, of tables that were not asked for."""
    skipped = dict(sum((Counter(r.skipped) for r in results), Counter()))
    if not rows_in and (others := skipped.get(OTHER_TABLES, 0)):
        log.warning("none of %d messages is of source %s", others, ", ".join(options.source))
    return skipped


def _notes(tasks: Sequence[IngestTask], results: Sequence[IngestedFile]) -> tuple[str, ...]:
    """Join what was guessed about files; of many with the same guess the first is named."""
    found: dict[str, list[str]] = defaultdict(list)
    for task, result in zip(tasks, results, strict=True):
        for note in result.notes:
            found[note].append(task.file.path)
    notes = [f"{p[0]}{f' and {len(p) - 1} others' if len(p) > 1 else ''}: {note}" for note, p in found.items()]
    for note in notes:
        log.warning("%s", note)
    return tuple(notes)


def _tasks(
    files: BatchFiles,
    schema: TableSchema,
    options: LandingOptions,
    sources: Sequence[SourceFile],
    table: TableMetadata | None,
    judge: RefuseRows | None,
    *,
    overwrite: bool,
    new: Collection[str],
) -> list[IngestTask]:
    """Make the task of each landing file."""
    looks_up = options.check_before > 0 or completes_from_table(schema, options, overwrite=overwrite)
    one = IngestTask(
        files.store,
        schema,
        options,
        0,
        sources[0],
        files.new_dir("ingest"),
        table if looks_up else None,
        judge,
        new=new,
    )
    return [replace(one, source=i, file=s) for i, s in enumerate(sources)]


def _label(files: BatchFiles, table: TableMetadata | None, sources: Sequence[SourceFile]) -> str:
    place = "" if table is None else f" of {table.paths.root}"
    return (
        f"ingest: batch {files.batch_id}{place}: {len(sources):,} landing files, {sum(s.size for s in sources):,} bytes"
    )


def _checked(schema: TableSchema, landing: Sequence[str], options: LandingOptions) -> LandingOptions:
    """Return the options as tasks read them; InvalidInputError for those that mean nothing here, and for no file at all."""
    check_missing_mode(options.missing)
    check_on_delete(schema, options.on_delete)
    if options.source and options.format not in message_formats():
        raise InvalidInputError(f"source is for messages, which name their table: {', '.join(message_formats())}")
    if options.check_before:
        from lakeidx.batch.before_images import refuse_uncheckable

        refuse_uncheckable(schema, options)
    if not landing:
        raise InvalidInputError("a batch needs at least one landing file")
    # Where nothing depends on it, readers do not look for columns that rows lack.
    tells = needed_columns(schema) or schema.table_options.merge_engine == "aggregation"
    missing = options.missing if tells else "null"
    return replace(options, merge_schema=merge_policy(options.merge_schema), missing=missing)


def _refuse_columns(tasks: Sequence[IngestTask], results: Sequence[IngestedFile]) -> None:
    """Raise NewColumnsError when files have columns that the table has to get first, and refuse files that lack some of its."""
    tables, source = (
        {name: t.file.path for t, r in zip(tasks, results, strict=True) for name in r.tables},
        tasks[0].options.source,
    )
    if len(tables) > 1:
        refuse_tables(tables, source, path=next(reversed(tables.values())))
    merged: dict[str, DataType] = {}
    for task, result in zip(tasks, results, strict=True):
        _join_columns(merged, result.extra, path=task.file.path)
    if merged:
        raise NewColumnsError(merged)
    present: dict[int, frozenset[str]] = {}
    for task, result in zip(tasks, results, strict=True):
        present[task.source] = present.get(task.source, frozenset()) | result.present
    for task in (t for t, r in zip(tasks, results, strict=True) if r.upserts):
        what, names = "the landing file's rows", present[task.source] | {*task.options.optional}
        refuse_missing(task.schema, names, task.options.missing, what=what, path=task.file.path)
    brought = frozenset[str]()
    for task, result in zip(tasks, results, strict=True):
        late = sorted(result.passed & brought)
        if late:
            raise InvalidInputError(
                f"rows lack the columns {', '.join(late)}, which an earlier file of the batch brings into the table: give the "
                "files that bring them in an earlier batch, or say what that means with missing (null, before, table)",
                path=task.file.path,
            )
        brought |= result.brought


def _rejected(
    results: Sequence[IngestedFile], rows_in: int, limit: RejectLimit | None, *, strict: bool
) -> RejectedRows:
    """Join what was rejected; RejectedRowsError when that is too much."""
    rejected = join_rejected([r.rejected for r in results])
    why = (RejectLimit(count=0) if strict else limit or RejectLimit()).exceeded(rejected.rows, rows_in)
    if not why:
        return rejected
    first = rejected.first[0]
    error = RejectedRowsError(
        f"{rejected.rows} rows rejected and {'the batch is strict' if strict else why}; first: line {first['line']}: "
        f"{first['reason']}",
        path=first["source"],
    )
    error.rows_in, error.rows_rejected = rows_in, rejected.rows
    error.rejected_path, error.reject_reasons = rejected.path, rejected.reasons
    raise error


def _ingest_all(
    tasks: Sequence[IngestTask], runner: Runner, *, label: str
) -> tuple[list[IngestTask], list[IngestedFile]]:
    """Ingest all files: those staged by reference here, from their footers; the others in tasks, large texts in several.

    returns   the tasks in the order of their rows, and what came of each
    """
    referred = in_parallel(by_reference, tasks, threads=_FOOTER_THREADS)
    rest = {t.source: t.file for t, found in zip(tasks, referred, strict=True) if found is None}
    # A row before a change may be one that an earlier file of the batch brings: then one task reads all, in order.
    one_task = tasks[0].table is not None
    shares = (
        {} if one_task else _share_files(tasks[0].store, rest, tasks[0].schema, tasks[0].options, runner, label=label)
    )
    cut_up = [replace(t, share=share) for t in tasks for share in shares.get(t.source, [None])]
    todo = [t for t in cut_up if t.source in rest]
    work = [todo] if one_task else [[t] for t in todo]
    mapped = runner.map(_stage_files, work, label=label) if todo else []
    read = iter([file for files in mapped for file in files])
    return cut_up, [referred[t.source] or next(read) for t in cut_up]


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One landing file, or a share of a large one, for one task.

    table   where rows before changes are checked against its rows, or rows completed from them
    judge   finds rows to reject
    new     columns that the table gets with the batch
    """

    store: ObjectStore
    schema: TableSchema
    options: LandingOptions
    source: int
    file: SourceFile
    out_dir: str
    table: TableMetadata | None = None
    judge: RefuseRows | None = None
    share: TextShare | None = None
    new: Collection[str] = ()

    @property
    def share_number(self) -> int | None:
        """Number of the share; None: the whole file."""
        return None if self.share is None else self.share.number


@dataclass(slots=True)
class IngestedFile:
    """Parts that a task made of its landing file, or share of one.

    present   columns that rows came with
    upserts   there are rows that may lack no column
    brought   columns new to the table that rows had; passed: those that a row lacked before one had it
    tables    of the source, that messages are of
    ignored   rows that `on_delete` leaves out
    asked     snapshot that rows were completed from, 0 for an empty table
    notes     what was guessed about the file
    """

    parts: tuple[StagedPart, ...] = ()
    rows_in: int = 0
    rejected: RejectedRows = field(default_factory=RejectedRows)
    skipped: Counter[str] = field(default_factory=Counter)
    newest_ms: int | None = None
    extra: dict[str, DataType] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    upserts: bool = False
    brought: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    ignored: int = 0
    tables: frozenset[str] = frozenset()
    asked: int | None = None
    notes: tuple[str, ...] = ()


def _stage_files(tasks: Sequence[IngestTask]) -> list[IngestedFile]:
    """Read, cast and stage landing files (runs in a task)."""
    table, schema = tasks[0].table, tasks[0].schema
    refuse: list[RefuseRows] = [] if tasks[0].judge is None else [tasks[0].judge]
    complete: CompleteRows | None = None
    lookup: TableLookup | None = None
    if table is not None:
        # Few batches look rows up, as keys are looked up.
        from lakeidx.batch.before_images import BeforeImageCheck
        from lakeidx.batch.stages.completed_rows import RowCompletion
        from lakeidx.lookup.point import table_lookup

        lookup = table_lookup.TableLookup(table, pinned=tasks[0].options.missing == "table", unseen=True)
        if tasks[0].options.check_before:
            refuse.append(BeforeImageCheck(schema, lookup.lookup, tasks[0].options).contradictions)
        else:
            complete = RowCompletion(schema, lookup.lookup)
    out = []
    for task in tasks:
        name = share_name(task.source, task.share_number)
        with RejectWriter(task.store, task.out_dir, name) as rejects:
            out.append(_ingest_file(task, refuse, complete, rejects))
    if complete is not None and lookup is not None and lookup.metrics.keys:
        for file in out:
            file.asked = lookup.snapshot_id or 0
    return out


def _ingest_file(
    task: IngestTask, refuse: Sequence[RefuseRows], complete: CompleteRows | None, rejects: RejectWriter
) -> IngestedFile:
    from lakeidx.landing.text.json_values import wider_of_values

    missing = "null" if complete is not None else task.options.missing
    lacking = LackingRows(task.schema, missing, task.new, task.options.optional)
    writer = PartWriter(task.store, task.out_dir, task.source, task.share_number)
    kinds = KindRules(task.schema, task.options.on_delete)
    out = IngestedFile()
    for piece in _read(task):
        out.tables |= piece.tables
        out.notes += piece.notes
        out.skipped.update(piece.skipped)
        out.extra |= {n: t if n not in out.extra else wider_of_values(out.extra[n], t) for n, t in piece.extra.items()}
        if piece.newest_ms is not None:
            out.newest_ms = piece.newest_ms if out.newest_ms is None else max(out.newest_ms, piece.newest_ms)
        if out.extra:
            # Nothing is staged under this schema any more; what follows may have more such columns.
            continue
        out.present |= set(piece.rows.column_names)
        out.upserts = out.upserts or has_upserts(piece.rows)
        kept, bad = cast_piece(
            piece, task.schema.fields, task.file.path, keys=key_names(task.schema), refuse=[lacking, *refuse],
            kinds=kinds, complete=complete, spelling=task.options,
        )  # fmt: skip
        mine = piece.rows.num_rows + len(piece.bad_lines)
        out.rows_in += mine
        out.ignored += mine - kept.num_rows - bad.num_rows
        rejects.add(bad)
        writer.add(kept)
    out.parts, out.rejected = writer.finish(), rejects.finish()
    out.brought, out.passed = frozenset(lacking.brought), frozenset(lacking.passed)
    return out


def _read(task: IngestTask) -> Iterator[Piece]:

    store, path = landing_store(task.store, task.file.path, task.options.storage_options), task.file.path
    if task.options.is_changes:
        form = task.options.format
        read: ReadChanges = load_plugin(CHANGE_FORMATS, form if form in change_formats() else OP_COLUMN)
        return read(store, path, task.schema, task.options, share=task.share)
    keys = key_names(task.schema)
    return read_landing(store, path, task.schema.fields, task.options, keys=keys, share=task.share)


def _same_type(found: pa.DataType, wanted: Field) -> bool:
    """Return True when later stages may read the column as it is: the same values in the same Arrow type up to its layout."""
    target = to_arrow(wanted.type)
    if found == target:
        return True
    if wanted.type.root in STRING_ROOTS:
        return bool(pa.types.is_large_string(found) or pa.types.is_string_view(found))
    if wanted.type.root in BYTES_ROOTS:
        return bool(pa.types.is_large_binary(found) or pa.types.is_binary_view(found))
    return False


def _fits(wanted: Field, chunks: FooterChunks, leaves: Mapping[str, tuple[int, str]], groups: int) -> bool:
    """Return True when the footer says that a column has no null where none may be, and no value out of its range."""
    no_nulls = not wanted.type.nullable or wanted.default_value is not None
    bounds = value_range(wanted.type)
    if not no_nulls and bounds is None and not has_ranges(wanted.type):
        return True
    if wanted.name not in leaves:
        return False
    for stats in (chunks.stats(group, *leaves[wanted.name]) for group in range(groups)):
        if no_nulls and stats.null_count != 0:
            return False
        if bounds is None or stats.null_count == stats.values:
            continue
        if stats.low is None or not bounds[0] <= _number(stats.low) <= _number(stats.high) <= bounds[1]:
            return False
    return True


def _number(bound: int | bytes) -> int:
    """Return a bound as a number; decimals may be bytes."""
    return int.from_bytes(bound, "big", signed=True) if isinstance(bound, bytes) else bound


def by_reference(task: IngestTask) -> IngestedFile | None:
    """Return the parts that point into the landing file, None when its rows must be cast or examined."""
    path = task.file.path
    if task.options.changes_columns:
        return None
    if landing_format(path, task.options) != "parquet" or task.options.is_changes or task.judge is not None:
        return None
    if task.options.storage_options:
        # Later stages do not have the options.
        return None
    file = open_parquet(landing_store(task.store, path, {}), path)
    found = {f.name: f.type for f in file.schema_arrow}
    check_columns(list(found), task.schema.fields, task.options, path)
    if new_columns(file.schema_arrow, task.schema.fields, task.options.merge_schema, keys=key_names(task.schema),
                   ignore_extra=task.options.ignore_extra, path=path):  # fmt: skip
        return None
    if task.schema.table_options.rowkind_field is not None and KindRules(task.schema, task.options.on_delete).acts:
        return None
    if KIND_COLUMN in found or VALUE_KIND in found or any(f.name not in found for f in task.schema.fields):
        return None
    if not all(_same_type(found[f.name], f) for f in task.schema.fields):
        return None
    if any(is_bounded(f.type) for f in task.schema.fields):
        return None
    if any(task.schema.field(n).type.root in _FLOATS for n in key_names(task.schema)):
        # Keys are examined: none may be NaN.
        return None
    metadata = file.metadata
    if any(metadata.row_group(group).total_byte_size > GROUP_BYTES for group in range(metadata.num_row_groups)):
        return None
    chunks, leaves = open_chunks(landing_store(task.store, path, {}), path)
    if not all(_fits(f, chunks, leaves, metadata.num_row_groups) for f in task.schema.fields):
        return None
    parts: list[StagedPart] = []
    groups: list[int] = []
    rows = size = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        size += metadata.row_group(group).total_byte_size
        if is_full(rows, size) or group == metadata.num_row_groups - 1:
            parts.append(StagedPart(path=path, rows=rows, bytes=size, source=task.source, by_reference=True,
                                    row_groups=tuple(groups)))  # fmt: skip
            groups, rows, size = [], 0, 0
    return IngestedFile(tuple(p for p in parts if p.rows), metadata.num_rows)


@dataclass(frozen=True, slots=True)
class _Range:
    """A range of a landing file for a task; `delimiter` of CSV only, `place` the options of its store."""

    store: ObjectStore
    source: int
    path: str
    start: int
    end: int
    delimiter: str | None
    place: Mapping[str, Any]


def _share_files(
    store: ObjectStore,
    sources: Mapping[int, SourceFile],
    schema: TableSchema,
    options: LandingOptions,
    runner: Runner,
    *,
    label: str,
) -> Mapping[int, list[TextShare]]:
    """Find the shares of the landing files that are read by several tasks, by the files' numbers; tasks scan for them.

    errors   InvalidInputError for a CSV file without a header
    """
    ranges: list[_Range] = []
    headers: dict[int, CsvHeader] = {}
    for number, source in sources.items():
        planned = plan_ranges(source.size, share_bytes=SHARE_BYTES)
        kind = _cut_format(store, source.path, schema, options) if len(planned) > 1 else None
        if kind is not None:
            path, place = source.path, options.storage_options
            headers[number] = _header(store, path, schema, options) if kind == "csv" else CsvHeader((), 0, "")
            delimiter = headers[number].delimiter or None
            ranges += [_Range(store, number, path, start, end, delimiter, place) for start, end in planned]
    if not ranges:
        return {}
    found: dict[int, list[Crossing]] = defaultdict(list)
    for each, crossing in zip(ranges, runner.map(_cross, ranges, label=label), strict=True):
        found[each.source].append(crossing)
    return {
        n: plan_text_shares(sources[n].size, crossings, h.columns, header_bytes=h.bytes, delimiter=h.delimiter)
        for n, crossings in found.items()
        for h in (headers[n],)
    }


def _cut_format(store: ObjectStore, path: str, schema: TableSchema, options: LandingOptions) -> str | None:
    """Return csv or jsonl for a file that can be cut: plain UTF-8, of which no byte depends on what is far before it but quotes."""
    if without_codec(path) != path:
        return None
    messages = options.is_changes and options.format in message_formats()
    kind = "jsonl" if messages else landing_format(path, options)
    if kind not in ("csv", "jsonl"):
        return None
    with landing_store(store, path, options.storage_options).open_input(path) as source:
        first = bytes(source.read(_BEGIN_BYTES))
    if encoding_of(first, options.encoding) is not None:
        return None
    if kind == "jsonl":
        return kind if messages or not is_array(first, options.member) else None
    plain = options.quote == '"' and not options.escape and not options.comment and not options.skip_lines
    return kind if plain and not first[:8].lower().lstrip(b'\xef\xbb\xbf"').startswith(b"sep=") else None


def _cross(item: _Range) -> Crossing:
    with landing_store(item.store, item.path, item.place).open_input(item.path) as source:
        return cross_range(source, item.start, item.end, item.delimiter)


def _header(store: ObjectStore, path: str, schema: TableSchema, options: LandingOptions) -> CsvHeader:
    with landing_store(store, path, options.storage_options).open_input(path) as source:
        return csv_header(source, path, names_in_file(schema.fields, options), options)


def _join_columns(known: dict[str, DataType], more: Mapping[str, DataType], *, path: str | None) -> None:
    """Add what another landing file of a batch has: of two types of a column the wider.

    errors   InvalidInputError naming the column when neither holds the values of the other
    """
    for name, t in more.items():
        old = known.get(name, t)
        if not is_widening(old, t) and not is_widening(t, old):
            raise InvalidInputError(
                f"column {name!r} is {t} in this landing file and {old} in another one of the batch: add it to the table with "
                "the type it is to have (lakeidx table alter --add), or cast one of the files",
                path=path,
            )
        known[name] = t if is_widening(old, t) else old
