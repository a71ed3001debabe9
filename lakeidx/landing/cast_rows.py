"""Landing rows cast to a table's columns; rows that cannot be kept are split off, each with its line and its first reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.landing.cast import cast_column, plain
from lakeidx.landing.kind_rules import KIND_COLUMN, KindRules, kind_codes
from lakeidx.landing.missing_columns import fill_default
from lakeidx.landing.text.utf8 import without_broken_text
from lakeidx.landing.types import BadLine, LandingOptions, Piece, shown_source
from lakeidx.types import Field, Root

_REJECT_SAMPLE_BYTES = 2000
_SHOWN_CHARACTERS = 80
_FLOATS = (Root.FLOAT, Root.DOUBLE)
#: Rejected rows: where each came from, why it is none of the table, and its text.
REJECT_SCHEMA = pa.schema(
    [("source", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("row", pa.string())]
)

#: Metadata of rows in memory that were read from the table they go back into: their values are kept, whether they fit or are null.
AS_STORED = {b"lakeidx.rows": b"as stored"}

#: Gets a piece, all its rows as cast, null where they lack a column, and which of them are rejected so far; completes them, and
#: gives those to reject.
CompleteRows = Callable[[Piece, pa.Table, NDArray[np.bool_]], tuple[pa.Table, Mapping[int, str]]]
#: Gets a piece, all its rows as cast and which of them are rejected so far; gives more to reject, each with its reason.
RefuseRows = Callable[[Piece, pa.Table, NDArray[np.bool_]], Mapping[int, str]]


class _Rejects:
    """Rows of a piece that cannot be kept, each with the first reason found."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._reasons: dict[int, str] = {}
        self.bad = np.zeros(rows.num_rows, dtype=bool)

    def mark(self, mask: np.ndarray, reason: str, column: str | None = None) -> None:
        """Reject the rows of a mask; with a column, the reason continues with the row's value there."""
        from lakeidx.data.json_values import json_values

        fresh = np.flatnonzero(mask & ~self.bad)
        shown = [""] * len(fresh)
        if column is not None:
            shown = [f": {short_text(v)}" for v in json_values(self._rows.column(column).take(pa.array(fresh)))]
        self._reasons.update((int(i), reason + value) for i, value in zip(fresh, shown, strict=True))
        self.bad |= mask

    def add(self, reasons: Mapping[int, str]) -> None:
        """Reject rows, each with a reason of its own."""
        self._reasons.update(reasons)
        self.bad[list(reasons)] = True

    def spread(self, changes: NDArray[np.int64] | None) -> None:
        """Reject the other rows of changes of which a row is: half of one would be another change."""
        if changes is None or not self.bad.any():
            return
        first = {int(changes[i]): self._reasons[int(i)] for i in np.flatnonzero(self.bad)[::-1]}
        others = np.flatnonzero(np.isin(changes, changes[self.bad]) & ~self.bad)
        self.add({int(i): first[int(changes[i])] for i in others})

    def to_table(self, piece: Piece, source: str) -> pa.Table:
        """Build a table of the rejected rows by REJECT_SCHEMA."""
        from lakeidx.data.json_values import json_rows

        picked = np.flatnonzero(self.bad)
        lines = np.asarray(piece.lines) if piece.lines is not None else piece.first_line + np.arange(len(self.bad))
        return pa.table(
            {
                "source": pa.array([source] * len(picked), pa.string()),
                "line": pa.array(lines[picked], pa.int64()),
                "reason": pa.array([self._reasons[i] for i in picked.tolist()], pa.string()),
                "row": pa.array([_as_text(r) for r in json_rows(self._rows.take(picked))], pa.string()),
            },
            schema=REJECT_SCHEMA,
        )


