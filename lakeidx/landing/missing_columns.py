"""Rows without some of the table's columns: the caller has to state what that means, because null is a value and replaces the
old one.

==================  ======================================================================
merge engine        a column that is not there
==================  ======================================================================
partial-update      keeps its old value
aggregation         keeps its old value: aggregate functions skip nulls
all others          refused, unless ``missing`` is ``null``: then it is null in these rows
==================  ======================================================================

Deletes need no more than the key. Columns with a default have one.
"""

from __future__ import annotations

from collections.abc import Collection

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema

MISSING_DEFAULT = "refuse"
_MISSING_MODES = (MISSING_DEFAULT, "null")
_KEEPS_OLD_VALUES = ("partial-update", "aggregation")


def check_missing_mode(missing: str) -> None:
    """Raise InvalidInputError for a mode that does not exist."""
    if missing not in _MISSING_MODES:
        raise InvalidInputError(f"missing must be one of {', '.join(_MISSING_MODES)}, not {missing!r}")


def refuse_missing(
    schema: TableSchema, present: Collection[str], missing: str, *, what: str, path: str | None = None
) -> None:
    """Refuse rows without some of the table's columns, unless their meaning is stated or known.

    present   names of the columns that are there
    what      of what the message speaks: ``the given rows``
    errors    InvalidInputError naming the columns and the ways out
    """
    check_missing_mode(missing)
    if missing == "null" or not schema.primary_keys or schema.table_options.merge_engine in _KEEPS_OLD_VALUES:
        return
    gone = [f.name for f in schema.fields if f.name not in present and f.default_value is None]
    if gone:
        raise InvalidInputError(
            f"{what} lack the columns {', '.join(gone)}, and null would overwrite the values of known keys: give all columns, "
            "set missing = null to write nulls (--missing null), or keep old values with option 'merge-engine' = "
            "'partial-update'",
            path=path,
        )
