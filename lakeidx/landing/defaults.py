"""Default values of columns: what null becomes when a row is written.

source   org.apache.paimon.casting.DefaultValueRow, org.apache.paimon.utils.DefaultValueUtils, release 1.4.2
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError
from lakeidx.landing.cast import cast_column
from lakeidx.types import Field


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
