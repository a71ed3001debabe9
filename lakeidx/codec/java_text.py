"""Numbers, dates and times as Java writes and reads them in text.

source   java.lang.Double/Float.toString; org.apache.paimon.utils.DateTimeUtils and BinaryStringUtils, release 1.4.2
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np

from lakeidx.types import DataType, Root

_MS_PER_DAY = 86_400_000
_NANOS_PER_MILLI = 1_000_000
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4,})-(\d{1,2})-(\d{1,2})(?:(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)"
    r"|(?:T(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?))?",
    re.ASCII,
)


def double_text(value: float) -> str:
    """Format as ``Double.toString``: shortest digits, but two at least; between 1e-3 and 1e7 plain, else with exponent
    (``1.0E10``).
    """
    two_digits = f"{value:.1e}"
    return _java_float(value, two_digits if float(two_digits) == value else repr(value))


def float_text(value: float) -> str:
    """Format as ``Float.toString`` a value that is a 32-bit float."""
    two_digits = f"{value:.1e}"
    with np.errstate(over="ignore"):
        exact = np.float32(two_digits) == np.float32(value)
    return _java_float(value, two_digits if exact else str(np.float32(value)))


def _java_float(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, digits, exponent = Decimal(shortest).normalize().as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    # The number is 0.text * 10**point.
    point = len(text) + exponent
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{text}"
        whole, fraction = text[:point].ljust(point, "0"), text[point:]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{text[0]}.{text[1:] or '0'}E{point - 1}"


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of an epoch day, for any year."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the epoch day of a date, for any year."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_text(days: int) -> str:
    """Format a date as ``yyyy-MM-dd``."""
    year, month, day = civil_from_days(days)
    # Paimon prints four digits with truncated remainders; outside years 0-9999 that is no date any more, but the same text.
    magnitude, sign = abs(year), 1 if year >= 0 else -1
    digits = "".join(chr(48 + sign * (magnitude // p % 10)) for p in (1000, 100, 10, 1))
    return f"{digits}-{month:02d}-{day:02d}"


def time_text(millis: int, precision: int) -> str:
    """Format a time as ``HH:mm:ss`` with at most `precision` fraction digits, trailing zeros left out after the first."""
    millis %= _MS_PER_DAY
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision <= 0:
        return text
    fraction = f"{rest:03d}"[: min(precision, 3)]
    return f"{text}.{fraction[0]}{fraction[1:].rstrip('0')}"


def timestamp_text(value: tuple[int, int], precision: int) -> str:
    """Format a timestamp as ``yyyy-MM-dd HH:mm:ss`` with at least `precision` fraction digits, more when they are not zero."""
    millis, nanos = value
    days, of_day = divmod(millis, _MS_PER_DAY)
    seconds, milli = divmod(of_day, 1000)
    fraction = f"{milli * _NANOS_PER_MILLI + nanos:09d}"
    fraction = fraction[:precision] + fraction[precision:].rstrip("0")
    text = f"{date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction}" if fraction else text


def parse_date(text: str) -> int:
    """Parse the epoch day of ``y-M-d``, ``y-M`` or ``y``, a time after a blank ignored; digits alone are an epoch day.

    errors   ValueError
    """
    if _DIGITS.fullmatch(text):
        return int(text)
    head = text.split(" ", 1)[0] if text.find(" ") > 0 else text
    parts = [p.strip() for p in head.split("-", 2)]
    if not all(_DIGITS.fullmatch(p) for p in parts):
        raise ValueError(f"{text!r} is not a DATE")
    year, month, day = (*map(int, parts), 1, 1)[:3]
    _check_date(year, month, day, text)
    return days_from_civil(year, month, day)


def _check_date(year: int, month: int, day: int, text: str) -> None:
    if not 1 <= month <= 12 or day < 1:
        raise ValueError(f"{text!r} is not a DATE")
    following = (year, month + 1) if month < 12 else (year + 1, 1)
    if day > days_from_civil(*following, 1) - days_from_civil(year, month, 1):
        raise ValueError(f"{text!r} is not a DATE")


def parse_time(text: str) -> int:
    """Parse the millisecond of the day of ``H:m:s.fraction`` or its beginnings; digits alone are milliseconds.

    errors   ValueError
    """
    if _DIGITS.fullmatch(text):
        return int(text)
    m = re.fullmatch(r"\s*(\d+)\s*(?::\s*(\d+)\s*(?::\s*(\d+)\s*(?:\.\s*(\d*)\s*)?)?)?", text, re.ASCII)
    if m is None:
        raise ValueError(f"{text!r} is not a TIME")
    hours, minutes, seconds = (int(g or 0) for g in m.groups()[:3])
    return hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + int((m[4] or "").ljust(3, "0")[:3])


def parse_timestamp(text: str, t: DataType) -> tuple[int, int]:
    """Parse the internal value of ``yyyy-M-d[ H:m:s[.fraction]]`` or with ``T``; digits alone count units of the precision.

    errors   ValueError
    """
    if t.root is Root.TIMESTAMP and _DIGITS.fullmatch(text):
        return _from_epoch(int(text), t.precision)
    m = _TIMESTAMP.fullmatch(text)
    if m is None:
        raise ValueError(f"{text!r} is not a TIMESTAMP")
    year, month, day = int(m[1]), int(m[2]), int(m[3])
    _check_date(year, month, day, text)
    hour, minute, second, fraction = m.groups()[3:7] if m[4] is not None else m.groups()[7:11]
    h, mi, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > 23 or mi > 59 or s > 59:
        raise ValueError(f"{text!r} is not a TIMESTAMP")
    nanos = int((fraction or "").ljust(9, "0"))
    nanos -= nanos % 10 ** (9 - t.precision)
    millis = days_from_civil(year, month, day) * _MS_PER_DAY + (h * 3600 + mi * 60 + s) * 1000
    return millis + nanos // _NANOS_PER_MILLI, nanos % _NANOS_PER_MILLI


def _from_epoch(epoch: int, precision: int) -> tuple[int, int]:
    scale = {0: 1, 3: 1000, 6: 1_000_000, 9: 1_000_000_000}.get(precision)
    if scale is None:
        raise ValueError(f"a number has no meaning for TIMESTAMP({precision})")
    nanos = epoch * (1_000_000_000 // scale)
    return nanos // _NANOS_PER_MILLI, nanos % _NANOS_PER_MILLI
