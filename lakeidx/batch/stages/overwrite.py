"""Overwrites of partitions: which ones a batch replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeidx.batch.artifacts import (
    BucketAssignmentReport,
)
from lakeidx.batch.context import BatchContext
from lakeidx.errors import InvalidInputError
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict

if TYPE_CHECKING:
    from lakeidx.predicate import Predicate


def bind_partitions(metadata: TableMetadata, where: str | Predicate) -> Predicate:
    """Bind a condition over partition columns.

    errors   InvalidInputError for a condition over other columns than the partition's
    """
    from lakeidx.predicate import columns
    from lakeidx.table.scan.table_scan import bind_where

    schema = metadata.latest_schema()
    predicate = bind_where(where, schema)
    others = sorted(set(columns(predicate)) - set(schema.partition_keys))
    if others:
        raise InvalidInputError(
            f"where: {others[0]} is not a partition column; the table has {', '.join(schema.partition_keys) or 'none'}",
            path=metadata.paths.root,
        )
    return predicate


def replaced_partitions(context: BatchContext, assign: BucketAssignmentReport) -> frozenset[bytes]:
    """Return the partitions that an overwrite of partitions replaces, as the newest snapshot has them.

    errors   InvalidInputError for a row in a partition that is not to be replaced
    """
    from lakeidx.predicate import format_predicate, is_row
    from lakeidx.table.newest import load_newest
    from lakeidx.table.scan.plan import partition_matcher

    touched = frozenset(bytes.fromhex(t.partition) for t in assign.targets)
    if context.replaces is None:
        return touched
    schema = context.metadata.latest_schema()
    wanted = partition_matcher(context.replaces, schema)
    outside = next((p for p in sorted(touched) if not wanted(p)), None)
    if outside is not None:
        row = is_row(decode_partition_dict(outside, schema))
        wished, given = (format_predicate(p, schema.fields, shorten=True) for p in (context.replaces, row))
        raise InvalidInputError(
            f"the overwrite replaces the partitions where {wished}, and has rows for {given}", path=context.paths.root
        )
    view = load_newest(context.metadata)
    return touched | {p for p in view.entries.partition_counts() if wanted(p)}
