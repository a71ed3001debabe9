"""One key's records merged and told as changes, record by record: the plain twin of `lakeidx.data.merge.changelog`.

source   org.apache.paimon.mergetree.compact.{LookupChangelogMergeFunctionWrapper, LookupMergeFunction,
         FirstRowMergeFunctionWrapper, FullChangelogMergeFunctionWrapper}, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeidx.data.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, is_retract
from lakeidx.format.schema.schema_file import TableSchema
from tests.kit.reference_engines import Record, make_reference_engine, merge_reduced


@dataclass(frozen=True, slots=True)
class Stored:
    """A record and the level of the file it is in."""

    level: int
    record: Record


def merge_by_lookup(
    schema: TableSchema, records: Sequence[Stored], above: Sequence[Stored]
) -> tuple[Record | None, list[Record]]:
    """Merge one key in a lookup compaction.

    records   of the files that are compacted, in merge order
    above     of the levels above the output; sequence numbers alone order them
    returns   what is written (None: nothing), and the changes
    """
    engine = make_reference_engine(schema)
    has_news = any(s.level == 0 for s in records)
    higher = min((s for s in records if s.level > 0), key=lambda s: s.level, default=None)
    if schema.table_options.merge_engine == "first-row":
        first = engine.merge([s.record for s in records])
        if higher is not None:
            return first, []
        if above or first is None:
            return None, []
        return first, [first]
    if higher is None and has_news:
        higher = min(above, key=lambda s: s.level, default=None)
        if higher is not None:
            records = sorted([*records, higher], key=lambda s: s.record.sequence)
    merged = engine.merge([s.record for s in records if s.level == 0 or s is higher])
    if not has_news:
        return merged, []
    return merged, _changes_of(schema, None if higher is None else higher.record, merged)


def merge_in_full_compaction(
    schema: TableSchema, records: Sequence[Stored], top_level: int
) -> tuple[Record | None, list[Record]]:
    """Merge one key in a full compaction of a table whose producer is ``full-compaction``; arguments as `merge_by_lookup`."""
    merged = merge_reduced(make_reference_engine(schema), [s.record for s in records])
    top = next((s.record for s in records if s.level == top_level), None)
    if top is not None and len(records) == 1:
        return merged, []
    return merged, _changes_of(schema, top, merged)


def _changes_of(schema: TableSchema, before: Record | None, after: Record | None) -> list[Record]:
    """Tell what became of a key."""
    options = schema.table_options
    was = before is not None and not is_retract(before.kind)
    adds = after is not None and not is_retract(after.kind)
    if not was:
        return [replace(after, kind=INSERT)] if adds and after is not None else []
    assert before is not None
    if not adds:
        return [replace(before, kind=DELETE)]
    assert after is not None
    ignored = options.changelog_producer_row_deduplicate_ignore_fields
    pairs = zip(schema.fields, before.values, after.values, strict=True)
    # A NaN differs from itself, as for Java.
    same = all(old == new for f, old, new in pairs if f.name not in ignored)
    if options.changelog_producer_row_deduplicate and same:
        return []
    return [replace(before, kind=UPDATE_BEFORE), replace(after, kind=UPDATE_AFTER)]
