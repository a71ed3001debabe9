"""Statistics that are kept of a column of a data file, by the options of its table.

Modes (`metadata.stats-mode`, `metadata.stats-mode.per.level`, `fields.<column>.stats-mode`):

===============  ============================================================================================
mode             what is kept
===============  ============================================================================================
none             nothing: minimum, maximum and null count are all null
counts           the null count
truncate(n)      everything; strings cut to n code points: the minimum is cut, the maximum is cut and its last
                 code point that can be is raised by one. If none can be raised both bounds are left out
full             everything, uncut
===============  ============================================================================================

System columns, and in thin mode the value columns that are keys, use truncate(128) whatever the mode of the table; an
explicit `fields.<column>.stats-mode` beats both. Columns with nothing at all (nested types, mode none) are left out of
dense statistics.

source   org.apache.paimon.utils.StatsCollectorFactories, release 1.4.2
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakeidx.data.parquet.schema import SYSTEM_COLUMNS
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import KEY_PREFIX
from lakeidx.types import STRING_ROOTS, DataType

_SYSTEM_TRUNCATE_LENGTH = 128
_TRUNCATE = re.compile(r"TRUNCATE\((\d+)\)")


class ModeKind(StrEnum):
    """Kinds of statistics that are kept of a column."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StatsMode:
    """A statistics mode; `length` in code points, for TRUNCATE only."""

    kind: ModeKind
    length: int = 0

    def keeps_all(self, t: DataType) -> bool:
        """Return True when it leaves the statistics of a column as the footer has them."""
        return t.root not in STRING_ROOTS and self.kind in (ModeKind.FULL, ModeKind.TRUNCATE)


_SYSTEM_MODE = StatsMode(ModeKind.TRUNCATE, _SYSTEM_TRUNCATE_LENGTH)
_NONE_MODE = StatsMode(ModeKind.NONE)


def parse_stats_mode(text: str) -> StatsMode:
    """Parse a mode as options spell it, upper or lower case.

    errors   InvalidInputError
    """
    upper = text.strip().upper()
    if upper in ("NONE", "COUNTS", "FULL"):
        return StatsMode(ModeKind[upper])
    m = _TRUNCATE.fullmatch(upper)
    if m is not None and int(m[1]) > 0:
        return StatsMode(ModeKind.TRUNCATE, int(m[1]))
    raise InvalidInputError(f"stats mode {text!r} is not none, counts, full or truncate(N) with N > 0")


def stats_modes(
    columns: Sequence[str],
    *,
    default: StatsMode,
    options: Mapping[str, str],
    thin_keys: Sequence[str] = (),
    keep_first_columns: int = -1,
) -> dict[str, StatsMode]:
    """Return the mode of every column of a data file.

    columns             all columns of the file in file order, system columns included
    default             the table's mode at this level
    options             table options, for `fields.<column>.stats-mode`
    thin_keys           in thin mode the trimmed primary key, else empty
    keep_first_columns  `metadata.stats-keep-first-n-columns`: ordinary columns beyond it have none; -1 keeps all
    errors              InvalidInputError naming the option
    """
    modes: dict[str, StatsMode] = {}
    counted = 0
    for name in columns:
        option = f"fields.{name}.stats-mode"
        explicit = options.get(option)
        if explicit is not None:
            try:
                modes[name] = parse_stats_mode(explicit)
            except InvalidInputError as e:
                raise InvalidInputError(f"{option}: {e.message}") from e
            counted += 1
        elif name.startswith(KEY_PREFIX) or name in SYSTEM_COLUMNS or name in thin_keys:
            modes[name] = _SYSTEM_MODE
        else:
            modes[name] = _NONE_MODE if 0 <= keep_first_columns <= counted else default
            counted += 1
    return modes
