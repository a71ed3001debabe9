"""The reference page of table options: every declared option with its type, its default and what lakeidx does with it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.options.descriptors import LONG_MAX
from lakeidx.options.features import LEFT_OUT, REFUSED
from lakeidx.options.names import HARMLESS
from lakeidx.options.option import Option
from lakeidx.options.table_options import OPTIONS, TableOptions
from tools.docs.docstrings import cell, table

_FIRST_HEADING = {
    "IndexOptions": "Key index",
    "HBaseOptions": "HBase",
    "RetentionOptions": "Snapshots, tags, consumers and partitions: what is kept",
}
_SIZES = ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))
_TIMES = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def options_page() -> str:
    """Return the page as Markdown."""
    parts = [
        "# Table options",
        "An option is set when the table is created (`options` of the schema or of the pipeline file) or with `lakeidx table "
        "alter`, and is kept in the table's schema file, where every program that reads the table sees it. Names and defaults are "
        "those of Apache Paimon 1.4.2; options of the key index have the names of Apache Hudi 1.0.2. Sizes are like `128 mb`, "
        "durations as `1 h`. An unknown name is refused. [How lakeidx classes options](../options.md).",
    ]
    for title, options in (*sections(TableOptions, OPTIONS), *sections(HBaseOptions, HBaseOptions.declared())):
        parts += [f"## {title}", option_table(options)]
    parts += [
        "## Options of single columns",
        "`fields.<column>.<name>` sets an option of one column, for instance `fields.amount.aggregate-function`. "
        "`file-index.<type>.columns` names the columns with a file index, `file-index.<type>.<column>.<name>` shapes it.",
        "## Other options that are refused",
        table(
            ("option", "what lakeidx does"),
            ((f"`{key}`", cell(text)) for key, text in _rules(without=declared()).items()),
        ),
        "## Options that change nothing here",
        "A table may carry them; lakeidx reads and writes the same with and without.",
    ]
    for reason, names in HARMLESS.items():
        parts += [f"### {reason[0].upper()}{reason[1:]}", ", ".join(f"`{name}`" for name in sorted(names.split()))]
    parts += [
        "### Options of Hudi",
        table(("option", "why"), sorted((f"`{key}`", cell(why)) for key, why in HBaseOptions.unused.items())),
    ]
    return "\n\n".join(parts) + "\n"


def declared() -> set[str]:
    """Return the keys of all declared options."""
    return {o.key for o in (*OPTIONS, *HBaseOptions.declared())}


def _rules(*, without: set[str]) -> dict[str, str]:
    """Return what a value of an option leads to, for options with a rule that are not in a set."""
    rules = {r.key: f"Refused for {', '.join(r.uses)} when it asks for it: {r.reason}." for r in REFUSED}
    rules |= {r.key: f"Not followed, with a warning: {r.effect}." for r in LEFT_OUT}
    return {key: text for key, text in rules.items() if key not in without}


def sections(owner: type, options: Iterable[Option[Any]]) -> list[tuple[str, list[Option[Any]]]]:
    """List (heading, options) in the order of declaration, classes that the owner is derived from last.

    Headings are the comments between declarations; before the first one, what the class is named for.
    """
    by_attribute = {option.attribute: option for option in options}
    out: list[tuple[str, list[Option[Any]]]] = []
    for cls in (c for c in owner.__mro__ if c is not object and by_attribute):
        heading = _FIRST_HEADING.get(cls.__name__, cls.__name__)
        for line in inspect.getsource(cls).splitlines():
            comment = re.match(r"^    # (\S.*)$", line)
            declared_as = re.match(r"^    (\w+) = ", line)
            if comment:
                heading = comment[1].rstrip(".")
            elif declared_as and declared_as[1] in by_attribute:
                if not out or out[-1][0] != heading:
                    out.append((heading, []))
                out[-1][1].append(by_attribute.pop(declared_as[1]))
    if by_attribute:
        raise AssertionError(f"options that the source does not show: {sorted(by_attribute)}")
    return out


def option_table(options: Iterable[Option[Any]]) -> str:
    """Return a row per option."""
    rules = _rules(without=set())
    rows = (
        (
            f"`{o.key}`" + "".join(f"<br>`{old}`" for old in o.fallback),
            cell(o.kind.partition(" (")[0]),
            default_text(o),
            cell(" ".join(filter(None, (o.doc, rules.get(o.key), _harmless(o.key))))),
        )
        for o in options
    )
    return table(("option (and older names)", "type", "default", "what lakeidx does"), rows)


def _harmless(key: str) -> str:
    reason = next((reason for reason, names in HARMLESS.items() if key in names.split()), None)
    return f"No effect here: it {reason}." if reason else ""


def default_text(option: Option[Any]) -> str:
    """Return the default as one would write it."""
    value = option.default
    if value is None or value in ((), {}):
        return "not set"
    if option.kind.startswith(("size", "duration")) and isinstance(value, int):
        return f"`{_with_unit(value, _SIZES if option.kind.startswith('size') else _TIMES, option.kind)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value == LONG_MAX or value == (1 << 31) - 1:
        return "no limit"
    return f"`{value}`" if value != "" else "empty"


def _with_unit(value: int, units: tuple[tuple[int, str], ...], kind: str) -> str:
    for factor, unit in units:
        if value and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{value} {'b' if kind.startswith('size') else 'ms'}"
