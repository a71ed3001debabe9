"""Directory names of partitions, ``key=value`` with both sides escaped, and of the buckets in them.

The value's text is Paimon's internal one (option ``partition.legacy-name``, the default) or SQL's:

===================  ==============================================  =====================================================
type                 legacy                                          SQL text
===================  ==============================================  =====================================================
DATE                 epoch days, ``19723``                           ``2024-01-01``
TIME                 milliseconds of the day                         ``01:01:01.1`` (no zeros at the end beyond one)
TIMESTAMP            ``2023-11-14T22:13:20.123`` (ISO, empty         ``2023-11-14 22:13:20.123`` (fraction at least as long
                     fraction and empty seconds left out)            as the precision)
LTZ                  the same, in UTC                                the same, in the local time zone of the writer
BINARY               not usable (an object id in Java)               the bytes as UTF-8
others               the same in both
===================  ==============================================  =====================================================

Null, empty and blank text become option ``partition.default-name``. Readers take values from the manifest, never from names.

source   org.apache.paimon.utils.PartitionPathUtils, InternalRowPartitionComputer, DateTimeUtils, release 1.4.2
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np

from lakeidx.codec.java_text import civil_from_days, date_text, double_text, float_text, time_text, timestamp_text
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import local_ms_of_epoch
from lakeidx.format.schema.table_schema import POSTPONE_BUCKET
from lakeidx.types import BYTES_ROOTS, DataType, Field, Root

DEFAULT_NAME = "__DEFAULT_PARTITION__"
_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_JAVA_BLANKS = frozenset("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f")
_NOT_JAVA_BLANKS = frozenset("\u00a0\u2007\u202f")
_DAY_MS = 86_400_000
#: Holds every DECIMAL; the default context has 28 digits.
_EXACT = Context(prec=120)


def escape(text: str) -> str:
    """Replace characters that paths cannot contain by ``%XX``."""
    return _ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", text)


def unescape(text: str) -> str:
    """Undo `escape`; a ``%`` that is not followed by two hex digits stays."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)


def partition_dir_name(
    values: Mapping[str, Any], fields: Sequence[Field], *, legacy: bool = True, default_name: str = DEFAULT_NAME
) -> str:
    """Return the directories of a partition, ``k1=v1/k2=v2``, without slash at either end; empty for an unpartitioned table.

    values   column name -> internal value (see `lakeidx.types`); must hold every partition column
    fields   the partition columns, in partition key order
    errors   InvalidInputError for a missing column or a binary one with legacy names
    """
    parts = []
    for f in fields:
        if f.name not in values:
            raise InvalidInputError(f"partition column {f.name!r} is missing")
        text = partition_value_text(values[f.name], f.type, legacy=legacy)
        parts.append(f"{escape(f.name)}={escape(default_name if text is None or is_blank(text) else text)}")
    return "/".join(parts)


def partition_value_text(value: Any, data_type: DataType, *, legacy: bool = True) -> str | None:
    """Format one partition value before escaping; None for null."""
    if value is None:
        return None
    root = data_type.root
    if root is Root.BOOLEAN:
        return "true" if value else "false"
    if root is Root.FLOAT:
        return float_text(float(np.float32(value)))
    if root is Root.DOUBLE:
        return double_text(float(value))
    if root is Root.DECIMAL:
        return format(Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=_EXACT), "f")
    if root in BYTES_ROOTS:
        if legacy:
            raise InvalidInputError("a binary partition column needs option 'partition.legacy-name' = false")
        return bytes(value).decode("utf-8", "replace")
    if root is Root.DATE and not legacy:
        return date_text(int(value))
    if root is Root.TIME and not legacy:
        return time_text(int(value), data_type.precision)
    if root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        millis, nanos = value
        if legacy:
            return _iso_text(millis, nanos)
        if root is Root.TIMESTAMP_LTZ:
            millis = local_ms_of_epoch(millis)
        return timestamp_text((millis, nanos), data_type.precision)
    return str(value)


def is_blank(text: str) -> bool:
    """Return True for text of blanks only, as Java counts them: a partition of it has the default name."""
    return all(
        c in _JAVA_BLANKS or (unicodedata.category(c) in ("Zs", "Zl", "Zp") and c not in _NOT_JAVA_BLANKS) for c in text
    )


def _iso_text(millis: int, nanos: int) -> str:
    """Format as ``java.time.LocalDateTime.toString``: seconds and fraction only when needed, the fraction of 3, 6 or 9 digits."""
    days, ms = divmod(millis, _DAY_MS)
    year, month, day = civil_from_days(days)
    year_text = f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04d}"
    clock, fraction = time_text(ms, 0), f"{ms % 1000:03d}{nanos:06d}"
    if fraction == "000000000":
        clock = clock.removesuffix(":00")
    else:
        significant = len(fraction.rstrip("0"))
        clock += f".{fraction[: -(-significant // 3) * 3]}"
    return f"{year_text}-{month:02d}-{day:02d}T{clock}"


def bucket_dir_name(bucket: int) -> str:
    """Return ``bucket-<n>``, or ``bucket-postpone`` for -2."""
    return "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"


def parse_bucket_dir(name: str) -> int | None:
    """Parse the bucket of a directory name; None when it is not one."""
    if name == "bucket-postpone":
        return POSTPONE_BUCKET
    m = re.fullmatch(r"bucket-(0|[1-9][0-9]{0,9})", name, re.ASCII)
    return None if m is None else int(m[1])
