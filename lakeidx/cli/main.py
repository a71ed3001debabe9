"""The command line's entry point: names every command and where it is."""

from __future__ import annotations

from typing import Any

import typer

from lakeidx import __version__
from lakeidx.cli.lazy import Command, Group, LazyGroup

_HELP = "Primary-key tables on a disk or an S3 store, in the Apache Paimon format."

#: Every command, in the order of the help. Its help is the first paragraph of its function's docstring, which a test compares.
COMMANDS: dict[str, Command | Group] = {
    "init": Command(
        "table_commands",
        "init",
        "Look at files, propose a table, and make it: a pipeline file with comments, the table, its first batch.",
    ),
    "table": Group(
        "Create, show, alter, list, rename or drop tables.",
        {
            "create": Command(
                "table_commands",
                "create",
                "Create a table from a schema file, or from files, and load these.",
            ),
            "show": Command(
                "table_commands",
                "show",
                "Show schema, options and newest snapshot, and the options that lakeidx does not act on.",
            ),
            "alter": Command(
                "table_commands",
                "alter",
                "Change columns and options in one new schema, or not at all. Data files are not rewritten.",
            ),
            "list": Command("table_commands", "list_tables", "List the tables of a warehouse."),
            "drop": Command(
                "table_commands",
                "drop",
                "Delete a table with all its files and the staging of its batches; stop all writers first.",
            ),
            "rename": Command(
                "table_commands",
                "rename",
                "Give a table another name: its files are copied, then deleted under the old one; stop all writers first.",
            ),
        },
    ),
    "upsert": Command(
        "write_commands",
        "upsert",
        "Upsert landing files as one batch; row kinds (+I -U +U -D) in column _kind when present.",
    ),
    "load": Command(
        "write_commands",
        "load",
        "Load the files of a folder that the table does not have yet, each as one batch; safe beside itself, as from cron.",
    ),
    "sync-database": Command(
        "write_commands",
        "sync_database",
        "Bring feed files, each with messages of many tables, into the tables of a database; missing tables are made.",
    ),
    "delete": Command("write_commands", "delete", "Delete rows by condition or by key, as one batch."),
    "update": Command("verb_commands", "update", "Change columns of rows by condition or by key, as one batch."),
    "merge": Command(
        "verb_commands",
        "merge",
        "Merge a file into a table: change or delete the rows that match, insert the others.",
    ),
    "batch": Group(
        "List, show, release or discard the batches that stopped before their commit: beyond a limit, or with a failed check.",
        {
            "list": Command(
                "batch.commands", "list_batches", "List the batches that are held: why, and what they would do."
            ),
            "show": Command(
                "batch.commands",
                "show",
                "Show why a batch is held, its rows, and where they came from; of a finished batch, what it did.",
            ),
            "release": Command("batch.commands", "release", "Commit a held batch: its rows come into the table now."),
            "discard": Command(
                "batch.commands", "discard", "Delete the files of a held batch: its rows do not come into the table."
            ),
        },
    ),
    "sql": Command(
        "sql.command",
        "sql",
        "Run SQL over the tables of a warehouse, named database.table; without a statement a prompt begins.",
    ),
    "scan": Command("read_commands", "scan", "Read rows: merged, deletes applied, at any state of the table."),
    "lookup": Command("lookup_command", "lookup", "Print one line per key, in their order: its row as JSON, or null."),
    "changes": Command(
        "change_commands",
        "changes",
        "Print the changes of a range of snapshots, each row with its kind in _rowkind: +I -U +U -D.",
    ),
    "diff": Command(
        "change_commands",
        "diff",
        "Compare two states by key: every row that is new, changed (before and after) or deleted, once.",
    ),
    "tail": Command(
        "change_commands",
        "tail",
        "Print the changes of each snapshot, oldest first, each row with its kind in _rowkind: +I -U +U -D.",
    ),
    "snapshots": Command("read_commands", "snapshots", "List the snapshots; rows counts stored versions, not keys."),
    "files": Command("read_commands", "files", "List the live data files of the newest snapshot."),
    "buckets": Command(
        "read_commands", "buckets", "List the buckets: rows, bytes, files, sorted runs, hashes in the index."
    ),
    "keys": Command(
        "lookup_command",
        "keys",
        "Print partitionHash, keyHash, keyBytes (hex) and the bucket of each row's key (null: not in the table).",
    ),
    "inspect": Command("read_commands", "inspect", "Decode any file of the format to JSON."),
    "advise": Command(
        "advise_command",
        "advise",
        "Recommend an index type and its sizes; predict files touched, bytes, memory and seconds per batch for every type.",
    ),
    "compact": Command("maintain_commands", "compact", "Compact the buckets that need it, or all of them."),
    "expire": Command(
        "maintain_commands",
        "expire",
        "Expire snapshots, tags and consumers by the table's options or the flags given, and clean staging.",
    ),
    "orphans": Command("maintain_commands", "orphans", "List files that nothing refers to; with --yes delete them."),
    "verify": Command(
        "maintain_commands",
        "verify",
        "Run every check over the whole table, reading every page of every file; exit 1 when one finds an error.",
    ),
    "rollback": Command(
        "maintain_commands", "rollback", "Roll the table back to an older snapshot or tag; stop all writers first."
    ),
    "partition": Group(
        "List, drop and expire partitions, or mark them done.",
        {
            "list": Command(
                "maintain_commands",
                "partition_list",
                "List the partitions: rows, bytes, files, buckets, when last written.",
            ),
            "drop": Command(
                "maintain_commands",
                "partition_drop",
                "Drop partitions, in one commit; older snapshots and tags keep their rows.",
            ),
            "expire": Command(
                "maintain_commands",
                "partition_expire",
                "Drop partitions by their age: the time in their values, or of their last write (partition.expiration-strategy).",
            ),
            "mark-done": Command(
                "maintain_commands",
                "partition_mark_done",
                "Mark partitions done by option partition.mark-done-action: those named, or those that are idle.",
            ),
        },
        default="list",
    ),
    "tag": Group(
        "Create, list, rename and delete tags (named snapshots that expiry keeps).",
        {
            "create": Command("maintain_commands", "tag_create", "Create a tag for a snapshot."),
            "rename": Command("maintain_commands", "tag_rename", "Give a tag another name."),
            "delete": Command("maintain_commands", "tag_delete", "Delete a tag, and the files that only it needs."),
            "list": Command("maintain_commands", "tag_list", "List the tags."),
        },
    ),
    "branch": Group(
        "Create, list and delete branches, or bring one into the table.",
        {
            "create": Command(
                "maintain_commands",
                "branch_create",
                "Create a branch at a tag or a snapshot; without either an empty one.",
            ),
            "list": Command("maintain_commands", "branch_list", "List the branches with their newest snapshot."),
            "delete": Command(
                "maintain_commands",
                "branch_delete",
                "Delete a branch: its snapshots, tags, consumers and staged batches.",
            ),
            "fast-forward": Command(
                "maintain_commands",
                "branch_fast_forward",
                "Bring what was committed to a branch into the table; stop the table's writers first.",
            ),
        },
        default="list",
    ),
    "consumer": Group(
        "List and delete consumers (how far each stream has read; expiry keeps what it has not).",
        {
            "list": Command(
                "maintain_commands",
                "consumer_list",
                "List the consumers with the oldest snapshot that expiry keeps for each, and the leases of running streams.",
            ),
            "delete": Command(
                "maintain_commands",
                "consumer_delete",
                "Delete a consumer: expiry no longer waits for it, and a stream with its id starts without a position.",
            ),
        },
    ),
    "index": Group(
        "List the index files of a table, rebuild the file indexes of its data files, or resize its rings of buckets.",
        {
            "list": Command("read_commands", "list_index", "List the index files of the newest snapshot."),
            "rebuild": Command(
                "index_commands",
                "rebuild",
                "Add, replace or drop file indexes of existing data files, which are not rewritten.",
            ),
            "resize": Command(
                "index_commands",
                "resize",
                "Split buckets that have grown and merge small ones (index.type = bucket with engine CONSISTENT_HASHING).",
            ),
        },
        default="list",
    ),
    "lookup-store": Command("maintain_commands", "lookup_store", "Build missing lookup files for the newest snapshot."),
    "hudi": Group(
        "Read copy-on-write tables that Hudi wrote; they are never changed.",
        {
            "tag": Command(
                "hudi_commands",
                "tag",
                "Print the file that holds each key (partition, file id, file name, instant), or that there is none.",
            ),
        },
    ),
    "metrics": Command(
        "metrics.command",
        "metrics",
        "Print figures of tables, their newest batches and their upkeep as OpenMetrics, or serve them on this machine.",
    ),
    "warm-up": Command("maintain_commands", "warm_up", "Compile all kernels now; later runs load them from disk."),
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
