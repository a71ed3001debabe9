"""Times of partitions, read from their values as options ``partition.timestamp-pattern`` and ``-formatter`` say.

Values are the texts of legacy names of directories: a DATE is its day number, which is no time to Paimon.

source   org.apache.paimon.partition.PartitionTimeExtractor, release 1.4.2
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from lakeidx.errors import InvalidInputError

#: Java's default form; its parser is lenient: month 13 is the January after.
_USUAL = re.compile(
    r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})( (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?P<S>\.\d{1,9})?)?",
    re.ASCII,
)
_LETTERS = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)


class TimeReader:
    """Reads the time of a partition.

    pattern     text with ``$column`` in the places of values; None = the value of the first partition column
    formatter   a pattern of Java's DateTimeFormatter, of the letters y u M d H m s S; None = ``2026-11-28`` or
                ``2026-11-28 20:15:00``
    errors      InvalidInputError for a formatter that cannot be used
    """

    def __init__(self, pattern: str | None, formatter: str | None) -> None:
        self._pattern = pattern
        self._form = None if formatter is None else re.compile(_expression(formatter), re.ASCII)

    def read(self, values: Mapping[str, str]) -> datetime | None:
        """Return the time that the texts of a partition's columns say, without a zone; None when they say none.

        Times outside of the years 1 to 9999 are the nearest one inside.
        """
        text = next(iter(values.values()))
        if self._pattern is not None:
            text = self._pattern
            for name, value in values.items():
                text = text.replace(f"${name}", value)
        found = (self._form or _USUAL).fullmatch(text)
        return None if found is None else _time(found.groupdict(), lenient=self._form is None)


def _expression(formatter: str) -> str:
    """Translate a pattern of Java's DateTimeFormatter to a regular expression with a group per field."""
    parts, seen = [], set()
    for found in _LETTERS.finditer(formatter):
        text, letter = found[0], found[1]
        if letter is None:
            plain = text[1:-1].replace("''", "'") or "'" if text.startswith("'") else text
            parts.append({"[": "(?:", "]": ")?"}.get(text, re.escape(plain)))
            continue
        field = "y" if letter == "u" else letter
        if field not in "yMdHmsS" or field in seen or (len(text) > 2 and field in "MdHms"):
            raise InvalidInputError(
                f"option 'partition.timestamp-formatter': {text!r} in {formatter!r} is not understood; take yyyy, MM, dd, HH, mm, "
                "ss and SSS, each once"
            )
        seen.add(field)
        width = {1: r"\d+"}.get(len(text), rf"\d{{{len(text)}}}")
        parts.append(f"(?P<{field}>{width})")
    if not {"y", "M", "d"} <= seen:
        raise InvalidInputError(
            f"option 'partition.timestamp-formatter': {formatter!r} has no day: it needs yyyy, MM and dd"
        )
    return "".join(parts)


def _time(fields: Mapping[str, str | None], *, lenient: bool) -> datetime | None:
    numbers = {k: int(v) for k, v in fields.items() if v is not None and k != "S"}
    year, month, day = numbers["y"], numbers["M"], numbers["d"]
    if len(fields["y"] or "") == 2 and not lenient:
        year += 2000
    hour, minute, second = (numbers.get(k, 0) for k in "Hms")
    if not lenient:
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
            return None
        # Java's parser takes the last day of a month for one that it does not have.
        while day > 28 and (datetime(2000 if year % 4 == 0 else 2001, month, 1) + timedelta(day - 1)).month != month:
            day -= 1
    months = 12 * year + month - 1
    if not 12 <= months < 12 * 10_000:
        return datetime.min if months < 12 else datetime.max
    fraction = (fields.get("S") or "").removeprefix(".")
    micros = int(fraction.ljust(6, "0")[:6] or 0)
    try:
        return datetime(months // 12, months % 12 + 1, 1) + timedelta(day - 1, second, micros, 0, minute, hour)
    except OverflowError:
        return datetime.max
