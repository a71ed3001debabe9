"""``lakeidx hudi``: looking at tables that Hudi wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeidx.cli.context import one_clear_line
from lakeidx.cli.key_input import read_record_keys
from lakeidx.cli.output import RowFormat, print_json, write_rows
from lakeidx.storage import open_store
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.hudi_table import tag_hudi_table
from lakeidx.tagging.hudi_timeline import open_hudi_table
from lakeidx.tagging.options import IndexOptions

app = typer.Typer(
    help="Look at copy-on-write tables that Hudi wrote; nothing in them is changed.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    pass


@app.command()
@one_clear_line
def tag(
    path: Annotated[str, typer.Argument(metavar="PATH", help="the Hudi table's directory (it holds .hoodie)")],
    keys: Annotated[str, typer.Option("--keys", help="keys to look for: .parquet .csv .jsonl")],
    column: Annotated[
        str | None,
        typer.Option("--column", help="column with whole record keys; default key, or the table's record key fields"),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", help="look in this partition path only; may be repeated")
    ] = None,
    bad_filter: Annotated[
        str, typer.Option("--bad-filter", help="a filter that cannot be read: read-keys of that file, or fail")
    ] = "read-keys",
    row_format: Annotated[RowFormat, typer.Option("--format", help="how to print")] = RowFormat.JSONL,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write to a file instead of stdout")] = None,
    figures: Annotated[bool, typer.Option("--figures", help="print only what was done, as JSON")] = False,
) -> None:
    """Say for every key in which file of the table it lives: partition, file id, file name, instant; or that it does not.

    Files are chosen by the key ranges and bloom filters in their footers, and the keys of chosen files are read, so the
    answer is exact. What was opened and how often filters were wrong goes to stderr.
    """
    store = open_store(path)
    options = IndexOptions({"index.bad-filter": bad_filter})
    wanted = read_record_keys(keys, open_hudi_table(store, path).record_key_fields, column)
    found = tag_hudi_table(store, path, wanted, partitions=partition or None, options=options)
    if figures:
        print_json({**found.figures.as_dict(), "repeated": found.repeated})
        return
    rows = found.to_table(wanted)
    write_rows([rows], rows.schema, row_format, output)
    typer.echo(summary(found.figures), err=True)


def summary(f: TagFigures) -> str:
    """What tagging did, in one line."""
    extra = ""
    if f.files_without_filter or f.bad_filters:
        extra = f", {f.files_without_filter} files without a filter, {f.bad_filters} filters that cannot be read"
    return (
        f"{f.found} of {f.keys} keys found; of {f.files} base files {f.files_pruned} ruled out by range,"
        f" {f.files_probed} blooms read, {f.files_read} files opened for their keys;"
        f" {f.false_positives} false positives of {f.filter_hits} filter hits{extra}"
    )
