"""Types of landing files: options, pieces of rows that know their lines, and the check of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError
from lakeidx.landing.kind_rules import KIND_COLUMN, ON_DELETE_DEFAULT, OnDelete
from lakeidx.landing.new_columns import refuse_unnamed
from lakeidx.types import DataType, Field

MISSING_DEFAULT = "refuse"

#: Formats of files that hold rows; those of changes of a database are plug-ins.
ROW_FORMATS = ("parquet", "arrow", "orc", "avro", "csv", "jsonl", "excel")

#: How folders begin that hold what came from standard input.
STDIN_FOLDER = "lakeidx-stdin-"

#: Rows of a columnar file that are read at a time, at most, and their bytes: text of one chunk ends at 2 GiB.
_MOST_ROWS = 131_072
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LandingOptions:
    """Options by which landing files are read.

    format         parquet, arrow, orc, avro, csv, jsonl or excel; None = by the ending; of changes debezium, canal, maxwell, ogg,
                   dms-json (messages, a JSON object a line) and dms (any of the first six, with a column ``Op``)
    delimiter      csv: between fields; None: a comma, or what the header of the file says if that gives no column of the table
    quote, escape  csv: around values, "" for none; before characters that mean themselves
    comment        csv: begins lines that are left out
    skip_lines     csv, excel: lines (rows) before the header
    encoding       csv, jsonl: of the text, as Python names it; a byte order mark goes before it; None: UTF-8
    member         json: where an object has the array of rows, ``result.items``; an array alone needs none
    sheet          excel: name of the sheet, or its number from 1; None: the first
    columns        names in the file and the table's, ``{"Kunden-Nr": "id"}``, None for a column that is left out; or of CSV files
                   without a header line the names, in order
    constants      values of columns that files do not have
    from_name      regular expressions with a group that take the value of a column from the file's name; from its path, when the
                   expression has a slash
    decimal, thousands   texts of numbers: before the fraction, a comma or a point; between groups of three digits
    date_formats   texts of dates and times, instead of ISO: ``%d.%m.%Y``, ``iso`` itself; see `lakeidx.landing.written.spelling`
    timezone       of times without a zone that become TIMESTAMP WITH LOCAL TIME ZONE, ``Europe/Berlin``; None: UTC
    true_values, false_values   words for them, beside true, t, yes, y, 1 and false, f, no, n, 0
    null_values    csv, excel: texts that mean null (of CSV only where they are not quoted)
    ignore_extra   columns that the table does not have are left out instead of being an error
    missing        nullable columns that a file, or a single row of it, does not have: ``refuse``; ``null`` sets them to null (or
                   their default); ``before`` and ``table`` complete the row: see `lakeidx.landing.missing_columns`
    op_column      column that says what happened to a row
    op_values      its texts and the kinds (+I -U +U -D) they mean, e.g. ``(("D", "-D"),)``; default I, U and D
    order          where a message, or column, has the source's order, for the columns of option ``sequence.field``
    merge_schema   what is done with columns that the table does not have: see `lakeidx.landing.new_columns`
    check_before   share of the keys (0 to 1) whose rows before changes must be those of the table; messages only
    source         tables of the source whose messages are read; none: all messages must be of one
    on_delete      what becomes of rows of kind -D and -U: see `lakeidx.landing.kind_rules`
    storage_options  for the store the files are in: see `lakeidx.storage.landing_folders`; none: the table's, or as the
                   environment says
    optional       columns that rows may lack whatever `missing` says, and which are null there: the source does not have them
    errors         InvalidInputError for an option that means nothing, or contradicts another
    """

    format: str | None = None
    delimiter: str | None = None
    null_values: tuple[str, ...] = ("",)
    ignore_extra: bool = False
    missing: str = MISSING_DEFAULT
    columns: tuple[str, ...] | Mapping[str, str | None] = ()
    op_column: str | None = None
    op_values: tuple[tuple[str, str], ...] = ()
    order: tuple[str, ...] = ()
    merge_schema: str = "refuse"
    check_before: float = 0.0
    on_delete: OnDelete = ON_DELETE_DEFAULT
    source: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    quote: str = '"'
    escape: str = ""
    comment: str = ""
    skip_lines: int = 0
    encoding: str | None = None
    member: str | None = None
    sheet: str | int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    from_name: Mapping[str, str] = field(default_factory=dict)
    decimal: str = "."
    thousands: str = ""
    date_formats: tuple[str, ...] = ()
    timezone: str | None = None
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from lakeidx.landing.written.option_checks import checked

        for name, value in checked(self).items():
            object.__setattr__(self, name, value)

    @property
    def is_changes(self) -> bool:
        """True when files contain changes of a database: rows come with their operation."""
        from lakeidx.landing.changes import change_formats

        other = self.format is not None and self.format not in ROW_FORMATS
        return self.op_column is not None or (other and self.format in change_formats())

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of CSV files without a header line."""
        return () if isinstance(self.columns, Mapping) else self.columns

    @property
    def renamed(self) -> Mapping[str, str | None]:
        """Names of columns in the file, and in the table; None for those that are left out."""
        return self.columns if isinstance(self.columns, Mapping) else {}

    @property
    def dropped(self) -> frozenset[str]:
        """Columns of the file that are left out."""
        return frozenset(name for name, mine in self.renamed.items() if mine is None)

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a file without those that are left out."""
        return pa.schema([f for f in schema if f.name not in self.dropped]) if self.dropped else schema

    @property
    def changes_columns(self) -> bool:
        """True when files have not the table's columns under their names."""
        return bool(self.renamed or self.constants or self.from_name)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a row of the format at all."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class BeforeImages:
    """Rows before changes as the messages have them, m changes in their order.

    first    int64[m]: first of the rows that a change became
    counts   int64[m]: how many it became
    values   the table's columns that messages bring, not cast: whole keys; of other columns null where the message says nothing
    """

    first: NDArray[np.int64]
    counts: NDArray[np.int64]
    values: pa.Table


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a landing file.

    rows         columns as the format gives them
    first_line   line (csv, jsonl) or row (parquet) of the first row, counted from 1
    lines        line of every row when they do not follow one another, else None
    bad_lines    lines before or among these rows that could not be read
    skipped      messages that are no rows (tombstones, ddl), by what they are
    newest_ms    newest time at which the source committed one of these rows, epoch ms
    extra        types of columns the file has and the table has to get, or to widen: a piece that has any is read again
    images       what changes say of the rows before them, where that is to be checked
    absent       bool[n] by column: rows that do not have it at all, where the format can tell that from null
    tables       of the source, whose changes these are
    changes      int64[n]: the change that each row is a part of; a change is rejected as a whole
    notes        what was guessed about the file
    """

    rows: pa.Table
    first_line: int
    lines: Sequence[int] | NDArray[np.int64] | None = None
    bad_lines: tuple[BadLine, ...] = field(default=())
    skipped: Mapping[str, int] = field(default_factory=dict)
    newest_ms: int | None = None
    extra: Mapping[str, DataType] = field(default_factory=dict)
    images: BeforeImages | None = None
    absent: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    changes: NDArray[np.int64] | None = None
    tables: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def check_columns(
    names: Sequence[str], fields: Sequence[Field], options: LandingOptions, path: str, *, complete: bool = True
) -> None:
    """Raise InvalidInputError for duplicate, missing or unknown columns; and for a table (of another writer) that has a
    column of the name that row kinds come in.

    complete   False where a file may leave out columns that are null (JSON lines): then none is required
    """
    if any(f.name == KIND_COLUMN for f in fields):
        raise InvalidInputError(
            f"the table has a column {KIND_COLUMN!r}, the name of the row kind column (+I -U +U -D) of landing files: rename the "
            "column, since lakeidx cannot tell the two apart",
            path=path,
        )
    have, known = set(names), {f.name for f in fields} | {KIND_COLUMN} | options.dropped
    given = sorted(have & {*options.constants, *options.from_name})
    if given:
        raise InvalidInputError(
            f"the landing file has the column {given[0]}, which constants or from_name give a value, too: leave it out there, or "
            f"leave the file's out (columns: {{{given[0]}: null}}, --columns {given[0]}=)",
            path=path,
        )
    if not options.ignore_extra:
        refuse_unnamed(names, known, path=path)
    twice = [n for n, count in Counter(names).items() if count > 1 and n.strip() and n not in options.dropped]
    if twice:
        raise InvalidInputError(f"the landing file has the columns {', '.join(twice)} more than once", path=path)
    required = [f.name for f in fields if complete and not f.type.nullable and f.name not in have]
    if required:
        raise InvalidInputError(
            f"the landing file lacks the required columns {', '.join(required)}; it has {', '.join(names) or 'none'}; columns of "
            f"other names are named with columns: {{NAME: {required[0]}}} (--columns NAME={required[0]})",
            path=path,
        )
    extra = sorted(have - known)
    if extra and not options.ignore_extra and options.merge_schema == "refuse":
        raise InvalidInputError(
            f"columns the table does not have: {', '.join(extra)}; add them to the table, let "
            "them be added (merge_schema, --merge-schema add) or be ignored (--ignore-extra-columns)",
            path=path,
        )


def rows_at_a_time(rows: int, size: int) -> int:
    """Return how many rows to read at a time.

    rows, size   of a file, a row group or a batch; bytes before compression
    """
    return max(1, min(_MOST_ROWS, rows * _MOST_BYTES // size)) if rows > 0 and size > 0 else _MOST_ROWS


def shown_source(path: str) -> str:
    """Return how a landing file is named to people: ``stdin`` for what came from standard input, else its path."""
    return "stdin" if path.rpartition("/")[0].rpartition("/")[2].startswith(STDIN_FOLDER) else path
