"""The reference page of errors: every kind, what it means, and what a caller, Dagster and a person do about it."""

from __future__ import annotations

from collections.abc import Iterator

import lakeidx.errors
from lakeidx.dagster.failures import REACTIONS
from lakeidx.errors import LakeIdxError
from tools.docs.docstrings import cell, first_line, table


def errors_page() -> str:
    """Return the page as Markdown."""
    parts = [
        "# Errors",
        "Everything lakeidx raises is a `LakeIdxError`. A kind exists because a caller would act differently on it; the message "
        "says what is wrong, where, and what to do. `error.path`, `error.offset` and `error.snapshot_id` name the place when "
        "there is one. The command line prints `error: <message>` on stderr and exits with 2.",
        table(
            ("class", "kind", "may pass", "meaning"),
            (
                (f"`{c.__name__}`", f"`{c.kind}`", "yes" if c.retryable else "no", first_line(c.__doc__))
                for c in classes(LakeIdxError)
            ),
        ),
        "## In Dagster",
        "A step that fails is tagged with the kind (`lakeidx/error_kind`) and with what to do. *Retried*: the step runs again, "
        "with growing pauses. *Alert*: the failed-run sensor sets `lakeidx/alert`.",
        table(
            ("kind", "retried", "alert", "what to do"),
            (
                (f"`{kind}`", "yes" if r.retry else "no", "yes" if r.alert else "no", cell(r.advice))
                for kind, r in REACTIONS.items()
            ),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def classes(root: type[LakeIdxError]) -> Iterator[type[LakeIdxError]]:
    """List the subclasses that `lakeidx.errors` declares, each before its own subclasses."""
    for found in root.__subclasses__():
        if found.__module__ == lakeidx.errors.__name__:
            yield found
            yield from classes(found)
