"""Checks of the options by which landing files are read, in one place for every door."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakeidx.errors import InvalidInputError
from lakeidx.landing.written.date_formats import parse_format

if TYPE_CHECKING:
    from lakeidx.landing.types import LandingOptions

_DECIMALS = (".", ",")
_THOUSANDS = ("", ".", ",", " ", "'", "_")
_TAB = "\\t"
#: Options that say how files of rows are written: messages of changes come as their tools write them.
_OF_ROWS = ("columns", "constants", "from_name", "delimiter", "escape", "comment", "skip_lines", "member", "sheet",
            "thousands", "date_formats", "timezone", "true_values", "false_values")  # fmt: skip


def checked(options: LandingOptions) -> dict[str, Any]:
    """Return what options become: a tab that is written ``\\t``, sequences as tuples.

    errors   InvalidInputError for one that means nothing, or contradicts another
    """
    out: dict[str, Any] = {}
    if not isinstance(options.columns, Mapping):
        out["columns"] = tuple(options.columns)
    for name in ("null_values", "true_values", "false_values", "date_formats"):
        value = getattr(options, name)
        if isinstance(value, str):
            raise InvalidInputError(f"{name}: write a list, not the text {value!r}")
        out[name] = tuple(value)
    if options.delimiter == _TAB:
        out["delimiter"] = "\t"
    _check_characters(options, out.get("delimiter", options.delimiter))
    if options.encoding is not None:
        _check_encoding(options.encoding)
    if options.timezone is not None:
        _check_zone(options.timezone)
    _check_numbers(options)
    for text in out["date_formats"]:
        parse_format(text)
    both = {w.casefold() for w in options.true_values} & {w.casefold() for w in options.false_values}
    if both:
        raise InvalidInputError(f"{min(both)!r} is among true_values and false_values")
    _check_columns(options)
    _check_format(options)
    return out


def _check_characters(options: LandingOptions, delimiter: str | None) -> None:
    given = {"delimiter": delimiter, "quote": options.quote, "escape": options.escape, "comment": options.comment}
    for name, value in given.items():
        if value is None or (not value and name != "delimiter"):
            continue
        if len(value) != 1 or not value.isascii() or value in "\r\n":
            none = "" if name == "delimiter" else ", or '' for none"
            raise InvalidInputError(f"the {name} must be one ASCII character{none}, not {value!r}")
    twice = [c for c, count in Counter(v for v in given.values() if v).items() if count > 1]
    if twice:
        names = " and ".join(name for name, value in given.items() if value == twice[0])
        raise InvalidInputError(f"{names} are the same character {twice[0]!r}")
    hidden = [v for v in options.null_values if options.escape and options.quote and options.escape in v]
    if hidden:
        raise InvalidInputError(
            f"null_values has {hidden[0]!r}, which no value is, since {options.escape!r} escapes what follows: leave escape out, "
            "or let the program write another word for null"
        )
    if not isinstance(options.skip_lines, int) or options.skip_lines < 0:
        raise InvalidInputError(f"skip_lines is a number of lines, not {options.skip_lines!r}")


def _check_encoding(name: str) -> None:
    try:
        codecs.lookup(name)
        "".encode(name)
    except LookupError:
        raise InvalidInputError(
            f"unknown encoding {name!r}; write one that Python knows, as latin-1, cp1252 or utf-16"
        ) from None


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInputError(f"unknown timezone {name!r}; write one as Europe/Berlin or UTC") from None


def _check_numbers(options: LandingOptions) -> None:
    if options.decimal not in _DECIMALS:
        raise InvalidInputError(f"decimal is '.' or ',', not {options.decimal!r}")
    if options.thousands not in _THOUSANDS:
        shown = ", ".join(repr(t) for t in _THOUSANDS)
        raise InvalidInputError(f"thousands is one of {shown}, not {options.thousands!r}")
    if options.thousands == options.decimal:
        raise InvalidInputError(f"decimal and thousands are both {options.decimal!r}")


def _check_columns(options: LandingOptions) -> None:
    targets = [*(n for n in options.renamed.values() if n is not None), *options.constants, *options.from_name]
    twice = [n for n, count in Counter(targets).items() if count > 1]
    if twice:
        raise InvalidInputError(f"column {twice[0]!r} of the table is given twice, by columns, constants or from_name")
    for name, pattern in options.from_name.items():
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise InvalidInputError(f"from_name of {name!r}: {pattern!r} is no regular expression: {error}") from None
        if not groups:
            raise InvalidInputError(f"from_name of {name!r}: {pattern!r} needs a group, (...) around the value")


def _check_format(options: LandingOptions) -> None:
    from lakeidx.landing.types import ROW_FORMATS

    if options.member is not None and options.format not in (None, "jsonl"):
        raise InvalidInputError(f"member is for JSON files, not for {options.format}")
    if options.sheet is not None and options.format not in (None, "excel"):
        raise InvalidInputError(f"sheet is for Excel files, not for {options.format}")
    if options.format is None or options.format in ROW_FORMATS:
        return
    from lakeidx.landing.changes import message_formats

    given = [name for name in _OF_ROWS if getattr(options, name)]
    if given and options.format in message_formats():
        raise InvalidInputError(f"{given[0]} is for files of rows, not for messages of {options.format}")
