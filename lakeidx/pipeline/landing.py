"""Reads landing files (Parquet, CSV, JSON lines) in bounded pieces, as they are, before any cast.

Every piece knows where its first row stands in the file, so that a rejected row can be named by its line.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.pipeline.kinds import KIND_COLUMN
from lakeidx.storage.base import ObjectStore
from lakeidx.types import INT_ROOTS, DataType, Field, Root, to_arrow

FORMATS = ("parquet", "csv", "jsonl")
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_BATCH_ROWS = 131_072
_JSON_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class LandingOptions:
    """How landing files are read.

    format         parquet, csv or jsonl; None = by the file's ending
    delimiter      csv
    null_values    csv texts that mean null
    ignore_extra   columns that the table does not have are left out instead of being an error
    """

    format: str | None = None
    delimiter: str = ","
    null_values: tuple[str, ...] = ("",)
    ignore_extra: bool = False


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a row of the format at all."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a landing file.

    rows         columns as the format gives them
    first_line   line (csv, jsonl) or row (parquet) of the first row, counted from 1
    lines        line of every row when they do not follow one another, else None
    bad_lines    lines before or among these rows that could not be read
    """

    rows: pa.Table
    first_line: int
    lines: Sequence[int] | None = None
    bad_lines: tuple[BadLine, ...] = field(default=())


def landing_format(path: str, options: LandingOptions) -> str:
    """The format of a landing file; InvalidInputError when the ending does not tell."""
    if options.format is not None:
        if options.format not in FORMATS:
            raise InvalidInputError(f"unknown landing format {options.format!r}; use one of {', '.join(FORMATS)}")
        return options.format
    for suffix, name in _SUFFIXES.items():
        if path.lower().endswith(suffix):
            return name
    raise InvalidInputError(f"cannot tell the format by the ending; use {', '.join(_SUFFIXES)}", path=path)


