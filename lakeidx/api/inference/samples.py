"""Samples of files: their first rows, texts as they are written, with what had to be guessed to read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson
import pyarrow.parquet as pq

from lakeidx.errors import InvalidInputError
from lakeidx.landing.read import LandingOptions, landing_format, open_parquet, read_landing
from lakeidx.landing.text.compressed import encoding_of, open_plain
from lakeidx.landing.text.json_arrays import ArrayRows, arrays_in, is_array
from lakeidx.landing.types import BadLine
from lakeidx.landing.written.excel import sheet_header
from lakeidx.storage.base import ObjectStore
from lakeidx.types import Field, from_arrow, parse_type

_ROWS = 100_000
_BYTES = 16 << 20
_DELIMITERS = ",;\t|"
_HEADER_LINES = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """First rows of a file.

    rows      under the names in the file; of text formats and mixed cells texts
    options   by which the file is read
    guessed   what they say that nobody had said, one line each
    unread    lines that are no rows
    written   texts are how values are written, which may be numbers
    lacking   columns that some of its rows do not have, where the format can tell
    """

    path: str
    rows: pa.Table
    options: LandingOptions
    guessed: tuple[str, ...] = ()
    unread: tuple[BadLine, ...] = ()
    written: bool = True
    lacking: frozenset[str] = frozenset()


def read_sample(store: ObjectStore, path: str, options: LandingOptions) -> Sample:
    """Read the first rows of a file.

    errors   InvalidInputError for a file that cannot be read, naming it
    """
    kind = landing_format(path, options)
    try:
        if kind == "parquet":
            return Sample(path, pa.concat_tables([*_first(open_parquet(store, path))]), options, written=False)
        if kind == "arrow":
            with store.open_input(path) as source:
                is_file = source.read(6) == b"ARROW1"
                source.seek(0)
                reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
                return Sample(path, reader.read_all().slice(0, _ROWS), options, written=False)
        if kind == "excel":
            with store.open_input(path) as source:
                fields = _texts(sheet_header(source, path, options))
            return _rows(store, path, fields, options, ())
        if kind == "csv":
            return _csv(store, path, options)
        return _json(store, path, options)
    except pa.ArrowException as error:
        raise InvalidInputError(f"the file cannot be read: {error}", path=path) from error


def _first(file: pq.ParquetFile) -> Iterator[pa.Table]:
    rows = 0
    yield file.schema_arrow.empty_table()
    for batch in file.iter_batches(batch_size=_ROWS):
        yield pa.Table.from_batches([batch])
        rows += batch.num_rows
        if rows >= _ROWS:
            return


def _texts(names: Sequence[str]) -> list[Field]:
    blank = [i for i, n in enumerate(names, 1) if not n.strip()]
    if blank:
        raise InvalidInputError(f"column {blank[0]} has no name: name the columns in the file, or with --columns")
    return [Field(i, n, parse_type("STRING")) for i, n in enumerate(names)]


def _rows(
    store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions, guessed: tuple[str, ...]
) -> Sample:
    names = [f.name for f in fields]
    found: list[pa.Table] = []
    unread: list[BadLine] = []
    lacking: set[str] = set()
    rows = 0
    plain = replace(options, columns=options.header, constants={}, from_name={}, missing="refuse")
    for piece in read_landing(store, path, fields, plain):
        found.append(piece.rows.select([n for n in names if n in piece.rows.column_names]))
        unread += piece.bad_lines
        lacking |= {n for n, rows_without in piece.absent.items() if rows_without.any()}
        guessed += piece.notes
        rows += piece.rows.num_rows
        if rows >= _ROWS:
            break
    none = pa.table({n: pa.array([], pa.string()) for n in names})
    whole = pa.concat_tables(found, promote_options="permissive") if found else none
    return Sample(path, whole, options, guessed, tuple(unread), lacking=frozenset(lacking & set(names)))


def _csv(store: ObjectStore, path: str, options: LandingOptions) -> Sample:
    guessed = []
    with open_plain(store, path, encoding=options.encoding) as source:
        head = bytes(source.read(1 << 20))
    if encoding_of(head, options.encoding) is None:
        try:
            head[: head.rfind(b"\n") + 1].decode("utf-8")
        except UnicodeDecodeError as error:
            options = replace(options, encoding="cp1252")
            guessed.append(f"line {head[: error.start].count(10) + 1} is not UTF-8: encoding cp1252")
            head = head.decode("cp1252", "replace").encode()
    lines = head.decode("utf-8-sig", "replace").splitlines(keepends=True)[options.skip_lines :]
    named = lines and lines[0].lower().lstrip('"').startswith("sep=")
    lines = [
        t for t in lines[1 if named else 0 :] if t.strip() and not (options.comment and t.startswith(options.comment))
    ]
    if not lines:
        raise InvalidInputError("the landing file has no header line", path=path)
    delimiter = options.delimiter or _delimiter(lines, options)
    if not options.delimiter and delimiter != ",":
        options = replace(options, delimiter=delimiter)
        guessed.append(f"every line has fields between {delimiter!r}: delimiter")
    names = list(options.header) or _records(lines[:_HEADER_LINES], delimiter, options)[0]
    if not options.header and any(_is_value(n) for n in names):
        raise InvalidInputError(
            f"the first line looks like a row ({delimiter.join(names)}): name the columns (--columns id,name), or the lines "
            "before the header (--skip-lines)",
            path=path,
        )
    return _rows(store, path, _texts(names), options, tuple(guessed))


def _is_value(text: str) -> bool:
    return text.strip().replace(".", "").replace(",", "").lstrip("-").isdecimal()


def _records(lines: Sequence[str], delimiter: str, options: LandingOptions) -> list[list[str]]:
    quoting: dict[str, Any] = {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
    return list(csv.reader(io.StringIO("".join(lines)), delimiter=delimiter, **quoting))


def _delimiter(lines: Sequence[str], options: LandingOptions) -> str:
    """Return the character by which lines have equally many fields, the most of them; a comma when none does."""

    def fields(delimiter: str) -> int:
        counts = {len(r) for r in _records(lines[:_HEADER_LINES], delimiter, options)[:-1] or [[]]}
        counts |= {len(_records(lines[:1], delimiter, options)[0])}
        return counts.pop() if len(counts) == 1 else 0

    return max(_DELIMITERS, key=fields)


def _json(store: ObjectStore, path: str, options: LandingOptions) -> Sample:
    guessed: tuple[str, ...] = ()
    with open_plain(store, path, encoding=options.encoding) as source:
        first = bytes(source.read(_BYTES))
    if options.member is None and not is_array(first, None) and (found := arrays_in(first)):
        if len(found) > 1:
            raise InvalidInputError(
                f"the file is an object with several arrays, {', '.join(found)}: say which has the rows (--member {found[0]})",
                path=path,
            )
        options = replace(options, member=found[0])
        guessed = (f"the rows are in the member {found[0]}",)
    if is_array(first, options.member):
        with open_plain(store, path, encoding=options.encoding) as source:
            rows = ArrayRows(source, path, options.member)
            first = b""
            while len(first) < _BYTES and (more := rows.read(1 << 20)):
                first += more
    whole = first[: first.rfind(b"\n") + 1] or first
    typed = pajson.read_json(pa.BufferReader(whole.removeprefix(b"\xef\xbb\xbf"))).schema
    nested = {f.name: f.type for f in typed if pa.types.is_nested(f.type)}
    fields = [
        Field(f.id, f.name, from_arrow(nested[f.name], where=f"column {f.name}")) if f.name in nested else f
        for f in _texts(typed.names)
    ]
    sample = _rows(store, path, fields, options, guessed)
    rows_of = sample.rows
    for name, t in nested.items():
        # Texts of JSON in the rows; the type is what Arrow has found.
        at = rows_of.column_names.index(name)
        rows_of = rows_of.set_column(at, pa.field(name, t), pa.nulls(rows_of.num_rows, t))
    return replace(sample, rows=rows_of)
