"""Texts of dates and times as programs and people write them, to ISO texts: whole columns, by a regular expression per format.

Formats have the directives of strptime: ``%d %m %Y %y %b %B %a %A %H %I %M %S %f %p %z %F %T %R``. Days, months and hours may have
one digit where a character that is no digit ends them. Two-digit years are 1969 to 2068. Names of months and days are those of
English, German, French, Spanish, Italian, Portuguese, Dutch and Polish, whatever the case, abbreviated or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError

#: The word among formats that means texts as they are read without formats.
ISO = "iso"
_COMPOUND = {
    "%F": "%Y-%m-%d",
    "%T": "%H:%M:%S",
    "%R": "%H:%M",
    "%D": "%m/%d/%y",
    "%e": "%d",
    "%h": "%b",
    "%B": "%b",
    "%A": "%a",
}
#: Directive -> name of the group, digits at least and at most.
_DIGITS = {"d": ("day", 1, 2), "m": ("month", 1, 2), "Y": ("year", 4, 4), "y": ("short", 2, 2), "H": ("hour", 1, 2),
           "I": ("half", 1, 2), "M": ("minute", 1, 2), "S": ("second", 1, 2), "f": ("fraction", 1, 9)}  # fmt: skip
_TEXTS = {
    "b": r"(?P<name>\pL+)\.?",
    "a": r"\pL+\.?",
    "p": r"(?P<noon>[AaPp])\.?[Mm]\.?",
    "z": r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)",
}
_TOKEN = re.compile(r"%-?(.)|(\s+)|([^%\s]+)|(%)")
_MONTHS = (
    "jan january januar jänner janvier janv enero ene gennaio gen janeiro januari styczeń stycznia sty",
    "feb february februar feber février févr fév fevrier febrero febbraio fevereiro fev februari luty lutego lut",
    "mar march märz mrz maerz mär mars marzo março marco maart mrt marzec marca",
    "apr april avril avr abril abr aprile kwiecień kwietnia kwi",
    "may mai mayo maggio mag maio mei maj maja",
    "jun june juni juin junio giugno giu junho czerwiec czerwca cze",
    "jul july juli juillet juil julio luglio lug julho lipiec lipca lip",
    "aug august août aout aoû agosto ago augustus sierpień sierpnia sie",
    "sep sept september septembre septiembre set settembre setembro wrzesień września wrz",
    "oct october oktober okt octobre octubre ottobre ott outubro out październik października paź",
    "nov november novembre noviembre novembro listopad listopada lis",
    "dec december dezember dez décembre déc decembre diciembre dic dicembre dezembro grudzień grudnia gru",
)


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A format that can be matched.

    pattern         regular expression of RE2 with named groups
    groups          their names
    """

    pattern: str
    groups: frozenset[str]

    @property
    def has_date(self) -> bool:
        """True for formats with a day."""
        return "day" in self.groups

    @property
    def has_time(self) -> bool:
        """True for formats with a time of day."""
        return bool(self.groups & {"hour", "half"})


