"""Moments as callers write them: ISO text, epoch milliseconds, or a datetime."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from lakeidx.errors import InvalidInputError

Moment = str | int | datetime


def epoch_ms(moment: Moment) -> int:
    """Return the milliseconds since 1970 UTC; a time without zone is UTC, as all times lakeidx prints.

    errors   InvalidInputError naming the accepted forms
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        if moment.strip().lstrip("-").isdigit():
            return int(moment)
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise InvalidInputError(
                f"{moment!r} is not a time; write 2026-11-22, 2026-11-22T10:30:00Z, or epoch milliseconds"
            ) from None
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"expected a time as text, datetime or epoch milliseconds, not {moment!r}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def iso_utc(millis: int) -> str:
    """Format epoch milliseconds as ISO text, UTC."""
    return str(np.datetime64(millis, "ms")) + "Z"
