"""Options of limits, which the commands that write rows share, and the question that a verb asks beyond one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from lakeidx.batch.held.hold import discard_batch
from lakeidx.errors import BatchHeldError, InvalidInputError
from lakeidx.options.limits import GivenLimits
from lakeidx.table.handle import TableHandle

LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        help="hold the batch before its commit beyond it: deletes=5%, updates=50%, inserts=2x (of recent batches), rejected=1%, "
        "new_partitions=3; may be repeated; default: the table's option lakeidx.limits",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="do it, whatever limits say")]


def given_limits(limit: Sequence[str] | None, *, yes: bool = False) -> GivenLimits | None:
    """Return the limits of a command; None: the table's own; none with --yes."""
    return {} if yes else None if limit is None else ",".join(limit)


@contextmanager
def asking_for_yes(table: TableHandle) -> Iterator[None]:
    """Take a batch back that is beyond a limit: who is at the keyboard is asked for --yes in the place of a release.

    errors   InvalidInputError
    """
    try:
        yield
    except BatchHeldError as error:
        discard_batch(table.metadata, error.batch_id, for_good=False)
        text = f"nothing was written: {'; '.join(error.reasons)}. Give --yes to do it all the same"
        raise InvalidInputError(text, path=table.uri) from None
