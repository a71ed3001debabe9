"""Text of table options <-> values: sizes, durations, booleans, numbers, maps, and the descriptor that declares an option.

source   org.apache.paimon.options.OptionsUtils, MemorySize, org.apache.paimon.utils.TimeUtils, release 1.4.2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.options.option import Option

_SIZE_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _names in enumerate(
    (("k", "kb", "kibibytes"), ("m", "mb", "mebibytes"), ("g", "gb", "gibibytes"), ("t", "tb", "tebibytes")), 1
):
    _SIZE_UNITS.update(dict.fromkeys(_names, 1024**_power))

_NANOS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_DURATION_UNITS = {"": _NANOS["ms"], "m": _NANOS["min"]} | _NANOS
for _unit, _words in {
    "ns": ("nano", "nanosecond"), "µs": ("micro", "microsecond"), "ms": ("milli", "millisecond"), "s": ("sec", "second"),
    "min": ("minute",), "h": ("hour",), "d": ("day",),
}.items():  # fmt: skip
    for _word in _words:
        _DURATION_UNITS[_word] = _DURATION_UNITS[_word + "s"] = _NANOS[_unit]

_NUMBER_AND_UNIT = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1


def parse_size(text: str) -> int:
    """Parse a memory size into bytes: ``128 mb``, ``8kb``, ``500 bytes``, ``1024``; ValueError when it is none."""
    m = _NUMBER_AND_UNIT.fullmatch(text)
    if m is None or m[2].lower() not in _SIZE_UNITS:
        raise ValueError("a size such as '128 mb', '8 kb' or '1024' (units b, kb, mb, gb, tb)")
    size = int(m[1]) * _SIZE_UNITS[m[2].lower()]
    if size > LONG_MAX:
        raise ValueError("a size below 2^63 bytes")
    return size


def parse_duration_ms(text: str) -> int:
    """Parse a duration into milliseconds: ``1 h``, ``10min``, ``30 days``, ``500`` (ms); ValueError when it is none."""
    m = _NUMBER_AND_UNIT.fullmatch(text)
    if m is None or m[2].lower() not in _DURATION_UNITS:
        raise ValueError("a duration such as '1 h', '30 min' or '500 ms' (units ns, µs, ms, s, min, h, d)")
    ms = int(m[1]) * _DURATION_UNITS[m[2].lower()] // 10**6
    if ms > LONG_MAX:
        raise ValueError("a duration below 2^63 ms")
    return ms


def parse_bool(text: str) -> bool:
    """Parse ``true`` or ``false`` in any case; ValueError otherwise."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("'true' or 'false'")
    return word == "true"


def parse_fraction(text: str) -> float:
    """Parse a number between 0 and 1; ValueError for another text, and for 0 and 1."""
    value = float(text)
    if not 0.0 < value < 1.0:
        raise ValueError("a number between 0 and 1")
    return value


def _parse_map(text: str) -> dict[str, str]:
    """Parse ``key:value,key:value``; ValueError when a part has no colon."""
    out: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, colon, value = part.partition(":")
        if not colon:
            raise ValueError("pairs such as '0:avro,5:parquet'")
        out[key.strip()] = value.strip()
    return out


def parse_names(text: str) -> tuple[str, ...]:
    """Parse ``a, b,c`` as names without blanks around them; ValueError for an empty name."""
    names = tuple(p.strip() for p in text.split(","))
    if "" in names:
        raise ValueError("names separated by commas")
    return names


def boolean(key: str, default: bool, doc: str, *fallback: str) -> Option[bool]:
    """Declare a true/false option."""
    return Option(key, "boolean", parse_bool, default, doc, fallback)


def opt_boolean(key: str, doc: str, *fallback: str) -> Option[bool | None]:
    """Declare a true/false option that may be left out."""
    parse: Callable[[str], bool | None] = parse_bool
    return Option(key, "boolean", parse, None, doc, fallback)


def integer(key: str, default: int, doc: str, *, least: int = -INT_MAX - 1, most: int = INT_MAX) -> Option[int]:
    """Declare a whole number within bounds."""
    return Option(key, "integer", _bounded(least, most), default, doc)


