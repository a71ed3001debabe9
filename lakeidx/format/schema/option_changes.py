"""Changes of a table's options: which ones cannot change once the table has a snapshot, and setting and resetting the others.

source   org.apache.paimon.schema.SchemaManager.checkAlterTableOption, checkResetTableOption, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.options.names import check_given_options
from lakeidx.options.table_options import OPTION_BY_KEY

SchemaChange = Callable[[TableSchema], TableSchema]

IMMUTABLE_OPTIONS = frozenset(
    {
        "type",
        "bucket-key",
        "bucket-function.type",
        "data-file.path-directory",
        "merge-engine",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "rowkind.field",
        "primary-key",
        "primary-key.nullable",
        "partition",
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "blob-field",
        "blob-descriptor-field",
        "blob-view-field",
        "pk-clustering-override",
    }
)
"""Options that cannot change once the table has a snapshot."""

#: Java lets them change, and finds no file any more of a partition whose name they change.
_PARTITION_NAMES = ("partition.default-name", "partition.legacy-name")
_NEVER_TURNED_OFF = ("ignore-delete", "ignore-update-before")


def set_options(options: Mapping[str, str], *, has_snapshot: bool = True) -> SchemaChange:
    """Set options; those in `IMMUTABLE_OPTIONS` to another value only before the table's first snapshot.

    An unknown name is refused, and a text that Java does not read.
    """

    def change(schema: TableSchema) -> TableSchema:
        check_given_options(options)
        merged = {**schema.options, **options}
        for key, value in options.items():
            if schema.options.get(key) != value:
                _refuse_option(schema, key, value, has_snapshot)
        return replace(schema, options=merged)

    return change


def remove_options(keys: Sequence[str], *, has_snapshot: bool = True) -> SchemaChange:
    """Remove options, so that their defaults apply; keys that are not set are ignored."""

    def change(schema: TableSchema) -> TableSchema:
        for key in keys:
            if key in schema.options:
                _refuse_option(schema, key, None, has_snapshot)
        return replace(schema, options={k: v for k, v in schema.options.items() if k not in keys})

    return change


def _refuse_option(schema: TableSchema, key: str, value: str | None, has_snapshot: bool) -> None:
    if key in ("primary-key", "partition"):
        raise InvalidInputError(f"option '{key}' can only be set when the table is created")
    if not has_snapshot:
        return
    options = schema.table_options
    option = OPTION_BY_KEY.get(key)
    new = None if option is None else option.default if value is None else option.value_of(value)
    if key in IMMUTABLE_OPTIONS and (option is None or new != getattr(options, option.attribute)):
        raise InvalidInputError(f"option '{key}' cannot change once the table has a snapshot")
    if (
        key in _PARTITION_NAMES
        and schema.partition_keys
        and option is not None
        and new != getattr(options, option.attribute)
    ):
        raise InvalidInputError(
            f"option '{key}' cannot change once the table has a snapshot: the directories of its partitions are named by it, "
            "and their data files would be looked for elsewhere"
        )
    if key == "bucket" and new != options.bucket and (new == -1 or options.bucket == -1):
        raise InvalidInputError("option 'bucket' cannot change to or from -1")
    if key == "bucket" and new != options.bucket and -2 in (new, options.bucket):
        raise InvalidInputError("option 'bucket' cannot change to or from -2")
    if (
        key == "deletion-vectors.enabled"
        and new != options.deletion_vectors_enabled
        and not options.deletion_vectors_modifiable
    ):
        raise InvalidInputError(
            "option 'deletion-vectors.enabled' can change only with 'deletion-vectors.modifiable' = true"
        )
    if key in _NEVER_TURNED_OFF and option is not None and getattr(options, option.attribute) is True and new is False:
        raise InvalidInputError(f"option '{key}' cannot go from true to false")
