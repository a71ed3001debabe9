"""The table for readers of changes: its columns, its keys, and the columns for the source's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.landing.cdc.envelopes import Path
from lakeidx.landing.missing_columns import COMPLETING, KEEPS_OLD_VALUES
from lakeidx.landing.types import MISSING_DEFAULT, LandingOptions
from lakeidx.types import Field, Root


@dataclass(frozen=True, slots=True)
class ChangeTarget:
    """Table as a reader of changes sees it.

    fields         columns that messages bring
    keys           columns of the primary key
    order          columns that get the source's order -> where messages have it
    before_images  rows before an update are wanted, too: the table keeps its input as changelog, or takes values back
    ignore_extra   columns that the table does not have are left out
    merge_schema   refuse, add or widen: what is reported of columns that the table does not have, or has narrower
    check_before   what messages say of the row before a change is to be checked
    missing        what it means that a message does not have a column: see `lakeidx.landing.missing_columns`
    keeps_old      null keeps the value that the table has
    tells_absent   columns that a message does not have are told from those that are null
    """

    fields: tuple[Field, ...]
    keys: tuple[str, ...]
    order: Mapping[str, Path]
    before_images: bool = False
    ignore_extra: bool = False
    merge_schema: str = "refuse"
    check_before: bool = False
    missing: str = MISSING_DEFAULT
    keeps_old: bool = False
    tells_absent: bool = True

    @property
    def completes(self) -> bool:
        """Whether a value that the source has not sent comes from elsewhere."""
        return self.keeps_old or self.missing in COMPLETING

    @property
    def has_nested(self) -> bool:
        """Whether messages bring columns that are only read line by line."""
        return any(f.type.is_nested or f.type.root is Root.VARIANT for f in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that messages bring."""
        return tuple(f.name for f in self.fields)


def make_target(schema: TableSchema, options: LandingOptions, path: str) -> ChangeTarget:
    """Make the target of a landing file.

    errors   InvalidInputError when an order is asked for and the table's sequence fields are not as many, or it has no key
    """
    if not schema.primary_keys:
        raise InvalidInputError("changes need a table with a primary key: an append table has no keys", path=path)
    table_options = schema.table_options
    wanted = [tuple(text.split(".")) for text in options.order]
    sequence = tuple(table_options.sequence_field)
    if wanted and len(sequence) != len(wanted):
        raise InvalidInputError(
            f"the order of changes ({', '.join(options.order)}) goes into the columns of option 'sequence.field', which has "
            f"{len(sequence)}: name as many",
            path=path,
        )
    order = dict(zip(sequence, wanted, strict=False)) if wanted else {}
    keeps_input = table_options.changelog_producer == "input" or table_options.merge_engine == "aggregation"
    return ChangeTarget(
        tuple(f for f in schema.fields if f.name not in order),
        tuple(schema.primary_keys),
        order,
        before_images=keeps_input,
        ignore_extra=options.ignore_extra,
        merge_schema=options.merge_schema,
        check_before=options.check_before > 0,
        missing=options.missing,
        keeps_old=table_options.merge_engine in KEEPS_OLD_VALUES,
        tells_absent=options.missing != "null" and table_options.merge_engine != "partial-update",
    )