def opt_integer(
    key: str, doc: str, *fallback: str, least: int = -INT_MAX - 1, most: int = INT_MAX
) -> Option[int | None]:
    """Declare a whole number that may be left out."""
    parse: Callable[[str], int | None] = _bounded(least, most)
    return Option(key, "integer", parse, None, doc, fallback)


def number(key: str, default: float, doc: str, *, least: float = 0.0, most: float = 1.0) -> Option[float]:
    """Declare a fraction within bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise ValueError(f"a number from {least} to {most}")
        return value

    return Option(key, "number", parse, default, doc)


def fraction(key: str, default: float, doc: str) -> Option[float]:
    """Declare a number between 0 and 1, both left out."""
    return Option(key, "number", parse_fraction, default, doc)


def size(key: str, default: str, doc: str, *, least: int = 0, most: int = LONG_MAX) -> Option[int]:
    """Declare a memory size in bytes, within bounds."""
    return Option(key, "size (bytes)", _bounded_size(least, most), parse_size(default), doc)


def opt_size(key: str, doc: str, *, least: int = 0) -> Option[int | None]:
    """Declare a memory size that may be left out."""
    parse: Callable[[str], int | None] = _bounded_size(least, LONG_MAX)
    return Option(key, "size (bytes)", parse, None, doc)


def duration(key: str, default: str, doc: str) -> Option[int]:
    """Declare a duration in milliseconds."""
    return Option(key, "duration (ms)", parse_duration_ms, parse_duration_ms(default), doc)


def opt_duration(key: str, doc: str) -> Option[int | None]:
    """Declare a duration that may be left out."""
    parse: Callable[[str], int | None] = parse_duration_ms
    return Option(key, "duration (ms)", parse, None, doc)


def text(key: str, default: str, doc: str) -> Option[str]:
    """Declare a text option."""
    return Option(key, "text", str, default, doc)


def opt_text(key: str, doc: str, *fallback: str) -> Option[str | None]:
    """Declare a text that may be left out."""
    parse: Callable[[str], str | None] = str
    return Option(key, "text", parse, None, doc, fallback)


def names(key: str, doc: str, *fallback: str) -> Option[tuple[str, ...]]:
    """Declare a comma-separated list of names, empty by default."""
    return Option(key, "names", parse_names, (), doc, fallback)


def mapping(key: str, doc: str) -> Option[dict[str, str]]:
    """Declare a ``key:value,key:value`` option, empty by default."""
    return Option(key, "map", _parse_map, {}, doc)


def choice(key: str, choices: str | list[str], doc: str) -> Option[str]:
    """Declare an option whose value is one of some words (in any case); the first is the default.

    choices   the words; a list may grow later
    """
    words = choices.split() if isinstance(choices, str) else choices

    def parse(value: str) -> str:
        for word in words:
            if word.lower() == value.strip().lower():
                return word
        raise ValueError(f"one of {', '.join(words)}")

    return Option(key, " | ".join(words), parse, words[0], doc)


def bucket_count(key: str, default: int, doc: str) -> Option[int]:
    """Declare option ``bucket``: a positive number, -1 or -2."""

    def parse(value: str) -> int:
        n = _bounded(-2, INT_MAX)(value)
        if n == 0:
            raise ValueError("a number of buckets above 0, -1 (dynamic) or -2 (postpone)")
        return n

    return Option(key, "integer", parse, default, doc)


def _bounded(least: int, most: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        bounds = "a whole number" if least < -INT_MAX else f"a whole number of at least {least}"
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
            raise ValueError(bounds)
        n = int(value)
        if not least <= n <= most:
            raise ValueError(bounds if n < least else f"a whole number of at most {most}")
        return n

    return parse


def _bounded_size(least: int, most: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        n = parse_size(value)
        if not least <= n <= most:
            raise ValueError(f"a size of at least {least} bytes" if n < least else f"a size of at most {most} bytes")
        return n

    return parse


def raw_options(value: Any) -> dict[str, str]:
    """Return the options as Paimon stores them: JSON numbers and booleans become their text.

    errors   InvalidInputError when it is not an object of texts
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"options must be an object of texts, not {value!r}")
    out: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, bool):
            item = "true" if item else "false"
        elif isinstance(item, (int, float)):
            item = str(item)
        if not isinstance(key, str) or not isinstance(item, str):
            raise InvalidInputError(f"option {key!r} must be text, not {item!r}")
        out[key] = item
    return out
