"""Inputs of commands: relative paths, ``-`` for standard input, and the options by which landing files are read."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from lakeidx.cli.context import OnDeleteOption, takes
from lakeidx.data.row_kinds import SHORT_NAMES
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.landing.changes import change_formats
from lakeidx.landing.types import ROW_FORMATS, STDIN_FOLDER, LandingOptions, shown_source
from lakeidx.storage.landing_folders import refuse_plain_secrets
from lakeidx.storage.local import absolute

_STDIN = "-"
#: How compressed texts begin, and their ending.
_CODECS = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_COLUMNAR = ("parquet", "arrow")


@contextmanager
def stdin_as_file(files: Sequence[str], file_format: str | None) -> Iterator[list[str]]:
    """Return the files; streams, which are read once, as temporary files with their content, deleted when the command ends.

    Streams are ``-``, standard input, and pipes such as ``<(...)`` of a shell.
    file_format   format of what comes by streams
    errors        InvalidInputError when ``-`` is there twice, or a stream without a format; errors of what is done with the files
                  name ``stdin`` for one that stands for a stream
    """
    streams = [f for f in files if _is_stream(f)]
    if not streams:
        yield list(files)
        return
    if streams.count(_STDIN) > 1:
        raise InvalidInputError("- can be given once: standard input is read once")
    if file_format is None:
        raise InvalidInputError(f"{streams[0]} needs --format: {', '.join((*ROW_FORMATS, *change_formats()))}")
    with tempfile.TemporaryDirectory(prefix=STDIN_FOLDER) as folder:
        given = [_copied(f, Path(folder) / f"{i}.{file_format}") if _is_stream(f) else f for i, f in enumerate(files)]
        try:
            yield given
        except LakeIdxError as error:
            error.path = None if error.path is None else shown_source(error.path)
            raise


def _is_stream(file: str) -> bool:
    """Return True for what is no file that may be read twice: standard input, and pipes."""
    return file == _STDIN or Path(file).is_fifo()


def _copied(stream: str, path: Path) -> str:
    """Copy a stream to a file whose ending says how it is compressed."""
    with path.open("wb") as sink, nullcontext(sys.stdin.buffer) if stream == _STDIN else open(stream, "rb") as source:
        shutil.copyfileobj(source, sink)
    if not path.suffix.endswith(_COLUMNAR):
        path = path.rename(path.with_name(path.name + _codec_ending(path)))
    return str(path)


@contextmanager
def key_file(path: str) -> Iterator[str]:
    """Return the file with keys as an absolute path; JSON lines on standard input and from pipes.

    errors   NotFoundError of a file that is missing says how single keys are given
    """
    with stdin_as_file([path], "jsonl") as given:
        try:
            yield absolute(given[0])
        except NotFoundError as error:
            if error.path != absolute(path):
                raise
            hint = "keys are rows of a file; of single ones write <(echo '{\"id\": 5}'), or - for standard input"
            raise NotFoundError(f"{error.message}: {hint}", path=error.path) from None


def _codec_ending(path: Path) -> str:
    """Return the ending of a compressed text by its first bytes, "" of a plain one."""
    with path.open("rb") as source:
        first = source.read(4)
    return next((ending for magic, ending in _CODECS.items() if first.startswith(magic)), "")


#: Options that may be repeated.
_Texts = list[str] | None
_FORMAT_HELP = (
    "parquet, arrow, orc, avro, csv, jsonl, excel, debezium, canal, maxwell, ogg, dms-json, dms; default by ending"
)
FormatOption = Annotated[str | None, typer.Option("--format", help=_FORMAT_HELP)]
OrderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        help="for change messages: the field with the source's order, e.g. source.lsn; used as 'sequence.field'",
    ),
]
OpColumnOption = Annotated[str | None, typer.Option("--op-column", help="column that holds the kind of change")]
OpValuesOption = Annotated[
    list[str] | None,
    typer.Option("--op-value", help="value of that column and its row kind, e.g. c=+I; default I, U, D"),
]
ColumnsOption = Annotated[
    _Texts,
    typer.Option(
        "--columns",
        metavar="NAME,...|THEIRS=NAME",
        help="name in the file = the table's, nothing to leave it out; or columns of CSV files without a header: id,name",
    ),
]
_DelimiterOption = Annotated[
    str | None,
    typer.Option("--delimiter", help="of CSV files, e.g. ';' or '\\t'; default a comma, or as the header says"),
]
_EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", help="of texts: latin-1, cp1252, utf-16; default UTF-8, or as the file begins"),
]
_MemberOption = Annotated[
    str | None, typer.Option("--member", help="where an object of a JSON file has the array of rows: result.items")
]
_SheetOption = Annotated[
    str | None, typer.Option("--sheet", help="sheet of an Excel file, or its number; default the first")
]
_ConstantOption = Annotated[
    _Texts, typer.Option("--constant", help="value of a column that files do not have: country=DE")
]
_FromNameOption = Annotated[
    _Texts, typer.Option("--from-name", help="a column from the file's name: 'day=orders-(\\d+)'")
]
_DateFormatOption = Annotated[
    _Texts,
    typer.Option("--date-format", help="of dates and times, e.g. %d.%m.%Y; the first that fits; default iso"),
]
_TimezoneOption = Annotated[
    str | None, typer.Option("--timezone", help="of times without a zone, e.g. Europe/Berlin; default UTC")
]
MergeSchemaOption = Annotated[
    str,
    typer.Option(
        "--merge-schema", help="columns that the table does not have: refuse | add | widen (the types of others, too)"
    ),
]
CheckBeforeOption = Annotated[
    float,
    typer.Option(
        "--check-before",
        help="for change messages: share of the keys (0 to 1) whose before images must match the table",
    ),
]
MissingOption = Annotated[
    str,
    typer.Option("--missing", help="columns that a file or row lacks: refuse | null | before (the message's) | table"),
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--source", help="for change messages: the source's table, e.g. shop.customers; others are left out"),
]
LandingOptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--landing-option",
        help="of the files' store, e.g. username=ada; a secret as 'password=${LAKEIDX_SECRET_SFTP}', a variable's name",
    ),
]


def landing_options(
    file_format: FormatOption = None,
    delimiter: _DelimiterOption = None,
    quote: Annotated[str, typer.Option("--quote", help="around values of CSV files; '' for none")] = '"',
    escape: Annotated[str, typer.Option("--escape", help="before a character of a CSV file that means itself")] = "",
    comment: Annotated[str, typer.Option("--comment", help="begins lines of CSV files that are left out")] = "",
    skip_lines: Annotated[int, typer.Option("--skip-lines", min=0, help="lines, or rows, before the header")] = 0,
    encoding: _EncodingOption = None,
    member: _MemberOption = None,
    sheet: _SheetOption = None,
    columns: ColumnsOption = None,
    constant: _ConstantOption = None,
    from_name: _FromNameOption = None,
    decimal: Annotated[str, typer.Option("--decimal", help="before the fraction of numbers: . or ,")] = ".",
    thousands: Annotated[str, typer.Option("--thousands", help="between groups of three digits, e.g. . or ' '")] = "",
    date_format: _DateFormatOption = None,
    timezone: _TimezoneOption = None,
    true_value: Annotated[_Texts, typer.Option("--true", help="a word for true, beside true, t, yes, y, 1")] = None,
    false_value: Annotated[_Texts, typer.Option("--false", help="a word for false, beside false, f, no, n, 0")] = None,
    null_value: Annotated[_Texts, typer.Option("--null", help="a text that means null; default ''")] = None,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra-columns", help="ignore columns the table does not have")
    ] = False,
    missing: MissingOption = "refuse",
    order: OrderOption = None,
    op_column: OpColumnOption = None,
    op_value: OpValuesOption = None,
    merge_schema: MergeSchemaOption = "refuse",
    check_before: CheckBeforeOption = 0.0,
    on_delete: OnDeleteOption = None,
    source: SourceOption = None,
    landing_option: LandingOptionsOption = None,
) -> LandingOptions:
    """Return the options by which landing files are read."""
    return LandingOptions(
        file_format, delimiter, columns=_columns(columns or ()), ignore_extra=ignore_extra,
        quote=quote, escape=escape, comment=comment, skip_lines=skip_lines, encoding=encoding, member=member, sheet=sheet,
        constants=_named("--constant", constant or ()), from_name=_named("--from-name", from_name or ()),
        decimal=decimal, thousands=thousands, date_formats=tuple(date_format or ()), timezone=timezone,
        true_values=tuple(true_value or ()), false_values=tuple(false_value or ()), null_values=tuple(null_value or ("",)),
        missing=missing, order=tuple(order or ()), op_column=op_column,
        op_values=_pairs(op_value or ()), merge_schema=merge_schema, check_before=check_before,
        on_delete=",".join(on_delete or ["apply"]), source=tuple(source or ()),
        storage_options=_store_options(landing_option or ()),
    )  # fmt: skip


takes_landing_options = takes(landing_options, section="How files are read")


def _columns(texts: Sequence[str]) -> tuple[str, ...] | dict[str, str | None]:
    """Read names of columns, ``id,name``, or names in the file and the table's, ``Kunden-Nr=id``.

    errors   InvalidInputError for one without a name
    """
    parts = [p for text in texts for p in (text.split(",") if text.count("=") != 1 else [text])]
    pairs = [p.rpartition("=") for p in parts]
    if parts and all(equals for _, equals, _ in pairs):
        return {name: mine.strip() or None for name, _, mine in pairs}
    names = tuple(p.strip() for p in parts)
    if not all(names) or any(equals for _, equals, _ in pairs):
        raise InvalidInputError(
            f"--columns {' '.join(texts)}: write the names of all columns, as id,name, or those in the file and the table's, as "
            "Kunden-Nr=id"
        )
    return names


def _named(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read ``name=value`` of every use of an option; InvalidInputError for all else, which may be a secret: it is not shown."""
    pairs = [text.partition("=") for text in texts]
    if not all(name and equals for name, equals, _ in pairs):
        raise InvalidInputError(f"{option}: write a name and its value, as {_EXAMPLES[option]}")
    return {name: value for name, _, value in pairs}


_EXAMPLES = {"--landing-option": "username=ada", "--constant": "country=DE", "--from-name": r"'day=orders-(\d+)'"}


def _store_options(texts: Iterable[str]) -> dict[str, str]:
    """Read options of a store."""
    options = _named("--landing-option", texts)
    refuse_plain_secrets(options)
    return options


def _pairs(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read operations and kinds, ``c=+I``; InvalidInputError for anything else."""
    pairs = []
    for text in texts:
        word, equals, kind = text.rpartition("=")
        if not equals or kind not in SHORT_NAMES:
            raise InvalidInputError(f"--op-value {text}: write a text and its row kind, +I -U +U or -D, as c=+I")
        pairs.append((word, kind))
    return tuple(pairs)
