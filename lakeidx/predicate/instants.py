"""Literals of columns of dates, times and timestamps: Python, NumPy and text as SQL writes them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np

from lakeidx.predicate.literals import Literal, no_literal_of
from lakeidx.types import DataType, Root

_EPOCH = dt.date(1970, 1, 1)
_DAY_NS = 86_400_000_000_000
_DATE = r"(?P<y>\d{4})-(?P<mo>\d{1,2})-(?P<d>\d{1,2})"
_TIME = r"(?P<h>\d{1,2}):(?P<mi>\d{2})(?::(?P<s>\d{2})(?:\.(?P<f>\d{1,9}))?)?"
_ZONE = r"(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})"
_TIMESTAMP_PATTERN = re.compile(rf"^{_DATE}(?:[T ]\s*{_TIME}\s*{_ZONE}?)?$", re.IGNORECASE | re.ASCII)
_TIME_PATTERN = re.compile(rf"^{_TIME}$", re.ASCII)


def cast_instant(value: Any, t: DataType, where: str) -> Literal:
    """Convert a literal to a column's type as `lakeidx.predicate.literals.cast_literal` does."""
    cast = {Root.DATE: _to_date, Root.TIME: _to_time}.get(t.root, _to_timestamp)
    return cast(value, t, where)


def _to_date(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Literal(value)  # epoch days, the internal value
    nanos, _ = _instant(value, t, where)
    days = nanos // _DAY_NS
    return Literal(days, days * _DAY_NS == nanos)


def _to_time(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Literal(value)  # ms of day, the internal value
    if isinstance(value, str):
        match = _TIME_PATTERN.match(value.strip())
        if match is None:
            raise no_literal_of(value, t, where, "write it as 'HH:MM:SS'")
        nanos = _nanos_of_day(match, value, t, where)
    elif isinstance(value, dt.time) and value.tzinfo is None:
        nanos = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000_000 + value.microsecond * 1000
    else:
        raise no_literal_of(value, t, where)
    return Literal(nanos // 1_000_000, nanos % 1_000_000 == 0)


def _to_timestamp(value: Any, t: DataType, where: str) -> Literal:
    if isinstance(value, tuple) and len(value) == 2 and all(type(v) is int for v in value):
        nanos, zoned = value[0] * 1_000_000 + value[1], None
    else:
        nanos, zoned = _instant(value, t, where)
    if zoned and t.root is Root.TIMESTAMP:
        raise no_literal_of(value, t, where, "the column has no time zone: leave the zone out")
    unit = 10 ** (9 - t.precision)
    arrow_unit = 1_000_000 if t.precision <= 3 else 1000 if t.precision <= 6 else 1
    floor = nanos // unit * unit
    if not -(1 << 63) <= floor // arrow_unit < 1 << 63:
        return Literal(None, False, 1 if floor > 0 else -1)
    return Literal((floor // 1_000_000, floor % 1_000_000), floor == nanos)


def _instant(value: Any, t: DataType, where: str) -> tuple[int, bool]:
    """Return the nanoseconds since 1970-01-01 00:00 (of UTC when a zone is given), and whether one was."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise no_literal_of(value, t, where)
        unit, step = np.datetime_data(value.dtype)
        scale = {"D": _DAY_NS, "h": _DAY_NS // 24, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}.get(
            unit
        )
        if scale is None:
            raise no_literal_of(value, t, where)
        return int(value.astype("int64")) * scale * step, False
    if isinstance(value, dt.datetime):
        zoned = value.tzinfo is not None
        offset = value.utcoffset() or dt.timedelta(0)
        since = value.replace(tzinfo=None) - offset - dt.datetime(1970, 1, 1)
        micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
        return micros * 1000 + int(getattr(value, "nanosecond", 0)), zoned
    if isinstance(value, dt.date):
        return (value - _EPOCH).days * _DAY_NS, False
    match = _TIMESTAMP_PATTERN.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise no_literal_of(
            value,
            t,
            where,
            "write it as 'YYYY-MM-DD'" + ("" if t.root is Root.DATE else " or 'YYYY-MM-DD HH:MM:SS.ffffff'"),
        )
    try:
        days = (dt.date(int(match["y"]), int(match["mo"]), int(match["d"])) - _EPOCH).days
    except ValueError as error:
        raise no_literal_of(value, t, where, str(error)) from None
    nanos = days * _DAY_NS + (_nanos_of_day(match, value, t, where) if match["h"] else 0)
    zone = match["zone"]
    if zone is not None and zone.upper() not in ("Z", "UTC"):
        digits = zone[1:].replace(":", "")
        seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        nanos -= (seconds if zone[0] == "+" else -seconds) * 1_000_000_000
    return nanos, zone is not None


def _nanos_of_day(match: re.Match[str], value: Any, t: DataType, where: str) -> int:
    hour, minute, second = int(match["h"]), int(match["mi"]), int(match["s"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise no_literal_of(value, t, where, "no such time of day")
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int((match["f"] or "").ljust(9, "0"))