def cast_piece(
    piece: Piece,
    fields: Sequence[Field],
    source: str,
    *,
    keys: Collection[str] = (),
    refuse: Sequence[RefuseRows] = (),
    kinds: KindRules | None = None,
    complete: CompleteRows | None = None,
    as_stored: bool = False,
    spelling: LandingOptions | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Cast a piece to the table's columns.

    keys     columns in which NaN is refused: Java's merge loses or doubles such keys, so no writer may bring them in
    refuse   find more rows to reject, one after the other
    kinds    reject rows of some kinds, or leave them out: they are among neither of what is returned
    complete  fills in columns that rows lack, before these are looked for
    as_stored  rows of the table itself: see `cast_column`; nulls do not become the columns' defaults
    spelling   options that say how a file spells its values
    returns  kept rows (table columns, and _VALUE_KIND when the landing file has kinds) and rejected rows in line order
    """
    source = shown_source(source)
    rows, broken = without_broken_text(_plain_rows(piece.rows, source))
    rejects = _Rejects(rows)
    for name, mask in broken.items():
        rejects.mark(mask, f"format: column {name} is not UTF-8 text")
    gone = _absent(piece, fields) if complete is not None else {}
    cast = partial(_cast_field, rows, source, rejects, spelling, as_stored)
    kept = pa.table({f.name: cast(f, f.name in keys, gone.get(f.name)) for f in fields})
    if KIND_COLUMN in rows.column_names:
        codes, unknown = kind_codes(rows.column(KIND_COLUMN))
        if unknown is not None:
            rejects.mark(unknown, "kind: the row kind is not one of +I -U +U -D", KIND_COLUMN)
        if pc.any(pc.not_equal(codes, 0), min_count=0).as_py():
            kept = kept.append_column(VALUE_KIND, codes)
    left_out = np.zeros(rows.num_rows, np.bool_) if kinds is None else kinds.ignored(kept)
    if kinds is not None:
        rejects.add(kinds.reasons(kept, rejects.bad | left_out))
    if complete is not None:
        rejects.bad &= ~left_out
        rejects.spread(piece.changes)
        kept, reasons = complete(piece, kept, rejects.bad | left_out)
        rejects.add(reasons)
        for i, f in enumerate(fields):
            if f.name in gone:
                kept = kept.set_column(i, f.name, _settled(kept.column(i).combine_chunks(), f, rejects))
    for find in refuse:
        rejects.add(find(piece, kept, rejects.bad | left_out))
    rejects.bad &= ~left_out
    rejects.spread(piece.changes)
    rejects.bad &= ~left_out
    lines = _broken_lines(piece.bad_lines, source)
    done = rejects.bad | left_out
    kept = kept.filter(pa.array(~done)) if done.any() else kept
    if not rejects.bad.any():
        return kept, lines
    rejected = pa.concat_tables([lines, rejects.to_table(piece, source)])
    return kept, rejected.sort_by("line") if lines.num_rows else rejected


def _absent(piece: Piece, fields: Sequence[Field]) -> dict[str, NDArray[np.bool_]]:
    """Return bool[n] by column that rows lack."""
    names, whole = set(piece.rows.column_names), np.ones(piece.rows.num_rows, np.bool_)
    return {n: piece.absent.get(n, whole) for n in (f.name for f in fields) if n in piece.absent or n not in names}


def _settled(values: pa.Array, field: Field, rejects: _Rejects) -> pa.Array:
    """Fill nulls with the column's default, and reject those that may not be."""
    values = fill_default(values, field)
    _reject_nulls(values, field, rejects)
    return values


def _reject_nulls(values: pa.Array, field: Field, rejects: _Rejects, absent: NDArray[np.bool_] | None = None) -> None:
    """Reject nulls of a column that may have none; not of rows that lack it."""
    if not field.type.nullable and values.null_count:
        nulls = np.asarray(pc.is_null(values))
        rejects.mark(nulls if absent is None else nulls & ~absent, f"null: column {field.name} must not be null")


def _plain_rows(rows: pa.Table, source: str) -> pa.Table:
    """Return rows whose columns all kernels take, also those that find and show rejected rows; see `plain`."""
    for i, found in enumerate(rows.schema):
        if found.type == pa.uuid():
            # Its bytes are no text, which the cast knows.
            continue
        try:
            column = plain(rows.column(i))
        except InvalidInputError as error:
            raise InvalidInputError(f"column {found.name}: {error.message}", path=source) from error
        if column is not rows.column(i):
            rows = rows.set_column(i, found.name, column)
    return rows


def _cast_field(
    rows: pa.Table,
    source: str,
    rejects: _Rejects,
    spelling: LandingOptions | None,
    as_stored: bool,
    field: Field,
    is_key: bool,
    absent: NDArray[np.bool_] | None,
) -> pa.Array:
    present = field.name in rows.column_names
    try:
        found = rows.column(field.name) if present else pa.nulls(rows.num_rows)
        if as_stored or spelling is None:
            cast = cast_column(found, field.type, as_stored=as_stored)
        else:
            from lakeidx.landing.written.spelling import cast_spelled

            cast = cast_spelled(found, field.type, spelling)
    except InvalidInputError as error:
        raise InvalidInputError(f"column {field.name}: {error.message}", path=source) from error
    if cast.failed is not None:
        from lakeidx.landing.written.spelling import spelled_as

        kind = field.type.with_nullable(True)
        if field.type.root is Root.TIMESTAMP:
            instant = f"{kind} WITH LOCAL TIME ZONE takes any"
            zoned = cast.failed & _zoned(rows.column(field.name))
            rejects.mark(zoned, f"cast: column {field.name} is {kind}, which has no zone but Z ({instant})", field.name)
        rejects.mark(cast.failed, f"cast: column {field.name} is not {kind}{spelled_as(kind, spelling)}", field.name)
    values = cast.values
    if absent is not None and field.default_value is None:
        _reject_nulls(values, field, rejects, absent)
    elif as_stored:
        _reject_nulls(values, field, rejects)
    elif absent is None:
        values = _settled(values, field, rejects)
    if is_key and field.type.root in _FLOATS:
        nan = np.asarray(pc.fill_null(pc.is_nan(values), False))
        if nan.any():
            rejects.mark(nan, f"key: column {field.name} is NaN, which no key column may be")
    return values


def _zoned(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Find texts that end in a time with a zone."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return np.zeros(len(values), dtype=bool)
    return np.asarray(pc.fill_null(pc.match_substring_regex(values, r":\d\d(\.\d+)?[+-]\d\d(:?\d\d)?\s*$"), False))


def _broken_lines(bad: Sequence[BadLine], source: str) -> pa.Table:
    if not bad:
        # Not `empty_table`: the first array that Arrow makes of Python's values imports pandas, where there is one.
        return pa.Table.from_batches([], REJECT_SCHEMA)
    return pa.table(
        {
            "source": pa.array([source] * len(bad), pa.string()),
            "line": pa.array([b.line for b in bad], pa.int64()),
            "reason": pa.array([f"format: {b.reason}" for b in bad], pa.string()),
            "row": pa.array([b.text[:_REJECT_SAMPLE_BYTES] for b in bad], pa.string()),
        },
        schema=REJECT_SCHEMA,
    )


def short_text(value: Any) -> str:
    """Return a value as reasons show it."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


def _as_text(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)[:_REJECT_SAMPLE_BYTES]
