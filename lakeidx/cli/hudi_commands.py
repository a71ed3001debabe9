"""``lakeidx hudi``: looking at tables that Hudi wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.cli.context import report_errors, takes
from lakeidx.cli.inputs import key_file
from lakeidx.cli.output import RowFormat, RowOutput, print_json, print_rows
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.landing.read import ENDINGS
from lakeidx.plugins import TOOLS, load_plugin


@report_errors
@takes(RowOutput)
def tag(
    out: RowOutput,
    path: Annotated[str, typer.Argument(metavar="PATH", help="the Hudi table's directory (it contains .hoodie)")],
    keys: Annotated[str, typer.Option("--keys", help=f"keys to look for: {ENDINGS}; - for JSON lines on stdin")],
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
    metrics: Annotated[bool, typer.Option("--metrics", help="print the counters only, as JSON")] = False,
) -> None:
    """Print the file that holds each key (partition, file id, file name, instant), or that there is none.

    Files are chosen by the key ranges and bloom filters in their footers, and the keys of chosen files are read, so the
    answer is exact. What was opened and how often filters were wrong goes to stderr.

    Examples:
        lakeidx hudi tag lake/hudi/trips --keys keys.csv

    """
    with key_file(keys) as file:
        tool = load_plugin(TOOLS, "hudi")
        found = tool.tag_hudi_table(path, file, column=column, partitions=partition or None, bad_filter=bad_filter)
    if metrics:
        print_json(found.as_dict())
        return
    rows = found.to_table()
    kind = out.kind(RowFormat.TABLE if out.for_people else RowFormat.JSONL)
    print_rows([rows], rows.schema, kind, out.output)
    typer.echo(summary(found.metrics), err=True)


def summary(f: IndexMetrics) -> str:
    """Format the outcome of tagging as one line."""
    extra = ""
    if f.files_without_filter or f.bad_filters:
        extra = f", {f.files_without_filter} files without a filter, {f.bad_filters} filters that cannot be read"
    return (
        f"{f.found} of {f.keys} keys found; of {f.files} base files {f.files_pruned} ruled out by range,"
        f" {f.files_probed} blooms read, {f.files_read} files opened for their keys;"
        f" {f.false_positives} false positives of {f.filter_hits} filter hits{extra}"
    )
