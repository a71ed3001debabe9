"""Output of results: JSON lines (values as `lakeidx.data.json_values`), CSV, Parquet, Arrow IPC, or a table for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from lakeidx.cli.context import JsonOption, added_option, passing_for, report_errors
from lakeidx.data.json_values import json_columns, json_rows
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.results import Result

F = TypeVar("F", bound=StrEnum)


class RowFormat(StrEnum):
    """Formats of rows."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"
    TABLE = "table"


class ListFormat(StrEnum):
    """Formats of short lists."""

    TABLE = "table"
    JSONL = "jsonl"


#: Rows that a terminal shows when nothing else is asked for.
SHOWN_ROWS = 100

ListFormatOption = Annotated[ListFormat | None, typer.Option("--format", help="output format; default table")]
OutputOption = Annotated[Path | None, typer.Option("-o", "--output", help="write rows to a file instead of stdout")]
_LIST_FORMAT, _AS_JSON = added_option("list_format", ListFormatOption), added_option("as_json", JsonOption, False)


def chosen_format(kind: F | None, output: Path | None, formats: type[F], usual: F, *, as_json: bool) -> F:
    """Return the requested format, else that of the output file's name, else the default.

    as_json   ``--json`` was given: JSON lines, or one document where those are none of the formats
    errors    InvalidInputError for ``--json`` beside another format
    """
    if as_json:
        lines = next(f for f in formats if str(f) in ("jsonl", "json"))
        if kind not in (None, lines):
            raise InvalidInputError(f"give --json or --format {kind}, not both")
        return lines
    if kind is not None:
        return kind
    ending = "" if output is None else output.suffix.removeprefix(".").lower()
    named = {str(f): f for f in formats if str(f) != RowFormat.TABLE}
    return named.get(ending, usual)


def json_lines(table: pa.Table) -> Iterator[str]:
    """Return one JSON object per row."""
    for row in json_rows(table):
        yield json.dumps(row, ensure_ascii=False)


@contextmanager
def _new_file(output: Path) -> Iterator[Path]:
    """Give a file to write to, which gets its name when everything is written."""
    temp = output.with_name(f".{output.name}.tmp")
    if not output.parent.is_dir():
        raise NotFoundError("the folder to write to does not exist", path=str(output.parent))
    try:
        yield temp
        temp.replace(output)
    finally:
        temp.unlink(missing_ok=True)


@contextmanager
def text_sink(output: Path | None) -> Iterator[TextIO]:
    """Give a file to write text to, or stdout; the file gets its name when everything is written."""
    if output is None:
        yield sys.stdout
        return
    with _new_file(output) as temp, temp.open("w", encoding="utf-8", newline="") as sink:
        yield sink


def print_rows(tables: Iterable[pa.Table], schema: pa.Schema, kind: RowFormat, output: Path | None) -> None:
    """Write rows in a format. A file appears under its name only when it is complete."""
    writer: dict[RowFormat, Callable[[Iterable[pa.Table], pa.Schema, Path | None], None]] = {
        RowFormat.JSONL: _write_jsonl,
        RowFormat.CSV: _write_csv,
        RowFormat.PARQUET: _write_parquet,
        RowFormat.ARROW: _write_arrow,
        RowFormat.TABLE: _write_table,
    }
    writer[kind](tables, schema, output)


def _write_jsonl(tables: Iterable[pa.Table], schema: pa.Schema, output: Path | None) -> None:
    with text_sink(output) as sink:
        for table in tables:
            sink.writelines(line + "\n" for line in json_lines(table))


def _write_csv(tables: Iterable[pa.Table], schema: pa.Schema, output: Path | None) -> None:
    with text_sink(output) as sink:
        header = True
        for table in (*tables, schema.empty_table()):
            if table.num_rows == 0 and not header:
                continue
            arrays = [pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in c], pa.string())
                      for c in json_columns(table)]  # fmt: skip
            buffer = pa.BufferOutputStream()
            options = pacsv.WriteOptions(include_header=header, quoting_style="needed")
            pacsv.write_csv(pa.table(arrays, names=table.column_names), buffer, options)
            sink.write(buffer.getvalue().to_pybytes().decode())
            header = False


def _write_parquet(tables: Iterable[pa.Table], schema: pa.Schema, output: Path | None) -> None:
    if output is None:
        raise InvalidInputError("Parquet is written to a file: give -o FILE")
    with _new_file(output) as temp, pq.ParquetWriter(temp, schema, compression="zstd") as writer:
        _write_tables(writer, tables)


