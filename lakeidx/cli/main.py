"""The command line's entry point: puts the commands together."""

from __future__ import annotations

import typer

from lakeidx import __version__
from lakeidx.cli import (
    advise_command,
    hudi_commands,
    index_commands,
    lookup_command,
    maintain_commands,
    read_commands,
    table_commands,
    warm_up_command,
    write_commands,
)

app = typer.Typer(
    help="Primary-key tables on an object store in the Apache Paimon format.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(table_commands.app, name="table")
app.add_typer(maintain_commands.tag_app, name="tag")
app.add_typer(index_commands.app, name="index")
app.add_typer(hudi_commands.app, name="hudi")
app.command("warm-up")(warm_up_command.warm_up)
app.command("upsert")(write_commands.command)
for _command in (
    read_commands.scan,
    read_commands.keys,
    read_commands.snapshots,
    read_commands.files,
    read_commands.buckets,
    read_commands.inspect,
    lookup_command.lookup,
    advise_command.advise,
    maintain_commands.compact,
    maintain_commands.expire,
    maintain_commands.orphans,
    maintain_commands.rollback,
):
    app.command()(_command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"lakeidx {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="print the version"),
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