def open_parquet(store: ObjectStore, path: str) -> pq.ParquetFile:
    """A landing Parquet file; clear errors when it is missing, empty or not Parquet."""
    size = store.size(path)
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    try:
        return pq.ParquetFile(store.open_input(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"not a readable Parquet file: {error}", path=path) from error


def check_columns(names: Sequence[str], fields: Sequence[Field], options: LandingOptions, path: str) -> None:
    """InvalidInputError when a required column is missing or an unknown one is there."""
    have = set(names)
    required = [f.name for f in fields if not f.type.nullable and f.name not in have]
    if required:
        raise InvalidInputError(
            f"the landing file lacks the required columns {', '.join(required)}; it has {', '.join(names) or 'none'}",
            path=path,
        )
    extra = sorted(have - {f.name for f in fields} - {KIND_COLUMN})
    if extra and not options.ignore_extra:
        raise InvalidInputError(
            f"the landing file has columns the table does not have: {', '.join(extra)}; add them to the table or let "
            "extra columns be ignored",
            path=path,
        )


def read_landing(store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    """Pieces of a landing file, in file order."""
    kind = landing_format(path, options)
    if kind == "parquet":
        yield from _read_parquet(store, path, fields, options)
        return
    try:
        size = store.size(path)
    except NotFoundError:
        raise NotFoundError("the landing file does not exist", path=path) from None
    if size == 0:
        raise InvalidInputError("the landing file is empty (0 bytes)", path=path)
    if kind == "csv":
        yield from _read_csv(store, path, fields, options)
    else:
        yield from _read_jsonl(store, path, fields, options)


def _read_parquet(store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    file = open_parquet(store, path)
    names = file.schema_arrow.names
    check_columns(names, fields, options, path)
    wanted = [n for n in names if n == KIND_COLUMN or any(f.name == n for f in fields)]
    position = 1
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            yield Piece(pa.Table.from_batches([batch]), position)
            position += batch.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"the Parquet file is damaged after row {position - 1}: {error}", path=path) from error


def _read_csv(store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    bad: list[BadLine] = []

    def on_bad(row: Any) -> str:
        reason = f"{row.actual_columns} columns instead of {row.expected_columns}"
        bad.append(BadLine(row.number or 0, reason, row.text))
        return "skip"

    with store.open_input(path) as raw:
        head = io.TextIOWrapper(io.BytesIO(raw.read(1 << 20)), "utf-8-sig", errors="replace").readline()
    # The names come from the header; text columns keep what was written until the cast decides.
    names = pacsv.read_csv(
        io.BytesIO(head.encode()), parse_options=pacsv.ParseOptions(delimiter=options.delimiter)
    ).column_names
    check_columns(names, fields, options, path)
    convert = pacsv.ConvertOptions(
        column_types={n: pa.string() for n in names},
        include_columns=[n for n in names if n == KIND_COLUMN or any(f.name == n for f in fields)],
        null_values=list(options.null_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pacsv.ParseOptions(delimiter=options.delimiter, invalid_row_handler=on_bad)
    line = 2
    try:
        # One thread, so that Arrow knows the number of a bad row.
        reader = pacsv.open_csv(
            store.open_input(path), read_options=pacsv.ReadOptions(use_threads=False, block_size=8 << 20),
            parse_options=parse, convert_options=convert,
        )  # fmt: skip
        for batch in reader:
            found, bad[:] = tuple(bad), []
            rows = pa.Table.from_batches([batch])
            skipped = sorted(b.line for b in found if b.line >= line)
            lines = _lines_around(line, rows.num_rows, skipped)
            yield Piece(rows, line, lines, found)
            line += rows.num_rows + len(skipped)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"not a readable CSV file: {error}", path=path) from error
    if bad:
        yield Piece(pa.schema([]).empty_table(), line, None, tuple(bad))


def _lines_around(first: int, count: int, skipped: Sequence[int]) -> list[int] | None:
    if not skipped:
        return None
    gone, line = set(skipped), first
    out: list[int] = []
    while len(out) < count:
        if line not in gone:
            out.append(line)
        line += 1
    return out


def _json_type(t: DataType) -> pa.DataType:
    if t.root in INT_ROOTS:
        return pa.int64()
    if t.root is Root.BOOLEAN:
        return pa.bool_()
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return pa.float64()
    return to_arrow(t) if t.is_nested else pa.string()


def _read_jsonl(store: ObjectStore, path: str, fields: Sequence[Field], options: LandingOptions) -> Iterator[Piece]:
    schema = pa.schema([pa.field(f.name, _json_type(f.type)) for f in fields] + [pa.field(KIND_COLUMN, pa.string())])
    line = 1
    checked = False
    for block in _line_blocks(store, path):
        count = block.count(b"\n")
        if not checked:
            first = block.split(b"\n", 1)[0]
            try:
                names = list(json.loads(first))
            except (ValueError, TypeError):
                names = []
            if names:
                check_columns(names, fields, options, path)
                checked = True
        piece = _fast_json(block, schema, line, options) or _slow_json(block, fields, line, options)
        yield piece
        line += count


def _line_blocks(store: ObjectStore, path: str) -> Iterator[bytes]:
    rest = b""
    with store.open_input(path) as raw:
        while chunk := raw.read(_JSON_BLOCK_BYTES):
            data = rest + bytes(chunk)
            cut = data.rfind(b"\n") + 1
            if cut:
                yield data[:cut]
            rest = data[cut:]
    if rest.strip():
        yield rest + b"\n"


def _fast_json(block: bytes, schema: pa.Schema, line: int, options: LandingOptions) -> Piece | None:
    if b"\n\n" in block or b"\r" in block:
        return None
    try:
        rows = pajson.read_json(
            io.BytesIO(block),
            read_options=pajson.ReadOptions(use_threads=False, block_size=max(len(block), 1 << 20)),
            parse_options=pajson.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore" if options.ignore_extra else "error"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return Piece(rows, line)


def _slow_json(block: bytes, fields: Sequence[Field], line: int, options: LandingOptions) -> Piece:
    """The same block line by line, where values may be strings that cast, or lines may be broken."""
    nested = {f.name for f in fields if f.type.is_nested or f.type.root is Root.VARIANT}
    names = [f.name for f in fields]
    known = {*names, KIND_COLUMN}
    columns: dict[str, list[Any]] = {n: [] for n in (*names, KIND_COLUMN)}
    lines: list[int] = []
    bad: list[BadLine] = []
    for i, raw in enumerate(block.splitlines()):
        text = raw.decode("utf-8", errors="replace").strip()
        if not text:
            continue
        try:
            value = json.loads(text, parse_float=str, parse_int=str)
        except ValueError as error:
            bad.append(BadLine(line + i, f"not JSON: {error}", text))
            continue
        if not isinstance(value, dict):
            bad.append(BadLine(line + i, "a line must be a JSON object", text))
            continue
        extra = sorted(set(value) - known)
        if extra and not options.ignore_extra:
            bad.append(BadLine(line + i, f"unknown columns {', '.join(extra)}", text))
            continue
        lines.append(line + i)
        for name, column in columns.items():
            column.append(_text_of(value.get(name), name in nested))
    arrays = {n: pa.array(c, type=pa.string()) for n, c in columns.items()}
    return Piece(pa.table(arrays), line, lines, tuple(bad))


def _text_of(value: Any, nested: bool) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if nested or isinstance(value, (list, dict)) else str(value)
