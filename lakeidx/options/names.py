"""Which option names exist: a misspelt one must not pass for an option that is not set."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

from lakeidx.errors import InvalidInputError
from lakeidx.options.catalogue import FORMAT_PREFIXES, HARMLESS_KEYS, OLD_NAMES, OTHER_PROGRAMS, OWN_PREFIXES
from lakeidx.options.features import CHANGES, LEFT_OUT, REFUSED, Refused
from lakeidx.options.table_options import OPTIONS, TableOptions

KNOWN: frozenset[str] = frozenset(
    {key for option in OPTIONS for key in (option.key, *option.fallback)}
    | HARMLESS_KEYS.keys()
    | OLD_NAMES
    | {rule.key for rule in REFUSED}
    | {rule.key for rule in LEFT_OUT}
)
"""Names of options of Paimon's core and of lakeidx, families (``fields.…``) left out."""

_FIELD_OPTIONS: tuple[str, ...] = (
    "aggregate-function", "ignore-retract", "sequence-group", "distinct", "list-agg-delimiter", "nested-key",
    "nested-key-null-strategy", "nested-sequence-field", "count-limit", "ts-field", "stats-mode", "default-value",
    "map.storage-layout", "map.shared-shredding.max-columns", "map.shared-shredding.column-placement-policy",
    "pk-vector.index.type", "pk-vector.index.options", "pk-vector.distance.metric", "pk-full-text.index.options",
    "pk-btree.index.options", "pk-bitmap.index.options", "pk-multivalue.index.options",
)  # fmt: skip
"""What an option ``fields.<columns>.<name>`` may end in."""
_FIELD_ENDINGS = tuple(f".{name}" for name in _FIELD_OPTIONS)

# A name of another program's family may be close to one of Paimon's by chance; a slip of the pen is closer than that.
_SLIP = 0.93
_LIKELY = 0.7


#: Words of a name that say: columns, a layout or an order of rows.
_COLUMNS = "columns? fields? layouts? order order(?:ed|ing|by)"
_TELLING = """keys? index(?:es|ed|ing)? sort(?:ed|ing)? cluster(?:ed|ing)? z-?order(?:ed|ing)? buckets? partition(?:s|ed|ing)?
    sequences? shard(?:s|ed|ing)? shred(?:ded|ding)? encod(?:ed|ing) merge overrides?"""
_OFF = frozenset({"", "false", "none", "off", "0"})
#: Families whose names may have such words: settings for one file format, for a class, for indexes beside files.
_SETTINGS = (
    "parquet.", "orc.", "avro.", "csv.", "json.", "text.", "mosaic.", "lance.", "commit.callback.", "tag.callback.", "file-index.",
    *OWN_PREFIXES,
)  # fmt: skip
_DOUBTFUL = (
    "lakeidx does not know the option, and its name speaks of columns, an index, a layout or an order of rows; if changes "
    "by a program that does not follow it do no harm, set lakeidx.accepted-options={key}"
)


def _words(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[._-])(?:{'|'.join(words.split())})(?=$|[._-])")


_SPEAKS, _NAMES_COLUMNS = _words(f"{_COLUMNS} {_TELLING}"), _words(_COLUMNS)


def doubtful_options(raw: Mapping[str, str]) -> list[tuple[str, Refused]]:
    """Return the options that lakeidx does not know and whose name speaks of columns, an index, a layout or an order of rows.

    A later Paimon, or another program, may rely on what such an option says; so the table is not changed unless
    ``lakeidx.accepted-options`` names it.
    """
    accepted = TableOptions(raw).lakeidx_accepted_options
    return [
        (key, Refused(key, lambda text: True, CHANGES, _DOUBTFUL.format(key=key)))
        for key, value in raw.items()
        if _is_doubtful(key) and key not in accepted and value.strip().lower() not in _OFF
    ]


def _is_doubtful(key: str) -> bool:
    known_field = key.startswith("fields.") and key.endswith(_FIELD_ENDINGS)
    if key in KNOWN or known_field or key.startswith(_SETTINGS) or _program_of(key) is not None:
        return False
    spelt = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).lower()
    family = next((f for f in FORMAT_PREFIXES if f != "fields." and key.startswith(f)), "")
    return bool((_NAMES_COLUMNS if family else _SPEAKS).search(spelt[len(family) :]))


def unknown_options(raw: Mapping[str, str]) -> dict[str, str | None]:
    """Return the names in a table's options that are not known, each with the nearest known name when there is one."""
    out: dict[str, str | None] = {}
    for key in raw:
        if key.startswith("fields.") and key not in KNOWN:
            if not key.endswith(_FIELD_ENDINGS):
                out[key] = _nearest_field_option(key)
            continue
        if key in KNOWN or key.startswith((*FORMAT_PREFIXES, *OWN_PREFIXES)):
            continue
        foreign = _program_of(key) is not None
        near = nearest(key, KNOWN, slip=foreign)
        if near is not None or not foreign:
            out[key] = near
    return out


def options_of_other_programs(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the names in a table's options that belong to another program, each with that program (``flink``, ``spark``, …)."""
    unknown = unknown_options(raw)
    found = {key: _program_of(key) for key in raw if key not in KNOWN and key not in unknown}
    return {key: program for key, program in found.items() if program is not None}


def _program_of(key: str) -> str | None:
    """Return the program that reads an option which is not of Paimon's core; None when no program is known to."""
    if key.startswith((*FORMAT_PREFIXES, *OWN_PREFIXES)):
        return None
    for program, beginnings in OTHER_PROGRAMS.items():
        if any(key == b or (key.startswith(b) and b[-1] in ".-") for b in beginnings):
            return program
    return None


def nearest(key: str, known: Collection[str], *, slip: bool = False) -> str | None:
    """Find the known name most like `key`, None when none is like it.

    slip   only one so like it that `key` must be a slip of the pen
    """
    found = get_close_matches(key.strip().lower().replace("_", "-"), sorted(known), 1, _SLIP if slip else _LIKELY)
    return found[0] if found else None


def _nearest_field_option(key: str) -> str | None:
    columns, _, name = key[len("fields.") :].rpartition(".")
    near = nearest(name, _FIELD_OPTIONS)
    return None if near is None else f"fields.{columns or '<column>'}.{near}"


def check_given_options(raw: Mapping[str, str]) -> None:
    """Refuse an unknown name, and a text that only lakeidx would read: of a new table's options, or those that are set.

    errors   InvalidInputError with the nearest known name
    """
    for key, near in unknown_options(raw).items():
        raise InvalidInputError(unknown_message(key, near))
    for option in OPTIONS:
        text = option.find(raw)
        if text is not None:
            option.check_given(text)


def unknown_message(key: str, near: str | None) -> str:
    """Return one line about an unknown option."""
    if near is not None:
        return f"unknown option '{key}'; did you mean '{near}'?"
    return f"unknown option '{key}': neither Paimon nor lakeidx has one like it; docs/options.md lists all, other programs' too"
