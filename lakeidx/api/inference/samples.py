"""Samples of files: their first rows, texts as they are written, with what had to be guessed to read them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from lakeidx.errors import InvalidInputError
from lakeidx.landing.columnar.batches import TYPED_FORMATS, open_typed, refuse_unions
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
            file = open_parquet(store, path)
            return _typed(path, file.schema_arrow, file.iter_batches(batch_size=_ROWS), options)
        if kind in TYPED_FORMATS:
            with store.open_input(path) as source:
                schema, batches = open_typed(kind, source, path)
                refuse_unions(schema, schema.names, path)
                return _typed(path, schema, batches(schema.names), options)
        if kind == "excel":
            with store.open_input(path) as source:
                fields = _texts(sheet_header(source, path, options))
            return _rows(store, path, fields, options, ())
        if kind == "csv":
            return _csv(store, path, options)
        return _json(store, path, options)
    except pa.ArrowException as error:
        raise InvalidInputError(f"the file cannot be read: {error}", path=path) from error


def _typed(path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], options: LandingOptions) -> Sample:
    found, rows = [], 0
    for batch in batches:
        found.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            break
    return Sample(path, pa.Table.from_batches(found, schema), options, written=False)


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
    if lines and lines[0].lower().lstrip('"').startswith("sep="):
        lines = lines[1:]
    if not options.header:
        skipped, delimiter = _layout(lines, options, path)
        if skipped:
            options = replace(options, skip_lines=options.skip_lines + skipped)
            guessed.append(
                f"the first line with {delimiter!r} between its fields is {skipped + 1}: skip_lines {skipped}"
            )
    else:
        skipped, delimiter = 0, options.delimiter or ","
    lines = [t for t in lines[skipped:] if t.strip() and not (options.comment and t.startswith(options.comment))]
    if not lines:
        raise InvalidInputError("the landing file has no header line", path=path)
    if not options.delimiter and delimiter != ",":
        options = replace(options, delimiter=delimiter)
        guessed.append(f"most lines have fields between {delimiter!r}: delimiter")
    names = list(options.header) or next(_reader(lines[:_HEADER_LINES], delimiter, options))
    if not options.header and any(_is_value(n) for n in names):
        raise InvalidInputError(
            f"the first line looks like a row ({delimiter.join(names)}): name the columns (--columns id,name), or the lines "
            "before the header (--skip-lines)",
            path=path,
        )
    return _rows(store, path, _texts(names), options, tuple(guessed))


def _is_value(text: str) -> bool:
    return text.strip().replace(".", "").replace(",", "").lstrip("-").isdecimal()


def _reader(lines: Sequence[str], delimiter: str, options: LandingOptions) -> Any:
    quoting: dict[str, Any] = {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
    return csv.reader(io.StringIO("".join(lines)), delimiter=delimiter, **quoting)


def _layout(lines: Sequence[str], options: LandingOptions, path: str) -> tuple[int, str]:
    """Return the lines before the header, and the character that most lines have equally often, the most of them.

    errors   InvalidInputError where the first line has other fields than most, and does not look like a title
    """
    titled: list[tuple[int, int, str, int]] = []
    odd: list[tuple[int, int, str]] = []
    for delimiter in [options.delimiter] if options.delimiter else _DELIMITERS:
        reader = _reader(lines[:_HEADER_LINES], delimiter, options)
        starts, records, at = [], [], 0
        for record in reader:
            if record and not (options.comment and record[0].startswith(options.comment)):
                starts.append(at)
                records.append(record)
            at = reader.line_num
        counts = Counter(len(r) for r in (records[:-1] if len(lines) > _HEADER_LINES else records))
        fields, times = counts.most_common(1)[0] if counts else (0, 0)
        if fields < 2 or 2 * times <= counts.total():
            continue
        named = [len(r) if sum(1 for v in r if v.strip()) > 1 else 1 for r in records]
        before = named.index(fields) if fields in named else 0
        if before and (fields < 3 or max(named[:before]) > 1):
            odd.append((fields, len(records[0]), delimiter))
        else:
            titled.append((-before, fields, delimiter, starts[before] if before else 0))
    if titled:
        # A decimal comma may part more fields than the delimiter does, though not those of the header.
        *_, delimiter, skipped = max(titled, key=lambda t: t[:2])
        return skipped, delimiter
    if odd:
        fields, first, delimiter = max(odd)
        raise InvalidInputError(
            f"the first line has {first} fields between {delimiter!r}, most have {fields}: say how many lines are before the "
            "header (--skip-lines), or name the columns (--columns id,name)",
            path=path,
        )
    return 0, options.delimiter or ","


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
