"""Columns of landing files under other names than the table's, and values that files do not have: constants, parts of their names.

Readers of the formats see the table's columns under the names in the file; what they read gets the table's names here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.landing.cast import cast_column
from lakeidx.landing.types import LandingOptions, Piece
from lakeidx.storage.base import innermost
from lakeidx.storage.files import name_of
from lakeidx.types import Field

V = TypeVar("V")
Read = Callable[[Sequence[Field], Collection[str]], Iterator[Piece]]


def read_with_names(
    read: Read, path: str, fields: Sequence[Field], options: LandingOptions, keys: Collection[str]
) -> Iterator[Piece]:
    """Read the pieces of a file under the table's names, with the columns that the file does not have.

    read     reads the file: fields and keys under the names in the file
    errors   InvalidInputError for names that the table does not have, values that are none of their columns, and a file whose name
             an expression does not fit
    """
    check_file_columns(fields, options, path=path)
    given = {**_constants(fields, options), **_from_name(path, options)}
    mine = {name: table for name, table in options.renamed.items() if table is not None}
    theirs = {table: name for name, table in mine.items()}
    for piece in read(names_in_file(fields, options), [theirs.get(k, k) for k in keys]):
        rows = piece.rows.rename_columns([mine.get(n, n) for n in piece.rows.column_names])
        if not piece.extra:
            for name, value in given.items():
                rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        yield replace(piece, rows=rows, extra=_renamed(piece.extra, mine), absent=_renamed(piece.absent, mine))


def names_in_file(fields: Sequence[Field], options: LandingOptions) -> list[Field]:
    """Return the table's columns that a file has, under the names there."""
    theirs = {mine: name for name, mine in options.renamed.items()}
    return [
        replace(f, name=theirs.get(f.name, f.name) or f.name)
        for f in fields
        if f.name not in options.constants
        and f.name not in options.from_name
        # A column of this name that is left out, or is another one of the table.
        and (f.name in theirs or f.name not in options.renamed)
    ]


def _renamed(values: Mapping[str, V], mine: Mapping[str, str]) -> dict[str, V]:
    """Rename columns, and what is inside of them, ``address.city``."""
    out = {}
    for name, value in values.items():
        first, dot, rest = name.partition(".")
        out[mine[name] if name in mine else mine.get(first, first) + dot + rest] = value
    return out


def check_file_columns(fields: Sequence[Field], options: LandingOptions, *, path: str | None = None) -> None:
    """Raise InvalidInputError for names that the table does not have, and columns of the table that none of a file is left for."""
    names = [f.name for f in fields]
    targets = {m for m in options.renamed.values() if m is not None}
    # A renamed column may be one that the file brings into the table.
    known = {*options.constants, *options.from_name, *(targets if options.merge_schema == "refuse" else ())}
    for name in sorted(known.difference(names)):
        where = "constants" if name in options.constants else "from_name" if name in options.from_name else "columns"
        raise InvalidInputError(
            f"{where}: there is no column {name!r}; {did_you_mean(name, names, listing='the table has')}", path=path
        )
    for name in names:
        if name in options.renamed and name not in {*targets, *options.constants, *options.from_name}:
            becomes = options.renamed[name]
            if becomes is None:
                continue
            raise InvalidInputError(
                f"columns: the file's {name!r} becomes {becomes!r}, so the table's column {name!r} has none: say which column of "
                "the file it is",
                path=path,
            )
    _constants(fields, options, path=path)


def _constants(fields: Sequence[Field], options: LandingOptions, *, path: str | None = None) -> dict[str, pa.Scalar]:
    """Return the constants as values of their columns."""
    types = {f.name: f.type for f in fields}
    out = {}
    for name, value in options.constants.items():
        text = str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
        cast = cast_column(pa.array([text], pa.string()), types[name])
        if cast.failed is not None and cast.failed.any():
            raise InvalidInputError(f"constants: {value!r} of column {name!r} is not {types[name]}", path=path)
        out[name] = cast.values[0]
    return out


def _from_name(path: str, options: LandingOptions) -> dict[str, pa.Scalar]:
    """Return what expressions find in a file's name, as texts."""
    whole = innermost(path)
    out = {}
    for name, pattern in options.from_name.items():
        place = whole if "/" in pattern else name_of(whole)
        found = re.search(pattern, place)
        if found is None:
            raise InvalidInputError(
                f"from_name of {name!r}: {pattern!r} does not fit the file's {'path' if '/' in pattern else 'name'} {place!r}",
                path=path,
            )
        out[name] = pa.scalar("-".join(g for g in found.groups() if g is not None), pa.string())
    return out
