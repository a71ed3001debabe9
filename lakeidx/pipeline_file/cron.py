"""Checks cron lines at load, so that a bad one is named with its file and line instead of when its time should come."""

from __future__ import annotations

import re

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_NAMED = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_PART = re.compile(r"^(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?$")


def check_cron(text: str) -> None:
    """Raise ValueError saying which field of a cron line is wrong: five fields, or one of ``@hourly`` .. ``@yearly``."""
    if text in _NAMED:
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"cron {text!r} has {len(fields)} fields; write minute, hour, day of month, month, day of week"
        )
    for value, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in value.split(","):
            match = _PART.match(part)
            if match is None:
                raise ValueError(f"cron {text!r}: {part!r} is no {name}")
            star, first, last, step = match.groups()
            numbers = [] if star else [_number(t, names, low) for t in (first, last) if t is not None]
            if any(n is None or not low <= n <= high for n in numbers) or (step is not None and int(step) < 1):
                raise ValueError(f"cron {text!r}: {part!r} is no {name} ({low} to {high})")
            if len(numbers) == 2 and (numbers[0] or 0) > (numbers[1] or 0):
                raise ValueError(f"cron {text!r}: the range {part!r} runs backwards")


def _number(text: str, names: tuple[str, ...], low: int) -> int | None:
    if text.isdigit():
        return int(text)
    return names.index(text.lower()) + low if text.lower() in names else None
