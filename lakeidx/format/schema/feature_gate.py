"""The feature gate: what a table's options request that lakeidx does not do, by three classes.

Changes the meaning of rows or the layout of files: the uses that would go wrong are refused with the reason. Asks for upkeep:
left out, with one warning when the table is opened, in ``lakeidx table show`` and as a check. Harmless: nothing is said. An option
that is not known refuses changes where its name speaks of columns, an index, a layout or an order of rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakeidx.errors import UnsupportedError
from lakeidx.format.index_manifest import DELETION_VECTORS_INDEX, HASH_INDEX, IndexEntry
from lakeidx.format.schema.table_schema import TableSchema, refused_uses
from lakeidx.options.features import LeftOut, Refused, Use, left_out_by
from lakeidx.options.names import doubtful_options, options_of_other_programs, unknown_message, unknown_options
from lakeidx.options.table_options import TableOptions

log = logging.getLogger(__name__)

_FOLLOWED_INDEX_TYPES = frozenset({HASH_INDEX, DELETION_VECTORS_INDEX})

_warned: set[tuple[str, TableOptions]] = set()


@dataclass(frozen=True, slots=True)
class GateReport:
    """Features that a table's options request and lakeidx lacks.

    refused         option and rule; the rule says which uses are refused
    left_out        option and rule; the rule says what does not happen
    unknown         names that are not known, each with the nearest known one
    other_programs  options that another program reads, each with that program
    """

    refused: tuple[tuple[str, Refused], ...]
    left_out: tuple[tuple[str, LeftOut], ...]
    unknown: dict[str, str | None]
    other_programs: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; empty parts are left out."""
        out: dict[str, Any] = {
            "refused": {key: {"for": [u.value for u in r.uses], "reason": r.reason} for key, r in self.refused},
            "leftOut": {key: rule.effect for key, rule in self.left_out},
            "unknownOptions": dict(self.unknown),
            "otherPrograms": dict(self.other_programs),
        }
        return {key: value for key, value in out.items() if value}

    def warnings(self) -> list[str]:
        """Return one sentence per option that is refused, left out or unknown."""
        refused = [f"option '{key}' refuses {', '.join(r.uses)}: {r.reason}" for key, r in self.refused]
        left = [f"option '{key}' is not acted on: {rule.effect}" for key, rule in self.left_out]
        told = dict(self.refused)
        return refused + left + [unknown_message(key, near) for key, near in self.unknown.items() if key not in told]


def gate_report(schema: TableSchema) -> GateReport:
    """Collect what a table's schema requires that lakeidx does not implement."""
    raw = schema.options
    return GateReport(
        tuple(refused_uses(schema)), tuple(left_out_by(raw)), unknown_options(raw), options_of_other_programs(raw)
    )


def check_columns_may_change(schema: TableSchema, path: str | None = None) -> None:
    """Refuse other columns where an option that is not known may name the very column.

    schema   with the options that it will have, which may accept it
    errors   UnsupportedError
    """
    for key, rule in doubtful_options(schema.options):
        raise UnsupportedError(f"{Use.WRITE.value} is refused: {key}={schema.options[key]}: {rule.reason}", path=path)


def check_index_types(index: Iterable[IndexEntry], path: str | None = None) -> None:
    """Refuse to compact files that an index of a kind lakeidx does not have was made from.

    index    index files of the buckets to compact
    errors   UnsupportedError naming the type and a file of it
    """
    for entry in index:
        if entry.index_type not in _FOLLOWED_INDEX_TYPES:
            raise UnsupportedError(
                f"compaction is refused: index file {entry.file_name} is of type {entry.index_type}, which lakeidx does not "
                "rebuild: it would refer to files that no longer exist; compact this table with Java Paimon",
                path=path,
            )


def warn_once(schema: TableSchema, path: str) -> None:
    """Log what is left out, once per process, table and set of options."""
    if (path, schema.table_options) in _warned:
        return
    _warned.add((path, schema.table_options))
    warnings = gate_report(schema).warnings()
    if warnings:
        log.warning("%s: %s", path, "; ".join(warnings))