@cache
def parse_format(text: str) -> DateFormat | None:
    """Read a format; None for ``iso``.

    errors   InvalidInputError for a directive that is unknown or there twice, and for a format without a whole date or time
    """
    if text == ISO:
        return None
    long = text
    for short, meant in _COMPOUND.items():
        long = long.replace(short, meant)
    tokens = list(_TOKEN.finditer(long))
    parts, groups = [], []
    for i, token in enumerate(tokens):
        directive, blank, literal, _ = token.groups()
        if directive in _DIGITS:
            name, least, most = _DIGITS[directive]
            exact = any(0 <= j < len(tokens) and tokens[j].group(1) in _DIGITS for j in (i - 1, i + 1))
            groups.append(name)
            parts.append(rf"(?P<{name}>\d{{{most if exact and name != 'fraction' else least},{most}}})")
        elif directive in _TEXTS:
            parts.append(_TEXTS[directive])
            groups += re.findall(r"P<(\w+)>", parts[-1])
        elif directive == "%" or literal is not None or blank is not None:
            parts.append(r"\s+" if blank is not None else re.escape(literal or "%"))
        else:
            raise InvalidInputError(
                f"date format {text!r}: unknown directive {token.group()!r}; write one as %d.%m.%Y %H:%M"
            )
    found = frozenset(groups)
    date = {len(found & choice) for choice in ({"day"}, {"month", "name"}, {"year", "short"})}
    clock = found & {"hour", "half", "minute", "second", "fraction", "noon", "zone"}
    if (
        len(found) != len(groups)
        or date not in ({1}, {0})
        or (clock and len(clock & {"hour", "half"}) != 1)
        or ("half" in found) != ("noon" in found)
        or not found
    ):
        raise InvalidInputError(
            f"date format {text!r}: write one day, month and year, or one time of day, or both, as %d.%m.%Y %H:%M; %I needs %p"
        )
    return DateFormat(rf"^\s*{''.join(parts)}\s*$", found)


def split_texts(texts: pa.Array, form: DateFormat) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return ISO texts of dates and of times of day, and zones, of the texts that a format fits; all null for others.

    What a format has none of is "" where it fits.
    """
    parts = pc.extract_regex(texts, form.pattern)
    fits = pc.is_valid(parts)

    def part(name: str) -> pa.Array:
        return pc.struct_field(parts, name)

    def padded(name: str, width: int = 2) -> pa.Array:
        return pc.utf8_lpad(part(name), width, "0")

    empty = pc.if_else(fits, pa.scalar(""), pa.scalar(None, pa.string()))
    date = clock = zone = empty
    if form.has_date:
        month = _month(part("name")) if "name" in form.groups else padded("month")
        date = pc.binary_join_element_wise(_year(part, form), month, padded("day"), "-")
    if form.has_time:
        clock = padded("hour") if "hour" in form.groups else _afternoon(part("half"), part("noon"))
        for name in ("minute", "second"):
            clock = pc.binary_join_element_wise(clock, padded(name) if name in form.groups else "00", ":")
        if "fraction" in form.groups:
            clock = pc.binary_join_element_wise(clock, part("fraction"), ".")
    if "zone" in form.groups:
        zone = part("zone")
    return tuple(pc.if_else(fits, v, pa.scalar(None, pa.string())) for v in (date, clock, zone))


def _year(part: Callable[[str], pa.Array], form: DateFormat) -> pa.Array:
    if "year" in form.groups:
        return part("year")
    short = part("short")
    return pc.binary_join_element_wise(pc.if_else(pc.less(short, "69"), "20", "19"), short, "")


def _afternoon(half: pa.Array, noon: pa.Array) -> pa.Array:
    """Return hours of 24; of a number that no clock of twelve hours shows 99, which is no hour."""
    hours = pc.cast(pc.if_else(pc.equal(half, ""), None, half), pa.int64())
    shown = pc.and_(pc.greater_equal(hours, 1), pc.less_equal(hours, 12))
    after = pc.if_else(pc.equal(pc.utf8_lower(noon), "p"), 12, 0)
    of_day = pc.add(pc.if_else(pc.equal(hours, 12), 0, hours), after)
    return pc.utf8_lpad(pc.cast(pc.if_else(shown, of_day, 99), pa.string()), 2, "0")


@cache
def _month_names() -> tuple[list[str], list[str]]:
    pairs = [(word, f"{number:02}") for number, words in enumerate(_MONTHS, 1) for word in words.split()]
    return [word for word, _ in pairs], [number for _, number in pairs]


def _month(names: pa.Array) -> pa.Array:
    """Return numbers of months; of other words 99, which is none."""
    words, numbers = _month_names()
    found = pa.array(numbers).take(pc.index_in(pc.utf8_lower(names), pa.array(words)))
    return pc.fill_null(found, "99")
