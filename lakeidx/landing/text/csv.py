"""CSV landing files: blocks of whole records to Arrow, each record with the line it begins on.

A kernel finds where records end, minding quotes and escapes, so that a quoted line break neither cuts a record at the border of a
block nor shifts the line numbers after it. Arrow parses; blank lines and comments are no records; a byte order mark is skipped, and
so is Excel's first line ``sep=;``, which names the delimiter.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import kernel
from lakeidx.errors import InternalError, InvalidInputError
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.text.compressed import not_text
from lakeidx.landing.text.shares import TextShare
from lakeidx.landing.types import BadLine, LandingOptions, Piece, check_columns
from lakeidx.types import Field

BLOCK_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_TEXT_BYTES = 2000
_HEADER_BYTES = 64 << 10
_DEFAULT, _DELIMITERS = ",", ",;\t|"
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r(?=[^\n]))")
_SEP = re.compile(rb'"?sep=([^\r\n])"?(?:\r\n|\n|\r)', re.IGNORECASE)
_ENCODING = "when the file is not UTF-8, name its encoding (--encoding cp1252)"
_NO_HEADER = "the landing file has no header line"


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Characters of a file as bytes, -1 for those that it does not have."""

    delimiter: int
    quote: int = 34
    escape: int = -1
    comment: int = -1

    @classmethod
    def of(cls, options: LandingOptions, delimiter: str) -> _Dialect:
        # Without quotes a backslash begins an escape of letters, never one of a line end.
        escape = options.escape if options.quote else ""
        return cls(*(ord(c) if c else -1 for c in (delimiter, options.quote, escape, options.comment)))


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """Begin of a CSV file.

    columns     as its header or the options name them
    bytes       of the file up to the header's end
    delimiter   as the options or the file say
    note        what was guessed
    """

    columns: tuple[str, ...]
    bytes: int
    delimiter: str
    note: str = ""


def read_csv(
    source: Any,
    path: str,
    fields: Sequence[Field],
    options: LandingOptions,
    *,
    block_bytes: int = BLOCK_BYTES,
    share: TextShare | None = None,
) -> Iterator[Piece]:
    """Read the pieces of a CSV file whose first record names the columns, unless the options do.

    source    binary file
    share     what is read of the file, when that is not all
    errors    InvalidInputError: no header, columns that are not the table's, a quote that is never closed
    """
    line, given = 1 if share is None else share.line, options.header
    delimiter, rest, note = options.delimiter or _DEFAULT, b"", ""
    if share is not None and share.columns:
        given, delimiter = given or share.columns, share.delimiter
    else:
        rest, line, delimiter, note = _begin(source, block_bytes, fields, options, line)
    names: list[str] | None = None
    for block, ends, lines in _blocks(source, path, rest, _Dialect.of(options, delimiter), block_bytes, line):
        if names is None:
            names = list(given) or _header(block[: ends[0]], options, delimiter, path)
            _check_header(names, fields, options, delimiter, path)
            header = pa.schema([(n, pa.string()) for n in names if n not in options.dropped])
            extra = new_columns(header, fields, options.merge_schema, ignore_extra=options.ignore_extra)
            if extra:
                yield Piece(pa.table({}), 1, extra=extra)
                return
            if not given:
                block, ends, lines = block[ends[0] :], ends[1:] - ends[0], lines[1:]
        if len(lines):
            piece = _parse(block, ends, lines, names, fields, options, delimiter, path)
            yield replace(piece, notes=(note,)) if note else piece
            note = ""
    if names is None and (share is None or not share.columns):
        raise InvalidInputError(_NO_HEADER, path=path)


