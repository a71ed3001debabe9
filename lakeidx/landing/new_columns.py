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

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.widening import is_widening
from lakeidx.landing.row_kinds import KIND_COLUMN
from lakeidx.types import BYTES_ROOTS, INT_ROOTS, STRING_ROOTS, DataType, Field, Root, from_arrow

_POLICIES = ("refuse", "add", "widen")


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
    found: pa.Schema, fields: Sequence[Field], policy: str, *, keys: Collection[str] = (), ignore_extra: bool = False
) -> dict[str, DataType]:
    """Return the columns of Arrow data that the table has to get, or to widen; a column of type null says nothing.

    keys           columns that never change
    ignore_extra   columns that the table does not have are left out
    errors         InvalidInputError for a column of a type that no table holds
    """
    if policy == "refuse":
        return {}
    unknown = {f.name for f in found} - {f.name for f in fields}
    skipped = {*keys, KIND_COLUMN, *(unknown if ignore_extra else ())}
    return _compared([f for f in found if f.name not in skipped], fields, policy, "")


def says_nothing(found: pa.Schema, fields: Sequence[Field]) -> list[str]:
    """Return the columns of type null that the table does not have: whoever wrote them had no value, and so no type."""
    mine = {KIND_COLUMN, *(f.name for f in fields)}
    return [f.name for f in found if pa.types.is_null(f.type) and f.name not in mine]


def _compared(found: Iterable[pa.Field], fields: Sequence[Field], policy: str, path: str) -> dict[str, DataType]:
    mine = {f.name: f.type for f in fields}
    out = {}
    for theirs in found:
        name, have = path + theirs.name, mine.get(theirs.name)
        if pa.types.is_null(theirs.type):
            continue
        if have is None:
            out[name] = from_arrow(theirs.type, where=f"column {name!r}")
        elif have.root is Root.ROW and pa.types.is_struct(theirs.type):
            out |= _compared(theirs.type, have.fields, policy, f"{name}.")
        elif policy == "widen" and not have.is_nested and not pa.types.is_nested(theirs.type):
            wider = _declared(theirs.type)
            if wider is not None and grows(have, wider) and (have.root not in INT_ROOTS or wider.root in INT_ROOTS):
                out[name] = wider
    return out


def _declared(t: pa.DataType) -> DataType | None:
    try:
        return from_arrow(t)
    except InvalidInputError:
        # A type that no table has: whether its values can be cast is found where they are.
        return None


def grows(have: DataType, found: DataType) -> bool:
    """Return True when a column has to be widened to hold all values of a declared type; sources declare no length of texts."""
    if have.root in BYTES_ROOTS or have.root in STRING_ROOTS or have.with_nullable(True) == found.with_nullable(True):
        return False
    return is_widening(have, found)


def join_columns(known: dict[str, DataType], more: Mapping[str, DataType], *, path: str | None) -> None:
    """Add what another landing file of a batch has: of two types of a column the wider.

    errors   InvalidInputError naming the column when neither holds the values of the other
    """
    for name, t in more.items():
        old = known.get(name, t)
        if not is_widening(old, t) and not is_widening(t, old):
            raise InvalidInputError(
                f"column {name!r} is {t} in this landing file and {old} in another one of the batch: add it to the table with "
                "the type it is to have (lakeidx table alter --add), or cast one of the files",
                path=path,
            )
        known[name] = t if is_widening(old, t) else old
