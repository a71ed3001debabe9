"""CSV landing files: blocks of whole records to Arrow, each record with the line it begins on.

A kernel finds where records end, minding quotes, so that a quoted line break neither cuts a record at the border of a block nor
shifts the line numbers after it. Arrow parses; blank lines are no records; a byte order mark is skipped.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from lakeidx.codec.jit import frozen, kernel
from lakeidx.errors import InternalError, InvalidInputError
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.row_kinds import KIND_COLUMN
from lakeidx.landing.types import BadLine, LandingOptions, Piece, check_columns
from lakeidx.types import Field

BLOCK_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_TEXT_BYTES = 2000
_HEADER_BYTES = 64 << 10
_DELIMITERS = ",;\t|"
_NO_HEADER = "the landing file has no header line"


def read_csv(
    source: Any,
    path: str,
    fields: Sequence[Field],
    options: LandingOptions,
    *,
    block_bytes: int = BLOCK_BYTES,
    line: int = 1,
    columns: Sequence[str] = (),
) -> Iterator[Piece]:
    """Read the pieces of a CSV file whose first record names the columns, unless the options do.

    source    binary file
    line      number of its first line: not 1 for a share of a file
    columns   as the header of the whole file names them, for a share that has none
    errors    InvalidInputError: no header, columns that are not the table's, a quote that is never closed
    """
    _check_delimiter(options, path)
    given = list(options.columns or columns)
    names: list[str] | None = None
    for block, ends, lines in _blocks(source, path, ord(options.delimiter), block_bytes, line):
        if names is None:
            names = given or _header(block[: ends[0]], options, path)
            _check_header(names, fields, options, path)
            header = pa.schema([(n, pa.string()) for n in names])
            extra = new_columns(header, fields, options.merge_schema, ignore_extra=options.ignore_extra)
            if extra:
                yield Piece(pa.table({}), 1, extra=extra)
                return
            if not given:
                block, ends, lines = block[ends[0] :], ends[1:] - ends[0], lines[1:]
        if len(lines):
            yield _parse(block, ends, lines, names, fields, options, path)
    if names is None and not columns:
        raise InvalidInputError(_NO_HEADER, path=path)


def csv_header(source: Any, path: str, options: LandingOptions) -> tuple[tuple[str, ...], int]:
    """Return the columns of a CSV file, as its header or the options name them, and the bytes of the file up to the header's end.

    errors   as for `read_csv`
    """
    _check_delimiter(options, path)
    if options.columns:
        return options.columns, 0
    for block, ends, _ in _blocks(source, path, ord(options.delimiter), _HEADER_BYTES, 1):
        source.seek(0)
        mark = len(_BOM) if source.read(len(_BOM)) == _BOM else 0
        return tuple(_header(block[: ends[0]], options, path)), mark + int(ends[0])
    raise InvalidInputError(_NO_HEADER, path=path)


def _check_header(names: Sequence[str], fields: Sequence[Field], options: LandingOptions, path: str) -> None:
    """Check the columns; where none is the table's, the error says what the reason may be.

    errors   as `check_columns`
    """
    mine = {KIND_COLUMN, *(f.name for f in fields)}
    if options.columns or not mine.isdisjoint(names):
        check_columns(names, fields, options, path)
        return
    line = options.delimiter.join(names)
    for other in _DELIMITERS.replace(options.delimiter, ""):
        if not mine.isdisjoint(part.strip('"') for part in line.split(other)):
            shown = "\\t" if other == "\t" else other
            raise InvalidInputError(
                f"no column of the header {line!r} is the table's, but some are with the delimiter '{shown}': name it (--delimiter "
                f"'{shown}')",
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


def _check_delimiter(options: LandingOptions, path: str) -> None:
    if len(options.delimiter.encode()) != 1:
        raise InvalidInputError(f"the delimiter must be one ASCII character, not {options.delimiter!r}", path=path)


def _header(record: bytes, options: LandingOptions, path: str) -> list[str]:
    try:
        parse = pacsv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True)
        return list(pacsv.read_csv(io.BytesIO(record), parse_options=parse).column_names)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the header line cannot be read: {error}", path=path, offset=0) from error


def _blocks(
    source: Any, path: str, delimiter: int, block_bytes: int, line: int
) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64]]]:
    """Return the blocks of whole records: bytes, end of each record in them, line each record begins on."""
    rest, first = b"", line == 1
    while True:
        chunk = bytes(source.read(block_bytes))
        final = not chunk
        data = rest + chunk
        if first and not final:
            data, first = data.removeprefix(_BOM), False
        if final and data and not data.endswith((b"\n", b"\r")):
            data += b"\n"
        if not data:
            return
        ends, lines, used, next_line, quoted = _find_records(data, delimiter, line, final)
        if final and quoted:
            raise InvalidInputError(f"a quote is opened in the record of line {next_line} and never closed", path=path)
        if len(ends):
            yield data[:used], ends, lines
        rest, line = data[used:], next_line
        if final:
            return


def _find_records(
    data: bytes, delimiter: int, line: int, final: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int, bool]:
    array = frozen(np.frombuffer(data, dtype=np.uint8))
    room = data.count(b"\n") + data.count(b"\r") + 1
    ends, lines = np.empty(room, np.int64), np.empty(room, np.int64)
    count, used, next_line, quoted = _scan(array, delimiter, line, final, ends, lines)
    return ends[:count], lines[:count], used, next_line, quoted


@kernel
def _scan(
    data: NDArray[np.uint8],
    delimiter: int,
    line: int,
    final: bool,
    ends: NDArray[np.int64],
    lines: NDArray[np.int64],
) -> tuple[int, int, int, bool]:
    """Count the records, the bytes of whole lines and the next line, and return whether the rest is inside quotes."""
    quote, newline, carriage = 34, 10, 13
    count, used, begin = 0, 0, line
    quoted, field_start, blank = False, True, True
    i, n = 0, len(data)
    while i < n:
        c = data[i]
        if (c == carriage or (c == quote and quoted)) and i + 1 == n and not final:
            # What follows decides what this means; it comes with the next block.
            break
        if quoted:
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
                lines[count] = begin
                count += 1
            begin = line
            field_start, blank = True, True
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
        block, ends, lines, bad = _without_broken_text(block, ends, lines)
    known = {f.name for f in fields} | {KIND_COLUMN}
    try:
        rows = pacsv.read_csv(
            io.BytesIO(block),
            # One thread, so that Arrow knows the number of an odd row; one block, because records are whole.
            read_options=pacsv.ReadOptions(
                use_threads=False, column_names=list(names), block_size=max(len(block) + 1, 1 << 16)
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=options.delimiter, newlines_in_values=True, invalid_row_handler=on_odd
            ),
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
    bad += [BadLine(int(lines[i]), reason, text[:_TEXT_BYTES]) for i, reason, text in odd]
    kept = np.delete(lines, [i for i, _, _ in odd]) if odd else lines
    return Piece(rows, int(kept[0]) if len(kept) else 0, kept, tuple(sorted(bad, key=lambda b: b.line)))


def _without_broken_text(
    block: bytes, ends: NDArray[np.int64], lines: NDArray[np.int64]
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64], list[BadLine]]:
    """Drop the records of a block that are not UTF-8."""
    bad: list[BadLine] = []
    records: list[bytes] = []
    kept: list[int] = []
    for start, end, line in zip([0, *ends[:-1].tolist()], ends.tolist(), lines.tolist(), strict=True):
        record = block[start:end]
        try:
            record.decode("utf-8")
        except UnicodeDecodeError:
            bad.append(BadLine(line, "not UTF-8 text", record.decode("utf-8", "replace").strip()[:_TEXT_BYTES]))
            continue
        records.append(record)
        kept.append(line)
    new_ends = np.cumsum([len(r) for r in records], dtype=np.int64)
    return b"".join(records), new_ends, np.array(kept, dtype=np.int64), bad