def csv_header(source: Any, path: str, fields: Sequence[Field], options: LandingOptions) -> CsvHeader:
    """Return how a CSV file begins.

    source   binary file in UTF-8
    fields   of the table, by which a delimiter is guessed
    errors   as for `read_csv`
    """
    rest, line, delimiter, note = _begin(source, _HEADER_BYTES, fields, options, 1)
    before = source.tell() - len(rest)
    if options.header:
        return CsvHeader(options.header, before, delimiter, note)
    for block, ends, _ in _blocks(source, path, rest, _Dialect.of(options, delimiter), _HEADER_BYTES, line):
        return CsvHeader(
            tuple(_header(block[: ends[0]], options, delimiter, path)), before + int(ends[0]), delimiter, note
        )
    raise InvalidInputError(_NO_HEADER, path=path)


def _begin(
    source: Any, block_bytes: int, fields: Sequence[Field], options: LandingOptions, line: int
) -> tuple[bytes, int, str, str]:
    """Read the beginning of a file: bytes from the header on, its line, the delimiter, and what was guessed of it."""
    data, first = bytes(source.read(block_bytes)).removeprefix(_BOM), line + options.skip_lines
    while line < first:
        found = _LINE.match(data)
        if found is None:
            more = bytes(source.read(block_bytes))
            if not more:
                return b"", line, options.delimiter or _DEFAULT, ""
            data += more
        else:
            data, line = data[found.end() :], line + 1
    named = _SEP.match(data)
    if named is not None:
        data, line = data[named.end() :], line + 1
    if options.delimiter is not None:
        return data, line, options.delimiter, ""
    if named is not None:
        return data, line, named.group(1).decode("latin-1"), ""
    delimiter = _guess(data, fields, options)
    shown = _shown(delimiter)
    return data, line, delimiter, "" if delimiter == _DEFAULT else f"the delimiter is {shown}, as the header says"


def _guess(data: bytes, fields: Sequence[Field], options: LandingOptions) -> str:
    """Find the delimiter by which the header, or the first row, is one of the table's."""
    lines = (text for text in data[:_HEADER_BYTES].splitlines() if text.strip())
    comment = options.comment.encode()
    first = next((text for text in lines if not comment or not text.startswith(comment)), b"").decode(
        "utf-8", "replace"
    )
    mine = {KIND_COLUMN, *(f.name for f in fields)}
    quote = {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
    for delimiter in _DELIMITERS:
        names = next(csv.reader([first], delimiter=delimiter, **quote), [])
        if len(names) == len(options.header) if options.header else not mine.isdisjoint(names):
            return delimiter
    return _DEFAULT


def _shown(delimiter: str) -> str:
    return "'\\t'" if delimiter == "\t" else f"'{delimiter}'"


def _check_header(
    names: Sequence[str], fields: Sequence[Field], options: LandingOptions, delimiter: str, path: str
) -> None:
    """Check the columns; where none is the table's, the error says what the reason may be.

    errors   as `check_columns`
    """
    mine = {KIND_COLUMN, *(f.name for f in fields)}
    if options.header or not mine.isdisjoint(names):
        check_columns(names, fields, options, path)
        return
    line = delimiter.join(names)
    if "\0" in line:
        raise InvalidInputError("the header has zero bytes: name the encoding (--encoding utf-16-le)", path=path)
    other = _guess(line.encode(), fields, options)
    if other != delimiter and not mine.isdisjoint(next(csv.reader([line], delimiter=other), [])):
        raise InvalidInputError(
            f"no column of the header {line!r} is the table's, but some are with the delimiter {_shown(other)}: name it "
            f"(--delimiter {_shown(other)})",
            path=path,
        )
    try:
        check_columns(names, fields, options, path)
    except InvalidInputError as error:
        table = ",".join(f.name for f in fields)
        if {n.casefold() for n in names} & {n.casefold() for n in mine}:
            error.message += f"; the table's names differ by upper and lower case ({table})"
        else:
            error.message += f"; when the first line is a row already, name the columns of the file (--columns {table})"
        raise


def _header(record: bytes, options: LandingOptions, delimiter: str, path: str) -> list[str]:
    try:
        return list(pacsv.read_csv(io.BytesIO(record), parse_options=_parsing(options, delimiter)).column_names)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the header line cannot be read: {error}; {_ENCODING}", path=path, offset=0) from error


def _parsing(options: LandingOptions, delimiter: str, on_odd: Any = None) -> pacsv.ParseOptions:
    return pacsv.ParseOptions(
        delimiter=delimiter,
        quote_char=options.quote or False,
        escape_char=(options.escape or False) if options.quote else False,
        newlines_in_values=True,
        invalid_row_handler=on_odd,
    )


def _blocks(
    source: Any, path: str, rest: bytes, dialect: _Dialect, block_bytes: int, line: int
) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64]]]:
    """Return the blocks of whole records: bytes, end of each record in them, line each record begins on.

    rest   bytes that were read before
    """
    chunk = rest or bytes(source.read(block_bytes))
    rest = b""
    while True:
        final = not chunk
        data = rest + chunk
        if final and data and not data.endswith((b"\n", b"\r")):
            data += b"\n"
        if not data:
            return
        ends, lines, used, next_line, quoted = _find_records(data, dialect, line, final)
        if final and quoted:
            raise InvalidInputError(f"a quote is opened in the record of line {next_line} and never closed", path=path)
        block, ends, lines = _without_comments(data[:used], ends, lines)
        if len(ends):
            yield block, ends, lines
        rest, line = data[used:], next_line
        if final:
            return
        chunk = bytes(source.read(block_bytes))


