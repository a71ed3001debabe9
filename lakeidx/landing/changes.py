"""Landing files of changes of a database: their formats, the port of their readers, and the choice among the source's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from lakeidx.errors import InvalidInputError
from lakeidx.plugins import CHANGE_FORMATS, plugin_names

if TYPE_CHECKING:
    from lakeidx.format.schema.schema_file import TableSchema
    from lakeidx.landing.text.shares import TextShare
    from lakeidx.landing.types import LandingOptions, Piece
    from lakeidx.storage.base import ObjectStore

#: The plug-in that reads rows whose operation is in a column; format ``dms`` is one of it, all others are messages.
OP_COLUMN, _DMS = "op_column", "dms"


def change_formats() -> tuple[str, ...]:
    """Return the formats of files that hold changes of a database."""
    return tuple(name for name in plugin_names(CHANGE_FORMATS) if name != OP_COLUMN)


def message_formats() -> tuple[str, ...]:
    """Return those of them that are messages: a JSON object a line, with the table that it is of and the row before the change."""
    return tuple(name for name in change_formats() if name != _DMS)


class ReadChanges(Protocol):
    """Reads a landing file of changes; what an entry point of the group ``lakeidx.change_formats`` names."""

    def __call__(
        self,
        store: ObjectStore,
        path: str,
        schema: TableSchema,
        options: LandingOptions,
        *,
        share: TextShare | None = None,
    ) -> Iterator[Piece]:
        """Read the pieces of a file, in file order.

        schema   of the table that they are for
        share    of a text file: what is read of it
        errors   NotFoundError, InvalidInputError, CorruptFileError, naming the file
        """
        ...


def refuse_tables(tables: Collection[str], source: Sequence[str], *, path: str | None = None) -> None:
    """Raise InvalidInputError for changes of several tables, where one is not chosen by a name of its own."""
    if not source and len(tables) > 1:
        raise InvalidInputError(
            f"the messages are of several tables of the source ({', '.join(sorted(tables))}): say of which this table is a copy "
            f"with landing.source (--source {min(tables)})",
            path=path,
        )
    for name in source:
        found = sorted(t for t in tables if is_of_source(t, [name]))
        if len(found) > 1:
            raise InvalidInputError(
                f"landing.source (--source) {name} is the name of several tables of the source: write one of {', '.join(found)}",
                path=path,
            )


def is_of_source(name: str, source: Iterable[str]) -> bool:
    """Return True when a table's whole name, or its end, is among the chosen ones."""
    return any(name == wanted or name.endswith(f".{wanted}") for wanted in source)


#: What messages of other tables are counted as among those that were skipped.
OTHER_TABLES = "messages of other tables"
