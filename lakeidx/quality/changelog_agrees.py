"""The rule that the changelog is complete and right: applied to the state before, it gives the state after.

==================  ================================================================  =========================================
producer            states that its changelog leads from one to the other             not compared
==================  ================================================================  =========================================
``input``           what readers see; the greatest row by ``sequence.field`` counts   engines that merge rows: the input is no
                                                                                      changelog of theirs
``lookup``          rows above level 0: their changelog comes with the compaction
``full-compaction`` rows of the top level
==================  ================================================================  =========================================

Of tables with ``record-level.expire-time`` only rows that are not too old now are compared: the others may have gone in a
compaction, of which no changelog says anything.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeidx.codec.order.key import argsort_keys
from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.compaction.record_expiry import record_expiry
from lakeidx.data.json_values import json_rows
from lakeidx.data.merge.order import sequence_columns
from lakeidx.data.row_kinds import SHORT_NAMES
from lakeidx.errors import NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.format.snapshot import CommitKind
from lakeidx.key_index.bucket.bucket_index import has_rings
from lakeidx.key_index.options import IndexOptions
from lakeidx.quality.result import BucketId, RuleResult, Severity, bounded
from lakeidx.quality.verify import has_changelog
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.changes import ChangeScan
from lakeidx.table.scan.incremental import IncrementalMode, plan_incremental
from lakeidx.table.scan.layout import ROW_KIND
from lakeidx.table.scan.plan import ScanPlan
from lakeidx.table.scan.states import State
from lakeidx.table.stream.follow import least_level
from lakeidx.types import DataType, Root

_NEW = ["+I", "+U"]
_NUMBER = DataType(Root.BIGINT, nullable=False)
#: A bucket, or a whole partition.
_Place: TypeAlias = tuple[bytes, int | None]
_DESCRIPTION = "The changelog, applied to the rows before, gives the rows after."


@dataclass(slots=True)
class _Found:
    """Findings over the buckets."""

    buckets: int = 0
    changes: int = 0
    missing: int = 0
    too_many: int = 0
    unknown: int = 0
    offenders: list[dict[str, Any]] = field(default_factory=list)


def why_not_judged(schema: TableSchema) -> str:
    """Return why a table's changelog cannot lead from one of its states to the next; "" when it does."""
    options = schema.table_options
    if options.changelog_producer == "input" and options.merge_engine != "deduplicate":
        return (
            f"Not judged: changelog-producer=input keeps what came in, and merge-engine={options.merge_engine} makes other rows "
            "of it; a changelog of the table's rows takes changelog-producer=lookup or full-compaction."
        )
    return ""


def check_changelog_agrees(
    table: TableHandle,
    *,
    after: int | None = None,
    upto: int | None = None,
    buckets: Collection[BucketId] | None = None,
    max_rows: int = 1_000_000,
) -> RuleResult:
    """Check the changelog of the snapshots in (after, upto] against the states at both ends, for a sample of buckets.

    after      None = the oldest snapshot there is, or the empty table before the first; a later one when an overwrite came in
               between, of which changelogs say nothing
    upto       None = the newest snapshot
    buckets    only these; None = all
    max_rows   read buckets (with rings: partitions) of so many rows together at most (before, changes, after), but one at least
    returns    passed without a bucket when the states have expired, nothing changed, or it cannot be judged (`why_not_judged`)
    """
    found = _Found()
    ends = _range(table, after, upto)
    reason = why_not_judged(table.schema)
    if ends is not None and has_changelog(table.schema) and not reason:
        try:
            _check(table, *ends, buckets, max_rows, np.random.default_rng(0), found)
        except NotFoundError as error:
            # Either a file says so, or the snapshot itself was gone.
            if error.snapshot_id is None and _range(table, *ends) is not None:
                raise
            ends, found = None, _Found()
    return RuleResult(
        name="changelog_agrees",
        passed=found.missing + found.too_many + found.unknown == 0,
        severity=Severity.ERROR,
        metrics={
            "buckets": found.buckets,
            "changelog_rows": found.changes,
            "states_expired": int(ends is None),
            "not_judged": int(bool(reason)),
            "rows_missing": found.missing,
            "rows_too_many": found.too_many,
            "rows_unknown_before": found.unknown,
        },
        sample=bounded({k: str(v) for k, v in row.items()} for row in found.offenders),
        description=reason or _DESCRIPTION,
    )


def _range(table: TableHandle, after: int | None, upto: int | None) -> tuple[int, int] | None:
    """Return the range to check, None when it has expired."""
    metadata = table.metadata
    last = metadata.latest_snapshot_id() if upto is None else upto
    if last is None:
        return None
    first = after
    if first is None:
        earliest = metadata.earliest_snapshot_id() or last
        first = 0 if earliest == 1 else earliest
    try:
        overwrites = (
            n for n in range(first + 1, last + 1) if metadata.load_snapshot(n).commit_kind is CommitKind.OVERWRITE
        )
        first = max((first, *overwrites))
        for number in (first, last):
            State(metadata, number).load_snapshot()
    except NotFoundError:
        return None
    return first, last