def _without_comments(
    block: bytes, ends: NDArray[np.int64], lines: NDArray[np.int64]
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Leave out the lines of a block that are comments: their numbers are negative."""
    rows = lines > 0
    if rows.all():
        return block, ends, lines
    sizes = np.diff(ends, prepend=0)
    kept = np.frombuffer(block, np.uint8)[: ends[-1]][np.repeat(rows, sizes)]
    return kept.tobytes(), np.cumsum(sizes[rows]), lines[rows]


def _find_records(
    data: bytes, dialect: _Dialect, line: int, final: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int, bool]:
    array = frozen(np.frombuffer(data, dtype=np.uint8))
    room = data.count(b"\n") + data.count(b"\r") + 1
    ends, lines = np.empty(room, np.int64), np.empty(room, np.int64)
    d = dialect
    count, used, next_line, quoted = _scan(array, d.delimiter, d.quote, d.escape, d.comment, line, final, ends, lines)
    return ends[:count], lines[:count], used, next_line, quoted


@kernel
def _scan(
    data: NDArray[np.uint8],
    delimiter: int,
    quote: int,
    escape: int,
    comment: int,
    line: int,
    final: bool,
    ends: NDArray[np.int64],
    lines: NDArray[np.int64],
) -> tuple[int, int, int, bool]:
    """Count the records, the bytes of whole lines and the next line, and return whether the rest is inside quotes.

    Lines of comments count as records; the numbers that they begin on are negative.
    """
    newline, carriage = 10, 13
    count, used, begin = 0, 0, line
    quoted, field_start, blank, remark = False, True, True, False
    i, n = 0, len(data)
    while i < n:
        c = data[i]
        if i + 1 == n and not final and (c in (carriage, escape) or (c == quote and quoted)):
            # What follows decides what this means; it comes with the next block.
            break
        if c == escape and not remark:
            # As Arrow, which takes one byte for the escaped one.
            field_start, blank = False, False
            i += 1
            line += int(i < n and data[i] == newline)
        elif quoted:
            if c == quote:
                if i + 1 < n and data[i + 1] == quote:
                    i += 1
                else:
                    quoted = False
            elif c == newline or (c == carriage and not (i + 1 < n and data[i + 1] == newline)):
                line += 1
        elif c in (newline, carriage):
            if c == carriage and i + 1 < n and data[i + 1] == newline:
                i += 1
            line += 1
            used = i + 1
            if not blank:
                ends[count] = used
                lines[count] = -begin if remark else begin
                count += 1
            begin = line
            field_start, blank, remark = True, True, False
        elif remark:
            pass
        elif c == comment and blank:
            remark, blank = True, False
        elif c == quote and field_start:
            quoted, field_start, blank = True, False, False
        else:
            field_start, blank = c == delimiter, False
        i += 1
    return count, used, begin, quoted


def _parse(
    block: bytes,
    ends: NDArray[np.int64],
    lines: NDArray[np.int64],
    names: Sequence[str],
    fields: Sequence[Field],
    options: LandingOptions,
    delimiter: str,
    path: str,
) -> Piece:
    odd: list[tuple[int, str, str]] = []

    def on_odd(row: Any) -> str:
        odd.append((row.number - 1, f"{row.actual_columns} columns instead of {row.expected_columns}", row.text))
        return "skip"

    bad: list[BadLine] = []
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        block, ends, lines, bad = _without_broken_text(block, ends, lines, options.encoding)
    known = {f.name for f in fields} | {KIND_COLUMN}
    try:
        rows = pacsv.read_csv(
            io.BytesIO(block),
            # One thread, so that Arrow knows the number of an odd row; one block, because records are whole.
            read_options=pacsv.ReadOptions(
                use_threads=False, column_names=list(names), block_size=max(len(block) + 1, 1 << 16)
            ),
            parse_options=_parsing(options, delimiter, on_odd),
            convert_options=pacsv.ConvertOptions(
                column_types={n: pa.string() for n in names},
                include_columns=[n for n in names if n in known],
                null_values=list(options.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if len(lines) and "Empty CSV file" not in str(error):
            raise InvalidInputError(f"not a readable CSV file near line {lines[0]}: {error}", path=path) from error
        rows = pa.schema([pa.field(n, pa.string()) for n in names if n in known]).empty_table()
    if rows.num_rows + len(odd) != len(lines):
        raise InternalError(
            f"{len(lines)} CSV records from line {lines[0]} on, Arrow found {rows.num_rows} and {len(odd)} odd ones",
            path=path,
        )
    if options.escape and not options.quote:
        rows = pa.table(
            {n: _unescaped(c, options.escape) for n, c in zip(rows.column_names, rows.columns, strict=True)}
        )
    bad += [BadLine(int(lines[i]), reason, text[:_TEXT_BYTES]) for i, reason, text in odd]
    kept = np.delete(lines, [i for i, _, _ in odd]) if odd else lines
    return Piece(rows, int(kept[0]) if len(kept) else 0, kept, tuple(sorted(bad, key=lambda b: b.line)))


def _unescaped(texts: pa.ChunkedArray, escape: str) -> pa.ChunkedArray:
    """Return texts of a file without quotes with the characters that its escapes stand for, as PostgreSQL writes them."""
    if not pc.any(pc.match_substring(texts, escape), min_count=0).as_py():
        return texts
    texts = pc.replace_substring(texts, escape * 2, "\0")
    for letter, meant in (("n", "\n"), ("t", "\t"), ("r", "\r"), ("b", "\b"), ("f", "\f"), ("v", "\v"), ("", "")):
        texts = pc.replace_substring(texts, escape + letter, meant)
    return pc.replace_substring(texts, "\0", escape)


def _without_broken_text(
    block: bytes, ends: NDArray[np.int64], lines: NDArray[np.int64], encoding: str | None
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64], list[BadLine]]:
    """Drop the records of a block that are not text of the file's encoding."""
    reason = not_text(encoding)
    bad: list[BadLine] = []
    records: list[bytes] = []
    kept: list[int] = []
    for start, end, line in zip([0, *ends[:-1].tolist()], ends.tolist(), lines.tolist(), strict=True):
        record = block[start:end]
        try:
            record.decode("utf-8")
        except UnicodeDecodeError:
            bad.append(BadLine(line, reason, record.decode("utf-8", "replace").strip()[:_TEXT_BYTES]))
            continue
        records.append(record)
        kept.append(line)
    new_ends = np.cumsum([len(r) for r in records], dtype=np.int64)
    return b"".join(records), new_ends, np.array(kept, dtype=np.int64), bad
