"""Errors that the vectorised engines and their plain twins share."""

from __future__ import annotations

from lakeidx.errors import InvalidInputError


def first_row_retract() -> InvalidInputError:
    """Explain a -U or -D row in a first-row table."""
    return InvalidInputError(
        "merge engine first-row does not accept rows of kind -U or -D; set option 'ignore-delete' = true to drop them"
    )


def partial_update_retract() -> InvalidInputError:
    """Explain a -U or -D row in a partial-update table that has no rule for it."""
    return InvalidInputError(
        "merge engine partial-update does not accept rows of kind -U or -D unless one of these is set: 'ignore-delete' "
        "(drops them), 'partial-update.remove-record-on-delete' (a -D removes the row), or sequence groups "
        "('fields.<column>.sequence-group'; with 'partial-update.remove-record-on-sequence-group' a -D removes the row)"
    )


def null_in_not_null(column: str) -> InvalidInputError:
    """Explain a null in a NOT NULL column of a row that is merged."""
    return InvalidInputError(f"column {column!r} is NOT NULL, but a row to be merged has no value for it")
