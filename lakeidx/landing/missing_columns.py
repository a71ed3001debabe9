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

from collections.abc import Collection

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema

MISSING_DEFAULT = "refuse"
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
