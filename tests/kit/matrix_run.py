"""Cells of the matrix: rows through a way in, and what a way out shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakeidx
from tests.kit.matrix_changes import CHANGES_IN
from tests.kit.matrix_in import WAYS_IN, Load, Refused, WayIn, can_write
from tests.kit.matrix_out import WayOut
from tests.kit.matrix_values import Column, Row, columns, plain, rows_of
from tests.kit.share import share_of

#: Ways in that need no JVM and no server, and each with each of its layouts.
LIGHT_IN = WAYS_IN | CHANGES_IN
LIGHT_LAYOUTS = [(name, layout) for name, way in LIGHT_IN.items() for layout in range(way.layouts)]
_MOST = 30


@dataclass(frozen=True)
class Filled:
    """A table that a way in has filled, and what it has to hold by id."""

    table: lakeidx.Table
    columns: Sequence[Column]
    rows: Mapping[int, Mapping[str, Any]]

    def check_all(self, came_by: str, ways: Mapping[str, WayOut], part: float, folder: Path) -> None:
        """Compare what a share of ways out shows; `came_by` names the way in."""
        for name in share_of(ways, part, key=lambda name: f"{came_by} {name}"):
            try:
                self.check(ways[name], folder)
            except AssertionError as error:
                raise AssertionError(f"{came_by} -> {name}: {error}") from error

    def check(self, way: WayOut, folder: Path) -> None:
        """Compare what a way out shows with what is there."""
        shown = way.read(self.table, self.columns, folder)
        assert sorted(shown) == sorted(self.rows)
        wrong = []
        for c in (c for c in self.columns if not shown or c.name in next(iter(shown.values()))):
            for i, row in self.rows.items():
                wanted = way.expected(row[c.name], c.type)
                if plain(shown[i][c.name]) != plain(wanted):
                    wrong.append(f"{c.name}: {wanted!r:.150} is shown as {shown[i][c.name]!r:.150}")
        assert not wrong, "\n".join([f"{len(wrong)} cells", *list(dict.fromkeys(wrong))[:_MOST]])


def create(folder: Path, found: Sequence[Column]) -> lakeidx.Table:
    """Make the table of the matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = [{"name": "id", "type": "INT"}, *({"name": c.name, "type": c.spec} for c in found)]
    spec = {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1", "write-only": "true"}}
    return lakeidx.Table.create(f"{folder}/d.db/t", spec)


def fill(way: WayIn, layout: int, folder: Path, but: Sequence[str] = ()) -> Filled:
    """Put everything that a way can write through it; each row is taken, or is not for its one bad value.

    but   words of types that are left out, also inside others
    """
    found = [c for c in columns() if not any(word in str(c.type) for word in but)]
    good, bad = rows_of(found, can_write(way, layout))
    known = [c for c in found if c.name in good[0].values]
    bad = [r for r in bad if r.bad in good[0].values]
    table = create(folder, known)
    _check_refused(way.put(Load(folder, table, known, good, bad, layout)), good, bad)
    stored = {r.id: {c.name: c.stored(r.values.get(c.name)) for c in known} for r in good}
    return Filled(table, known, stored)


def _check_refused(refused: Refused, good: Sequence[Row], bad: Sequence[Row]) -> None:
    """Compare what was refused with the rows that have a bad value; reasons are a line, and name its column but for Spark's own."""
    wrong = [f"good row {r.id} refused: {refused[r.id]}" for r in good if r.id in refused]
    for row in bad:
        assert row.bad is not None
        why = refused.get(row.id)
        if why is None:
            wrong.append(f"{row.bad} takes {row.values[row.bad]!r:.80}")
        elif not any(name in why for name in (row.bad, "not UTF-8", "SQLSTATE")) or "\n" in why:
            wrong.append(f"{row.bad}, {row.values[row.bad]!r:.80}: {why!r}")
    wrong += [f"unknown row {i} refused: {refused[i]}" for i in refused.keys() - {r.id for r in (*good, *bad)}]
    assert not wrong, "\n".join([f"{len(wrong)} cells", *wrong[:_MOST]])
