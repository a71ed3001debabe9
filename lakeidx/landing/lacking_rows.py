"""Single rows that lack columns of the table where others of their file or list have them: which are rejected, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.missing_columns import KEEPS_OLD_VALUES, needed_columns
from lakeidx.landing.row_kinds import kinds_of_rows
from lakeidx.landing.types import LandingOptions, Piece

_WAYS = "give the column, or say what that means with missing (--missing): null, before or table"


def completes_from_table(schema: TableSchema, options: LandingOptions, *, overwrite: bool) -> bool:
    """Return True when rows are completed from the table; merge engines that keep old values do that themselves.

    errors   InvalidInputError where that cannot be done right
    """
    if options.missing != "table" or not schema.primary_keys or schema.table_options.merge_engine in KEEPS_OLD_VALUES:
        return False
    if overwrite:
        raise InvalidInputError("missing = table completes the rows of an upsert: an overwrite replaces these rows")
    if options.check_before:
        raise InvalidInputError("missing = table and check_before do not go together: set one of them")
    return True


class LackingRows:
    """Finds rows that lack a column which would be null then; of all pieces of a task, in their order.

    new      columns that the table gets with the batch: rows before the first that has one lack nothing
    optional columns that rows may lack
    brought  of the new ones, those that a row had; passed: those that a row lacked before
    """

    def __init__(
        self, schema: TableSchema, missing: str, new: Collection[str] = (), optional: Collection[str] = ()
    ) -> None:
        self._schema = schema
        self._needed = [n for n in needed_columns(schema) if n not in optional] if missing != "null" else []
        self._taken_back = _taken_back(schema) if missing != "null" else []
        self._new = frozenset(new).difference(optional)
        self.brought: set[str] = set()
        self.passed: set[str] = set()

    def __call__(self, piece: Piece, rows: pa.Table, bad: NDArray[np.bool_]) -> Mapping[int, str]:
        """Return rows to reject, each with its reason; see `lakeidx.landing.cast_rows.RefuseRows`."""
        for name in self._new.intersection(piece.rows.column_names).difference(piece.absent):
            self.brought.add(name)
        if not piece.absent:
            return {}
        retracts = is_retract(kinds_of_rows(rows, self._schema))
        lacks = {n: piece.absent[n] & ~retracts for n in self._needed if n in piece.absent}
        for name in self._new & piece.absent.keys():
            lacks[name] = self._after_first(name, piece.absent[name]) & ~retracts
        back = {n: piece.absent[n] & retracts for n in self._taken_back if n in piece.absent}
        found = self._reasons(lacks, f"and null would overwrite its value: {_WAYS}", bad)
        return found | self._reasons(back, "which a row that is taken back must have (full row images)", bad)

    def _after_first(self, name: str, absent: NDArray[np.bool_]) -> NDArray[np.bool_]:
        first = 0 if name in self.brought else int(np.argmin(absent)) if not absent.all() else len(absent)
        if absent[:first].any():
            self.passed.add(name)
        if first < len(absent):
            self.brought.add(name)
        return absent & (np.arange(len(absent)) >= first)

    @staticmethod
    def _reasons(lacks: Mapping[str, NDArray[np.bool_]], why: str, bad: NDArray[np.bool_]) -> dict[int, str]:
        rows = np.flatnonzero(np.any([*lacks.values()], axis=0) & ~bad) if lacks else ()
        return {int(i): f"missing: the row lacks {', '.join(n for n, m in lacks.items() if m[i])}, {why}" for i in rows}


def _taken_back(schema: TableSchema) -> list[str]:
    """Return the columns whose values a -U or -D takes back."""
    options = schema.table_options
    if options.merge_engine != "aggregation" or options.aggregation_remove_record_on_delete:
        return []
    kept = {*schema.primary_keys, *options.sequence_field}
    # Merge engines bring Numba.
    from lakeidx.data.engines.options import kept_merge_options

    functions = kept_merge_options(schema).functions.values()
    return [f.column for f in functions if f.column not in kept and not f.ignore_retract]
