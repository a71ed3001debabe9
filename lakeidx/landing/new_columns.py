"""The error of landing files that have columns the table has to get before they can be ingested."""

from __future__ import annotations

from collections.abc import Mapping

from lakeidx.errors import InvalidInputError


class NewColumnsError(InvalidInputError):
    """Landing files have columns that the table does not have, or has narrower; `columns` are their types."""

    def __init__(self, columns: Mapping[str, str], *, path: str | None = None) -> None:
        shown = ", ".join(f"{name} {t}" for name, t in columns.items())
        super().__init__(f"the table has to get these columns, or wider types, first: {shown}", path=path)
        self.columns = dict(columns)

    def __reduce__(self) -> tuple[object, ...]:
        return NewColumnsError, (self.columns,)
