"""The command line's entry point: names every command and where it is."""

from __future__ import annotations

from typing import Any

import typer

from lakeidx import __version__
from lakeidx.cli.lazy import Command, Group, LazyGroup

_HELP = "Primary-key tables on a disk or an S3 store, in the Apache Paimon format."

#: Every command, in the order of the help.
COMMANDS: dict[str, Command | Group] = {
    "init": Command("table_commands", "init"),
    "table": Group(
        "Create, show, alter, list, rename or drop tables.",
        {
            "create": Command("table_commands", "create"),
            "show": Command("table_commands", "show"),
            "alter": Command("table_commands", "alter"),
            "list": Command("table_commands", "list_tables"),
            "drop": Command("table_commands", "drop"),
            "rename": Command("table_commands", "rename"),
        },
    ),
    "upsert": Command("write_commands", "upsert"),
    "load": Command("write_commands", "load"),
    "sync-database": Command("write_commands", "sync_database"),
    "delete": Command("write_commands", "delete"),
    "update": Command("verb_commands", "update"),
    "merge": Command("verb_commands", "merge"),
    "batch": Group(
        "List, show, release or discard the batches that stopped before their commit: beyond a limit, or with a failed check.",
        {
            "list": Command("batch.commands", "list_batches"),
            "show": Command("batch.commands", "show"),
            "release": Command("batch.commands", "release"),
            "discard": Command("batch.commands", "discard"),
        },
    ),
    "sql": Command("sql.command", "sql"),
    "scan": Command("read_commands", "scan"),
    "lookup": Command("lookup_command", "lookup"),
    "changes": Command("change_commands", "changes"),
    "diff": Command("change_commands", "diff"),
    "tail": Command("change_commands", "tail"),
    "snapshots": Command("read_commands", "snapshots"),
    "files": Command("read_commands", "files"),
    "buckets": Command("read_commands", "buckets"),
    "keys": Command("lookup_command", "keys"),
    "inspect": Command("read_commands", "inspect"),
    "advise": Command("advise_command", "advise"),
    "compact": Command("maintain_commands", "compact"),
    "expire": Command("maintain_commands", "expire"),
    "orphans": Command("maintain_commands", "orphans"),
    "verify": Command("maintain_commands", "verify"),
    "rollback": Command("maintain_commands", "rollback"),
    "partition": Group(
        "List, drop and expire partitions, or mark them done.",
        {
            "list": Command("maintain_commands", "partition_list"),
            "drop": Command("maintain_commands", "partition_drop"),
            "expire": Command("maintain_commands", "partition_expire"),
            "mark-done": Command("maintain_commands", "partition_mark_done"),
        },
        default="list",
    ),
    "tag": Group(
        "Create, list, rename and delete tags (named snapshots that expiry keeps).",
        {
            "create": Command("maintain_commands", "tag_create"),
            "rename": Command("maintain_commands", "tag_rename"),
            "delete": Command("maintain_commands", "tag_delete"),
            "list": Command("maintain_commands", "tag_list"),
        },
    ),
    "branch": Group(
        "Create, list and delete branches, or bring one into the table.",
        {
            "create": Command("maintain_commands", "branch_create"),
            "list": Command("maintain_commands", "branch_list"),
            "delete": Command("maintain_commands", "branch_delete"),
            "fast-forward": Command("maintain_commands", "branch_fast_forward"),
        },
        default="list",
    ),
    "consumer": Group(
        "List and delete consumers (how far each stream has read; expiry keeps what it has not).",
        {
            "list": Command("maintain_commands", "consumer_list"),
            "delete": Command("maintain_commands", "consumer_delete"),
        },
    ),
    "index": Group(
        "List the index files of a table, rebuild the file indexes of its data files, or resize its rings of buckets.",
        {
            "list": Command("read_commands", "list_index"),
            "rebuild": Command("index_commands", "rebuild"),
            "resize": Command("index_commands", "resize"),
        },
        default="list",
    ),
    "lookup-store": Command("maintain_commands", "lookup_store"),
    "hudi": Group(
        "Read copy-on-write tables that Hudi wrote; they are never changed.",
        {
            "tag": Command("hudi_commands", "tag"),
        },
    ),
    "metrics": Command("metrics.command", "metrics"),
    "warm-up": Command("maintain_commands", "warm_up"),
}


#: Commands by what they are for.
SECTIONS = {
    "Make and change tables": ("init", "table"),
    "Write rows": ("upsert", "load", "sync-database", "update", "merge", "delete", "batch"),
    "Read rows": ("sql", "scan", "lookup", "changes", "diff", "tail"),
    "Go back": ("tag", "branch", "rollback", "consumer"),
    "Upkeep": ("compact", "expire", "partition", "orphans", "verify", "index", "lookup-store"),
    "Look inside": ("snapshots", "files", "buckets", "keys", "inspect", "metrics"),
    "Choose, set up": ("advise", "hudi", "warm-up"),
}


class Program(LazyGroup):
    """All commands."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(Group(_HELP, COMMANDS, sections=SECTIONS), **attrs)


# Plain help: importing rich costs as much as all the rest of ``lakeidx --help``.
app = typer.Typer(
    cls=Program,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="lakeidx COMMAND --help shows what a command takes, with examples.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"lakeidx {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="print the version"),
    log_format: str = typer.Option(
        None,
        "--log-format",
        metavar="text|json",
        envvar="LAKEIDX_LOG_FORMAT",
        help="json: what is logged, a line each, on stderr",
    ),
) -> None:
    if log_format is not None:
        from lakeidx.tasks.logs import FORMATS, print_logs

        if log_format not in FORMATS:
            raise typer.BadParameter(f"{log_format!r} is neither text nor json")
        print_logs(log_format)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