def _check(
    table: TableHandle,
    after: int,
    upto: int,
    buckets: Collection[BucketId] | None,
    max_rows: int,
    rng: np.random.Generator,
    found: _Found,
) -> None:
    metadata, schema = table.metadata, table.schema
    least = least_level(schema, IncrementalMode.AUTO)
    before, now = (State(metadata, n).plan(schema, least_level=least) for n in (after, upto))
    changes = plan_incremental(metadata, schema, after, upto, mode=IncrementalMode.CHANGELOG)
    # A resize of rings moves rows between the buckets of a partition.
    whole = has_rings(IndexOptions(schema.options))
    sizes: dict[_Place, int] = {}
    for plan in (before, changes, now):
        for b in plan.buckets:
            place = (b.partition, None if whole else b.bucket)
            sizes[place] = sizes.get(place, 0) + sum(f.row_count for f in b.files())
    wanted = None if buckets is None else {(p, None if whole else b) for p, b in buckets}
    places = [p for p in sizes if wanted is None or p in wanted]
    total = 0
    for i in rng.permutation(len(places)).tolist():
        total += sizes[places[i]]
        if found.buckets and total > max_rows:
            break
        found.buckets += 1
        # Of a table with an order, a row that comes late may be older than a delete that is still stored.
        by_order = schema.table_options.changelog_producer == "input" and bool(schema.table_options.sequence_field)
        kinds = (by_order, True, False)
        plans = zip((before, changes, now), kinds, strict=True)
        old, told, new = (_read(metadata, schema, p, places[i], kinds=k) for p, k in plans)
        _compare(schema, old, told, new, found)


def _read(metadata: TableMetadata, schema: TableSchema, plan: ScanPlan, place: _Place, *, kinds: bool) -> pa.Table:
    partition, number = place
    chosen = tuple(b for b in plan.buckets if b.partition == partition and number in (None, b.bucket))
    mine = replace(plan, buckets=chosen)
    return ChangeScan(metadata, schema, tuple(schema.field_names), (mine,), as_new=not kinds).to_arrow()


def _compare(schema: TableSchema, before: pa.Table, changes: pa.Table, after: pa.Table, found: _Found) -> None:
    """Apply changes to rows, and compare what comes out: a row is what its compared columns encode to."""
    options = schema.table_options
    ignored = options.changelog_producer_row_deduplicate_ignore_fields
    left_out = set(ignored) if options.changelog_producer_row_deduplicate else set()
    compared = [n for n in schema.field_names if n not in left_out]
    if ROW_KIND not in before.column_names:
        before = before.append_column(ROW_KIND, pa.repeat(pa.scalar(_NEW[0]), before.num_rows))
    told = pa.concat_tables([before, changes.cast(before.schema)])
    keys = pa.concat_arrays([_encoded(t, schema, list(schema.primary_keys)) for t in (told, after)])
    codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64)
    adds = np.asarray(pc.is_in(told.column(ROW_KIND), value_set=pa.array(_NEW)))
    last = _last_of_keys(schema, told, codes[: len(adds)])
    # A delete that outranks a row after it may have gone in a compaction before that row came: either is right then.
    newest_add = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(newest_add, codes[: len(adds)][adds], np.flatnonzero(adds))
    open_keys = np.zeros(len(newest_add), np.bool_)
    open_keys[codes[last]] = ~adds[last] & (newest_add[codes[last]] > last)
    kept = told.take(pa.array(np.sort(last[adds[last] & ~open_keys[codes[last]]])))
    rows = after.filter(pa.array(~open_keys[codes[len(adds) :]]))
    expiry = record_expiry(schema, round(time.time() * 1000))
    if expiry is not None:
        kept, rows = expiry.drop_expired(kept), expiry.drop_expired(rows)
    expected, there, every = (_encoded(t, schema, compared) for t in (kept, rows, told))
    missing, extra = _not_in(expected, there), _not_in(there, expected)
    taken_back = every.filter(pa.array(~adds))
    unknown = (
        0 if options.changelog_producer == "input" else int(_not_in(taken_back, every.filter(pa.array(adds))).sum())
    )
    found.changes += changes.num_rows
    found.missing += int(missing.sum())
    found.too_many += int(extra.sum())
    found.unknown += unknown
    offenders = rows.select(list(schema.primary_keys)).filter(pa.array(extra))
    found.offenders += [{**row, "fault": "not by the changelog"} for row in json_rows(offenders.slice(0, 20))]
    if missing.any():
        found.offenders.append({"fault": f"{int(missing.sum())} rows of the changelog are not in the table"})


def _last_of_keys(schema: TableSchema, rows: pa.Table, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return of each key the row that counts: the last, or where the input is the changelog, the greatest by the table's order."""
    numbers = pa.array(np.arange(rows.num_rows))
    columns, types = [pa.chunked_array([numbers])], [_NUMBER]
    if schema.table_options.changelog_producer == "input":
        kinds = pc.index_in(rows.column(ROW_KIND).combine_chunks(), pa.array(SHORT_NAMES)).cast(pa.int8())
        kv = rows.append_column(SEQUENCE_NUMBER, numbers).append_column(VALUE_KIND, kinds)
        columns, types = sequence_columns(kv, schema)
    order = argsort_keys([pa.array(codes), *columns], [_NUMBER, *types])
    return order[np.flatnonzero(np.diff(codes[order], append=-1))]


def _encoded(rows: pa.Table, schema: TableSchema, names: list[str]) -> pa.Array:
    found = encode_rows([rows.column(n) for n in names], list(schema.types_of(names))).to_arrow()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _not_in(rows: pa.Array, others: pa.Array) -> np.ndarray:
    return ~np.asarray(pc.is_in(rows, value_set=others))
