"""What a task of stage `ingest` makes of a landing file: rows cast and staged as Parquet, or by reference as they are.

Large text files are cut into shares, so that no task reads more of one than its share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeidx.batch.artifacts import SourceFile, StagedPart
from lakeidx.batch.parts import GROUP_BYTES, PartWriter, is_full, landing_store, share_name
from lakeidx.batch.stages.rejected_rows import RejectedRows, RejectWriter
from lakeidx.data.declared import has_ranges, is_bounded, value_range
from lakeidx.data.parquet.chunks import FooterChunks
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.landing.cast_rows import CompleteRows, RefuseRows, cast_piece
from lakeidx.landing.kind_rules import KindRules
from lakeidx.landing.lacking_rows import LackingRows
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.row_kinds import KIND_COLUMN, has_upserts
from lakeidx.landing.types import OP_COLUMN, LandingOptions, Piece, ReadChanges, change_formats, check_columns
from lakeidx.plugins import CHANGE_FORMATS, load_plugin
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS, DataType, Field, Root, to_arrow

if TYPE_CHECKING:
    from lakeidx.landing.text.shares import TextShare
    from lakeidx.lookup.point.table_lookup import TableLookup


from collections import defaultdict
from typing import Any

from lakeidx.landing.read import landing_format
from lakeidx.landing.text.compressed import open_plain, without_codec
from lakeidx.landing.text.csv import csv_header
from lakeidx.landing.text.shares import SHARE_BYTES, Crossing, TextShare, cross_range, plan_ranges, plan_shares
from lakeidx.landing.types import message_formats
from lakeidx.tasks.runner import Runner

_FLOATS = (Root.FLOAT, Root.DOUBLE)


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


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """What a task made of its landing file, or share of one.

    present   columns that rows came with
    upserts   there are rows that may lack no column
    brought   columns new to the table that rows had; passed: those that a row lacked before one had it
    tables    of the source, that messages are of
    ignored   rows that `on_delete` leaves out
    asked     snapshot that rows were completed from, 0 for an empty table
    """

    parts: tuple[StagedPart, ...]
    rows_in: int
    rejected: RejectedRows = field(default_factory=RejectedRows)
    skipped: Mapping[str, int] = field(default_factory=dict)
    newest_ms: int | None = None
    extra: Mapping[str, DataType] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    upserts: bool = False
    brought: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    ignored: int = 0
    tables: frozenset[str] = frozenset()
    asked: int | None = None


def ingest_files(tasks: Sequence[IngestTask]) -> list[IngestedFile]:
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
    if complete is None or lookup is None or not lookup.metrics.keys:
        return out
    return [replace(file, asked=lookup.snapshot_id or 0) for file in out]


def _ingest_file(
    task: IngestTask, refuse: Sequence[RefuseRows], complete: CompleteRows | None, rejects: RejectWriter
) -> IngestedFile:
    from lakeidx.landing.text.json_values import wider_of_values

    lacking = LackingRows(task.schema, "null" if complete is not None else task.options.missing, task.new)
    writer = PartWriter(task.store, task.out_dir, task.source, task.share_number)
    kinds = KindRules(task.schema, task.options.on_delete)
    rows_in = ignored = 0
    present: set[str] = set()
    upserts = False
    skipped: Counter[str] = Counter()
    extra: dict[str, DataType] = {}
    newest: int | None = None
    tables = frozenset[str]()
    for piece in _read(task):
        tables |= piece.tables
        skipped.update(piece.skipped)
        extra |= {n: t if n not in extra else wider_of_values(extra[n], t) for n, t in piece.extra.items()}
        if piece.newest_ms is not None:
            newest = piece.newest_ms if newest is None else max(newest, piece.newest_ms)
        if extra:
            # Nothing is staged under this schema any more; what follows may have more such columns.
            continue
        present |= set(piece.rows.column_names)
        upserts = upserts or has_upserts(piece.rows)
        kept, bad = cast_piece(
            piece, task.schema.fields, task.file.path, keys=key_names(task.schema), refuse=[lacking, *refuse],
            kinds=kinds, complete=complete,
        )  # fmt: skip
        mine = piece.rows.num_rows + len(piece.bad_lines)
        rows_in += mine
        ignored += mine - kept.num_rows - bad.num_rows
        rejects.add(bad)
        writer.add(kept)
    return IngestedFile(
        writer.finish(), rows_in, rejects.finish(), dict(skipped), newest, extra, frozenset(present), upserts,
        frozenset(lacking.brought), frozenset(lacking.passed), ignored, tables,
    )  # fmt: skip


def _read(task: IngestTask) -> Iterator[Piece]:
    from lakeidx.landing.read import read_landing

    store, path = landing_store(task.store, task.file.path, task.options.storage_options), task.file.path
    if task.options.is_changes:
        form = task.options.format
        read: ReadChanges = load_plugin(CHANGE_FORMATS, form if form in change_formats() else OP_COLUMN)
        return read(store, path, task.schema, task.options, share=task.share)
    keys = key_names(task.schema)
    return read_landing(store, path, task.schema.fields, task.options, keys=keys, share=task.share)


def key_names(schema: TableSchema) -> frozenset[str]:
    """Return the columns that are never widened."""
    return frozenset((*schema.primary_keys, *schema.partition_keys))


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
    from lakeidx.landing.read import landing_format, open_chunks, open_parquet

    path = task.file.path
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


def share_files(
    store: ObjectStore, sources: Mapping[int, SourceFile], options: LandingOptions, runner: Runner, *, label: str
) -> Mapping[int, list[TextShare]]:
    """Find the shares of the landing files that are read by several tasks, by the files' numbers; tasks scan for them.

    errors   InvalidInputError for a CSV file without a header
    """
    ranges: list[_Range] = []
    headers: dict[int, tuple[tuple[str, ...], int]] = {}
    for number, source in sources.items():
        kind = _text_format(source.path, options)
        planned = [] if kind is None else plan_ranges(source.size, share_bytes=SHARE_BYTES)
        if len(planned) > 1:
            delimiter = options.delimiter if kind == "csv" else None
            headers[number] = _header(store, source.path, options) if kind == "csv" else ((), 0)
            place = options.storage_options
            ranges += [_Range(store, number, source.path, start, end, delimiter, place) for start, end in planned]
    if not ranges:
        return {}
    found: dict[int, list[Crossing]] = defaultdict(list)
    for each, crossing in zip(ranges, runner.map(_cross, ranges, label=label), strict=True):
        found[each.source].append(crossing)
    return {
        n: plan_shares(sources[n].size, crossings, headers[n][0], header_bytes=headers[n][1])
        for n, crossings in found.items()
    }


def _text_format(path: str, options: LandingOptions) -> str | None:
    """Return csv or jsonl for a file that can be cut."""
    if without_codec(path) != path:
        return None
    if options.is_changes and options.format in message_formats():
        return "jsonl"
    kind = landing_format(path, options)
    return kind if kind in ("csv", "jsonl") else None


def _cross(item: _Range) -> Crossing:
    with open_plain(landing_store(item.store, item.path, item.place), item.path) as source:
        return cross_range(source, item.start, item.end, item.delimiter)


def _header(store: ObjectStore, path: str, options: LandingOptions) -> tuple[tuple[str, ...], int]:
    with open_plain(landing_store(store, path, options.storage_options), path) as source:
        return csv_header(source, path, options)