def _write_arrow(tables: Iterable[pa.Table], schema: pa.Schema, output: Path | None) -> None:
    """Write an Arrow IPC stream, to a file or to stdout for another program."""
    if output is None:
        if sys.stdout.isatty():
            raise InvalidInputError("Arrow is a binary format: give -o FILE, or pipe it to a program")
        with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
            _write_tables(writer, tables)
        return
    with _new_file(output) as temp, pa.ipc.new_stream(str(temp), schema) as writer:
        _write_tables(writer, tables)


def _write_tables(writer: pq.ParquetWriter | pa.RecordBatchStreamWriter, tables: Iterable[pa.Table]) -> None:
    for table in tables:
        writer.write_table(table)


def _write_table(tables: Iterable[pa.Table], schema: pa.Schema, output: Path | None) -> None:
    rows: list[dict[str, Any]] = []
    for table in tables:
        rows += json_rows(table)
    with text_sink(output) as sink:
        _print_table(rows, schema.names, sink)


def print_list(rows: Sequence[Mapping[str, Any]], kind: ListFormat | None, as_json: bool = False) -> None:
    """Print a short list to stdout: a table, or JSON lines; errors as `chosen_format`."""
    if chosen_format(kind, None, ListFormat, ListFormat.TABLE, as_json=as_json) is ListFormat.JSONL:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False, default=str))
        return
    if rows:
        _print_table(rows, list(dict.fromkeys(n for r in rows for n in r)), sys.stdout)
    else:
        print("(none)")


def _print_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str], sink: TextIO) -> None:
    table = Table()
    for name in names:
        numeric = bool(rows) and all(isinstance(r.get(name), (int, float)) or r.get(name) is None for r in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if row.get(n) is None else _cell(row[n]) for n in names))
    width = None if sink.isatty() else 4096
    console = Console(file=sink, width=width, soft_wrap=width is not None)
    console.print(table, crop=False)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def print_json(value: Any) -> None:
    """Print one JSON document to stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result to stdout: words on a terminal; JSON with ``--json``, and where a program reads."""
    if for_programs(as_json):
        print_json(result.as_dict())
    else:
        print(result)


def prints_result(command: Callable[..., Result]) -> Callable[..., None]:
    """Make a command of what returns a result; see `print_result` and `report_errors`."""

    @passing_for(command, [_AS_JSON])
    def run(*, as_json: bool, **given: Any) -> None:
        print_result(command(**given), as_json=as_json)

    return report_errors(run)


def prints_list(command: Callable[..., Sequence[Mapping[str, Any]]]) -> Callable[..., None]:
    """Make a command of what returns a short list; see `print_list` and `report_errors`."""

    @passing_for(command, [_LIST_FORMAT, _AS_JSON])
    def run(*, list_format: ListFormat | None, as_json: bool, **given: Any) -> None:
        print_list(command(**given), list_format, as_json)

    return report_errors(run)


def print_first_rows(tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Print the first rows as a table for people, and say when there are more; the rest is not read."""
    kept: list[pa.Table] = []
    left, more = SHOWN_ROWS, False
    for table in tables:
        kept.append(table.slice(0, left))
        more = table.num_rows > left
        left -= kept[-1].num_rows
        if more:
            break
    _write_table(kept, schema, None)
    if more:
        print(f"the first {SHOWN_ROWS} rows; all of them come with --json, --format or -o FILE")


def for_programs(as_json: bool) -> bool:
    """Return True when JSON is wanted: with ``--json``, and where a program reads."""
    return as_json or not sys.stdout.isatty()


@dataclass(frozen=True)
class RowOutput:
    """Options of commands that print rows: in which format, and where."""

    row_format: Annotated[
        RowFormat | None,
        typer.Option("--format", help="default by the name of -o, else a table on a terminal, else jsonl"),
    ] = None
    output: OutputOption = None
    as_json: JsonOption = False

    @property
    def for_people(self) -> bool:
        """True when rows are printed to a terminal and no format is requested."""
        return self.row_format is None and self.output is None and not for_programs(self.as_json)

    def kind(self, usual: RowFormat = RowFormat.JSONL) -> RowFormat:
        """Return the requested format, or else the usual one; see `chosen_format`."""
        return chosen_format(self.row_format, self.output, RowFormat, usual, as_json=self.as_json)

    def print(self, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
        """Print rows; of those for people the first ones."""
        if self.for_people:
            print_first_rows(tables, schema)
        else:
            print_rows(tables, schema, self.kind(), self.output)
