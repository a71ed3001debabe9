"""Columns that landing files or given rows have and the table has not, or has narrower: whether they are wanted, and what they are.

========  =====================================================================
policy    columns
========  =====================================================================
refuse    that the table does not have are an error
add       the same are added to the table
widen     the same; those the table has narrower than they are declared, widened
========  =====================================================================

Keys and partition columns stay as they are, and so does the length of texts, which no source declares. Integers grow to larger
integers only: a fraction in one file must not turn a column of the table into fractions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, DataType, Field, Root, from_arrow, is_list
from lakeidx.types.widening import is_widening

#: Names that are none: blank, and what Arrow calls the index of a pandas frame that has no name.
_UNNAMED = re.compile(r"\s*|__index_level_\d+__")
_POLICIES = ("refuse", "add", "widen")
#: What a path has in place of what a column holds.
_WORDS = {Root.ARRAY: "element", Root.MAP: "value"}


class NewColumnsError(InvalidInputError):
    """Rows have columns that the table does not have, or has narrower; `columns` are their types, fields of a ROW by path."""

    def __init__(self, columns: Mapping[str, DataType], *, path: str | None = None) -> None:
        shown = ", ".join(f"{name} {t}" for name, t in columns.items())
        super().__init__(f"the table has to get these columns, or wider types, first: {shown}", path=path)
        self.columns = dict(columns)

    def __reduce__(self) -> tuple[object, ...]:
        return NewColumnsError, (self.columns,)


def merge_policy(value: bool | str) -> str:
    """Return the policy that an option means: its name, or True for all that is possible (widen) and False for refuse.

    errors   InvalidInputError for another word
    """
    policy = {"true": "widen", "false": "refuse"}.get(str(value).lower(), str(value))
    if policy not in _POLICIES:
        raise InvalidInputError(f"merge_schema is one of {', '.join(_POLICIES)}, not {value!r}")
    return policy


def new_columns(
    found: pa.Schema,
    fields: Sequence[Field],
    policy: str,
    *,
    keys: Collection[str] = (),
    ignore_extra: bool = False,
    path: str | None = None,
) -> dict[str, DataType]:
    """Return the columns of Arrow data that the table has to add or widen; a column of type null has no type to add.

    keys           columns that never change
    ignore_extra   columns, and fields inside of them, that the table does not have are left out
    path           the landing file
    errors         InvalidInputError for a column of a type that no table holds; with policy refuse for fields inside a column
                   that the table does not have (`lakeidx.landing.types.check_columns` looks at whole columns)
    """
    mine = {f.name for f in fields}
    if policy != "refuse" and not ignore_extra:
        refuse_unnamed(found.names, mine, path=path)
    unknown = set(found.names) - mine
    skipped = {*keys, KIND_COLUMN, *(unknown if ignore_extra or policy == "refuse" else ())}
    out = _compared([f for f in found if f.name not in skipped], fields, policy, "")
    if ignore_extra:
        # What is added is named after what the table does not have; what is widened is there.
        return {n: t for n, t in out.items() if type_at(fields, n) is not None}
    if policy == "refuse" and out:
        raise InvalidInputError(
            f"the rows have fields the table does not have: {', '.join(out)}; add them to the table, let them be added "
            "(merge_schema, --merge-schema add) or be ignored (--ignore-extra-columns)",
            path=path,
        )
    return out


def refuse_unnamed(names: Sequence[str], known: Collection[str], *, path: str | None) -> None:
    """Refuse columns without a name, which no table can have (Java Paimon would not open it).

    known    columns that the table has
    errors   InvalidInputError naming the first by its place, counted from 1, and the ways out
    """
    for place, name in enumerate(names, 1):
        if name not in known and _UNNAMED.fullmatch(name):
            raise InvalidInputError(
                f"column {place} has no name ({name!r}): give it one, or let columns that the table does not have be ignored "
                "(--ignore-extra-columns); the index of a pandas frame is left out by index=False of to_csv and to_parquet, and by "
                "reset_index(drop=True)",
                path=path,
            )


def type_at(fields: Sequence[Field], path: str) -> DataType | None:
    """Return the type of a column, or of what is inside of one; None when there is none."""
    mine = {f.name: f.type for f in fields}
    if path in mine:
        return mine[path]
    name, dot, rest = path.partition(".")
    return _type_inside(mine[name], rest) if dot and name in mine else None


def _type_inside(t: DataType, path: str) -> DataType | None:
    if t.root is Root.ROW:
        return type_at(t.fields, path)
    word, dot, rest = path.partition(".")
    if t.element is None or word != _WORDS.get(t.root):
        return None
    return _type_inside(t.element, rest) if dot else t.element


def says_nothing(found: pa.Schema, fields: Sequence[Field]) -> list[str]:
    """Return the columns of type null that the table does not have: they have no values, and so no type."""
    mine = {KIND_COLUMN, *(f.name for f in fields)}
    return [f.name for f in found if pa.types.is_null(f.type) and f.name not in mine]


def _compared(found: Iterable[pa.Field], fields: Sequence[Field], policy: str, path: str) -> dict[str, DataType]:
    mine = {f.name: f.type for f in fields}
    out: dict[str, DataType] = {}
    for theirs in found:
        name, have = path + theirs.name, mine.get(theirs.name)
        if pa.types.is_null(theirs.type):
            continue
        if have is None:
            out[name] = from_arrow(theirs.type, where=f"column {name!r}")
        else:
            out |= _grown(theirs.type, have, policy, name)
    return out


def _grown(theirs: pa.DataType, have: DataType, policy: str, name: str) -> dict[str, DataType]:
    """Compare the types of a column that is on both sides."""
    if have.root is Root.ROW and pa.types.is_struct(theirs):
        return _compared(theirs, have.fields, policy, f"{name}.")
    if have.root is Root.ARRAY and have.element is not None and is_list(theirs):
        return _grown(theirs.value_type, have.element, policy, f"{name}.element")
    if have.root is Root.MAP and have.element is not None and pa.types.is_map(theirs):
        return _grown(theirs.item_type, have.element, policy, f"{name}.value")
    if policy != "widen" or have.is_nested or pa.types.is_nested(theirs):
        return {}
    wider = _declared(theirs)
    if wider is None or not grows(have, wider) or (have.root in INT_ROOTS and wider.root not in INT_ROOTS):
        return {}
    return {name: wider}


def _declared(t: pa.DataType) -> DataType | None:
    try:
        return from_arrow(t)
    except InvalidInputError:
        # A type that no table has: whether its values can be cast is found where they are.
        return None


def grows(have: DataType, found: DataType) -> bool:
    """Return True when a column has to be widened to fit all values of a declared type; sources declare no length of texts."""
    if have.root in BYTES_ROOTS or have.root in STRING_ROOTS or have.with_nullable(True) == found.with_nullable(True):
        return False
    return is_widening(have, found)
