"""Rows without some of the table's columns: the caller has to state what that means, because null is a value and replaces the
old one. A file may lack a column altogether, or a single line, message or dictionary of it.

==================  ======================================================================
merge engine        a column that is not there
==================  ======================================================================
partial-update      keeps its old value
aggregation         keeps its old value: aggregate functions skip nulls
all others          refused, unless ``missing`` says otherwise
==================  ======================================================================

==========  ==============================================================================
`missing`   the column is, in these rows
==========  ==============================================================================
refuse      refused: a file without it as a whole, a row without it as a rejected row
null        null, or the column's default
before      what the message has of the row before the change; without it as refuse
table       the same, then what the table, or an earlier row of the batch, has of the key; an
            insert of a new key gets null or the default, an update of one is rejected
==========  ==============================================================================

Deletes need no more than the key, except where values are taken back (aggregation). Columns with a default have one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.data.row_kinds import is_retract
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cast import cast_column
from lakeidx.landing.kind_rules import kinds_of_rows
from lakeidx.landing.types import MISSING_DEFAULT, LandingOptions, Piece
from lakeidx.types import Field

#: Modes of rows in memory, and those that complete rows of landing files.
GIVEN_MODES = (MISSING_DEFAULT, "null")
COMPLETING = ("before", "table")
KEEPS_OLD_VALUES = ("partial-update", "aggregation")


def check_missing_mode(missing: str, modes: Collection[str] = (*GIVEN_MODES, *COMPLETING)) -> None:
    """Raise InvalidInputError for a mode that does not exist."""
    if missing not in modes:
        raise InvalidInputError(f"missing must be one of {', '.join(modes)}, not {missing!r}")


def needed_columns(schema: TableSchema) -> list[str]:
    """Return the columns without which a row would overwrite values of a known key with null."""
    if not schema.primary_keys or schema.table_options.merge_engine in KEEPS_OLD_VALUES:
        return []
    return [f.name for f in schema.fields if f.default_value is None]


def refuse_missing(
    schema: TableSchema, present: Collection[str], missing: str, *, what: str, path: str | None = None
) -> None:
    """Refuse rows that are all without some of the table's columns, unless their meaning is stated or known.

    present   names of the columns that are there
    what      of what the message speaks: ``the given rows``
    errors    InvalidInputError naming the columns and the ways out
    """
    check_missing_mode(missing)
    if missing in ("null", "table"):
        return
    gone = [name for name in needed_columns(schema) if name not in present]
    if gone:
        raise InvalidInputError(
            f"{what} lack the columns {', '.join(gone)}, and null would overwrite the values of known keys: give all columns, "
            "set missing = null to write nulls (--missing null), or keep old values with option 'merge-engine' = "
            "'partial-update'",
            path=path,
        )


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


def _default_of(field: Field) -> pa.Scalar | None:
    """Return a column's default as a scalar of its Arrow type, None when it has none.

    errors   InvalidInputError when the text is no value of the type
    """
    if field.default_value is None:
        return None
    cast = cast_column(pa.array([field.default_value], pa.string()), field.type)
    if cast.failed is not None:
        raise InvalidInputError(
            f"column {field.name!r}: the default {field.default_value!r} is not {field.type.with_nullable(True)}"
        )
    return cast.values[0]


def check_default(field: Field) -> None:
    """Raise InvalidInputError when a column's default is no value of its type."""
    _default_of(field)


def fill_default(values: pa.Array, field: Field) -> pa.Array:
    """Fill a column's nulls with its default; rows of Java's writer get it the same way."""
    default = _default_of(field) if values.null_count else None
    return values if default is None else pc.coalesce(values, default)
