"""Sheets of Excel files (.xlsx): the values that cells have or formulas had; an error in a cell is its text, ``#N/A``."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.new_columns import new_columns
from lakeidx.landing.types import LandingOptions, Piece, check_columns
from lakeidx.types import Field

_ROWS = 65_536


def read_excel(source: Any, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    """Read the pieces of a sheet whose first row, after those that are skipped, names the columns, unless the options do.

    source   binary file
    errors   InvalidInputError: no such sheet, no header, columns that are not the table's; CorruptFileError
    """
    sheet, note = _sheet(source, path, options)
    rows = enumerate(sheet.iter_rows(values_only=True), 1)
    names = _header(rows, path, options)
    check_columns(names, fields, options, path)
    known = {KIND_COLUMN, *(f.name for f in fields)}
    notes = (note,) if note else ()
    for chunk in _chunks(rows, path):
        lines = np.array([line for line, _ in chunk], np.int64)
        cells = [row for _, row in chunk]
        columns = {
            n: _column([row[i] if i < len(row) else None for row in cells], options)
            for i, n in enumerate(names)
            if n in known or (options.merge_schema != "refuse" and n not in options.dropped)
        }
        found = pa.table(columns)
        extra = new_columns(found.schema, fields, options.merge_schema, ignore_extra=options.ignore_extra, path=path)
        if extra:
            yield Piece(pa.table({}), 1, extra=extra)
            continue
        yield Piece(found.select([n for n in names if n in known]), int(lines[0]), lines, notes=notes)
        notes = ()


def sheet_header(source: Any, path: str, options: LandingOptions) -> list[str]:
    """Return the columns of a sheet; errors as for `read_excel`."""
    sheet, _ = _sheet(source, path, options)
    return _header(enumerate(sheet.iter_rows(values_only=True), 1), path, options)


def _sheet(source: Any, path: str, options: LandingOptions) -> tuple[Any, str]:
    """Return a sheet, and what was guessed."""
    try:
        import openpyxl
    except ImportError:
        raise InvalidInputError('Excel files need: pip install "lakeidx[excel]"', path=path) from None
    try:
        book = openpyxl.load_workbook(io.BytesIO(bytes(source.read())), read_only=True, data_only=True)
    except Exception as error:  # the library raises what its parsers do
        raise CorruptFileError(
            f"not a readable .xlsx file ({error}); save .xls, .xlsb and .ods, and what needs a password, as plain .xlsx",
            path=path,
        ) from error
    names = [s.title for s in book.worksheets]
    wanted: Any = options.sheet
    if isinstance(wanted, str) and wanted not in names and wanted.isdecimal():
        wanted = int(wanted)
    if isinstance(wanted, int) and 1 <= wanted <= len(names):
        wanted = names[wanted - 1]
    if wanted is not None and wanted not in names:
        raise InvalidInputError(f"there is no sheet {options.sheet!r}; the file has {', '.join(names)}", path=path)
    sheet = book[wanted if wanted is not None else names[0]]
    # Some programs write a size that is not the sheet's.
    sheet.reset_dimensions()
    others = ", ".join(names[1:])
    return sheet, f"read the first sheet, {names[0]}; others (--sheet): {others}" if wanted is None and others else ""


def _header(rows: Iterator[tuple[int, Sequence[Any]]], path: str, options: LandingOptions) -> list[str]:
    """Return the columns, of which those at the end may have no name; the rows are read up to the header."""
    for _ in islice(rows, options.skip_lines):
        pass
    if options.header:
        return list(options.header)
    for _, row in rows:
        names = ["" if v is None else str(v) for v in row]
        while names and not names[-1]:
            names.pop()
        if names:
            return names
    raise InvalidInputError("the sheet has no header row", path=path)


def _chunks(rows: Iterator[tuple[int, Sequence[Any]]], path: str) -> Iterator[list[tuple[int, Sequence[Any]]]]:
    """Return the rows that are not empty, with their numbers, some at a time."""
    filled = ((line, row) for line, row in rows if any(v is not None for v in row))
    try:
        while chunk := list(islice(filled, _ROWS)):
            yield chunk
    except InvalidInputError:
        raise
    except Exception as error:
        raise CorruptFileError(f"the sheet cannot be read: {error}", path=path) from error


def _column(values: list[Any], options: LandingOptions) -> pa.Array:
    """Return the cells of a column: of one type as it is, of several as texts."""
    nulls = set(options.null_values)
    values = [None if isinstance(v, str) and v in nulls else v for v in values]
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {int, float} and float in kinds:
        if all(v is None or float(v).is_integer() for v in values):
            values, kinds = [None if v is None else int(v) for v in values], {int}
        else:
            return pa.array(values, pa.float64())
    if kinds == {dt.datetime} and all(v is None or v.time() == dt.time() for v in values):
        return pa.array([None if v is None else v.date() for v in values], pa.date32())
    if len(kinds) <= 1 and not kinds & {dt.timedelta}:
        try:
            return pa.array(values, pa.timestamp("us") if kinds == {dt.datetime} else None)
        except (pa.ArrowInvalid, OverflowError):
            pass
    return pa.array([_text(v, options) for v in values], pa.string())


def _text(value: Any, options: LandingOptions) -> str | None:
    """Return a cell among cells of other types as a text, spelled as those of the file."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value).replace(".", options.decimal)
    if isinstance(value, (dt.date, dt.time)):
        form = next(iter(options.date_formats), "iso")
        return str(value) if form == "iso" else value.strftime(form)
    return str(value)
