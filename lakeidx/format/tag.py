"""Tag files ``tag/tag-<name>``: a snapshot's JSON, and when a retention was given two more keys at its end.

===============  ==============================================================================================
key              value
===============  ==============================================================================================
tagCreateTime    ``[year, month, day, hour, minute, second, nanos]``, local wall clock; zeros at the end may be
                 missing; an ISO text is read, too
tagTimeRetained  seconds with nine digits of fraction, ``129600.000000000``
===============  ==============================================================================================

source   org.apache.paimon.tag.Tag, release 1.4.2
"""

from __future__ import annotations

import time
from calendar import timegm
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from lakeidx.format.data_file import local_ms_of_epoch
from lakeidx.format.json_text import JsonObject
from lakeidx.format.json_write import format_json
from lakeidx.format.snapshot import Snapshot, snapshot_from_json, snapshot_to_json

_NANOS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A named snapshot.

    create_time_ns     local wall clock when it was made, as nanoseconds since 1970 as if it were UTC; None: not kept
    time_retained_ns   how long to keep it, nanoseconds; None: for ever
    """

    snapshot: Snapshot
    create_time_ns: int | None = None
    time_retained_ns: int | None = None

    def is_expired(self, now_local_ns: int) -> bool:
        """Return True once `create_time + time_retained` is in the past (local wall clock as nanoseconds, see `now_local_ns`)."""
        if self.create_time_ns is None or self.time_retained_ns is None:
            return False
        return self.create_time_ns + self.time_retained_ns < now_local_ns


def now_local_ns() -> int:
    """Return the wall clock now, as nanoseconds since 1970 as if it were UTC."""
    now = time.time_ns()
    return local_ms_of_epoch(now // 1_000_000) * 1_000_000 + now % 1_000_000


def tag_to_json(tag: Tag) -> dict[str, Any]:
    """Return the tag's keys and values in written order."""
    out = snapshot_to_json(tag.snapshot)
    if tag.create_time_ns is not None:
        out["tagCreateTime"] = _time_parts(tag.create_time_ns)
    if tag.time_retained_ns is not None:
        seconds = Decimal(tag.time_retained_ns) / _NANOS
        # Jackson spells zero with one digit.
        out["tagTimeRetained"] = seconds.quantize(Decimal("1.000000000")) if seconds else Decimal("0.0")
    return out


def encode_tag(tag: Tag) -> bytes:
    """Encode the tag file."""
    return format_json(tag_to_json(tag))


def decode_tag(data: bytes, path: str | None = None) -> Tag:
    """Read a tag.

    errors   CorruptFileError; UnsupportedError for a snapshot version after 3
    """
    o = JsonObject.parse(data, path)
    snapshot = snapshot_from_json(o)
    return Tag(snapshot=snapshot, create_time_ns=_read_time(o), time_retained_ns=_read_retained(o))


def _time_parts(ns: int) -> list[int]:
    at = datetime.fromtimestamp(ns // _NANOS, UTC)
    parts = [at.year, at.month, at.day, at.hour, at.minute, at.second, ns % _NANOS]
    # Jackson leaves out the nanos, then the seconds, when they are zero.
    while len(parts) > 5 and parts[-1] == 0:
        parts.pop()
    return parts


def _read_time(o: JsonObject) -> int | None:
    value: Any = o.value.get("tagCreateTime")
    if value is None:
        return None
    try:
        if isinstance(value, str):
            text, _, fraction = value.partition(".")
            at, nanos = datetime.fromisoformat(text), int(fraction[:9].ljust(9, "0"))
        else:
            if not isinstance(value, list) or not 3 <= len(value) <= 7 or any(type(v) is not int for v in value):
                raise ValueError("not an array of 3 to 7 integers")
            at, nanos = datetime(*value[:6]), value[6] if len(value) == 7 else 0
        if not 0 <= nanos < _NANOS or at.tzinfo is not None:
            raise ValueError("not a local time")
    except (ValueError, OverflowError) as e:
        raise o.error("tagCreateTime", "an array of year, month, day, hour, minute, second, nanos") from e
    return timegm(at.timetuple()) * _NANOS + nanos


def _read_retained(o: JsonObject) -> int | None:
    value: Any = o.value.get("tagTimeRetained")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not 0 <= value < 1 << 63:
        raise o.error("tagTimeRetained", "a number of seconds")
    return int(value * _NANOS)
