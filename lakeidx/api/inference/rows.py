"""Tables of rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from lakeidx.api.arrow_input import Rows, as_table
from lakeidx.errors import InvalidInputError
from lakeidx.landing.types import LandingOptions
from lakeidx.options.arguments import PathLike

if TYPE_CHECKING:
    from lakeidx.api.table import Table

T = TypeVar("T", bound="Table")


def create_from_rows(
    cls: type[T], uri: PathLike, rows: Rows, primary_key: Sequence[str], partition_by: Sequence[str]
) -> T:
    """Create a table of rows, with their types, and upsert them; there is no table when that fails.

    primary_key    none: the fewest columns that no two rows share
    partition_by   columns that partition the table
    """
    from lakeidx.api.inference.column_types import infer_types
    from lakeidx.api.inference.infer import find_key
    from lakeidx.api.warehouse import drop_table

    given = as_table(rows)
    types = infer_types(given, LandingOptions(), written=False).types
    key = list(primary_key) or find_key([given], given.schema, partition_by)
    unknown = [n for n in (*key, *partition_by) if n not in types]
    if unknown:
        raise InvalidInputError(f"there is no column {unknown[0]}; the rows have {', '.join(types)}")
    spec = {
        "fields": [{"name": n, "type": t} for n, t in types.items()],
        "primaryKeys": list(dict.fromkeys([*partition_by, *key])),
        "partitionKeys": list(partition_by),
        "options": {"bucket": "-1"},
    }
    made = cls.create(uri, spec)
    try:
        made.upsert(given)
    except BaseException:
        drop_table(made)
        raise
    return made
