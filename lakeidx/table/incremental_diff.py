"""The rows that a later state of a table has and an earlier one has not: both are read merged and compared by key.

A row counts when its key is new or any of its values differs, even to null. Rows that are only in the earlier state give
nothing. States are compared bucket by bucket, or partition by partition where the number of buckets has changed in between;
a key that was deleted and came back into another bucket of a dynamic-bucket table therefore counts as new.

source   org.apache.paimon.table.source.snapshot.IncrementalDiffStartingScanner, org.apache.paimon.table.source.splitread.
         IncrementalDiffSplitRead, release 1.4.2
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.binary_row_vec import encode_rows
from lakeidx.errors import UnsupportedError
from lakeidx.format.schema import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.predicate import Predicate, filter_table, project
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan import TableScan
from lakeidx.table.scan_plan import BucketFiles, ScanPlan, plan_scan


@dataclass(frozen=True, slots=True)
class DiffUnit:
    """Buckets that are compared with each other: one of each state, or all of a partition."""

    before: tuple[BucketFiles, ...]
    after: tuple[BucketFiles, ...]

    @property
    def bytes(self) -> int:
        """Of all files that are read."""
        return sum(f.file_size for bucket in (*self.before, *self.after) for f in bucket.files())


@dataclass(frozen=True, slots=True)
class DiffPlan:
    """What to compare.

    plan        of the later state, without its files
    predicate   rows of the later state to give, when they are new
    """

    plan: ScanPlan
    predicate: Predicate
    units: tuple[DiffUnit, ...]


def plan_diff(
    metadata: TableMetadata, schema: TableSchema, before: Snapshot, after: Snapshot, predicate: Predicate
) -> DiffPlan:
    """Plan the comparison of two states; buckets whose files are the same are left out.

    schema      both states are read with it
    predicate   bound to `schema`
    errors      UnsupportedError for a table without a primary key
    """
    if not schema.primary_keys:
        raise UnsupportedError("the difference of two states needs a primary key", path=metadata.paths.root)
    # Both states must be pruned alike, and by nothing that an update can change.
    by_key = project(predicate, tuple({*schema.primary_keys, *schema.partition_keys}))
    old, new = (plan_scan(metadata, snapshot, schema, by_key) for snapshot in (before, after))
    totals: dict[bytes, set[int]] = defaultdict(set)
    for bucket in (*old.buckets, *new.buckets):
        totals[bucket.partition].add(bucket.total_buckets)
    grouped: dict[tuple[bytes, int], tuple[list[BucketFiles], list[BucketFiles]]] = {}
    for side, plan in enumerate((old, new)):
        for bucket in plan.buckets:
            number = bucket.bucket if len(totals[bucket.partition]) == 1 else -1
            grouped.setdefault((bucket.partition, number), ([], []))[side].append(bucket)
    units = tuple(DiffUnit(tuple(b), tuple(a)) for b, a in grouped.values() if a and _state(b) != _state(a))
    return DiffPlan(replace(new, buckets=(), trace=()), predicate, units)


def read_diff(metadata: TableMetadata, plan: DiffPlan, unit: DiffUnit, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of one unit.

    columns   of the rows to give, in order
    memory    the unit's earlier rows, and a batch of the later ones
    """
    scan = TableScan(metadata, plan.plan)
    schema = plan.plan.schema
    rows = [t for bucket in unit.before for t in scan.read_bucket(bucket)]
    known = pa.concat_tables(rows) if rows else schema.arrow_schema.empty_table()
    known_keys = _encoded(known, schema, schema.trimmed_primary_keys)
    known_rows = _encoded(known, schema, schema.field_names)
    for bucket in unit.after:
        for table in scan.read_bucket(bucket):
            at = pc.index_in(_encoded(table, schema, schema.trimmed_primary_keys), value_set=known_keys)
            same = pc.equal(known_rows.take(at), _encoded(table, schema, schema.field_names))
            changed = np.flatnonzero(~same.fill_null(False).to_numpy(zero_copy_only=False))
            if len(changed):
                found = filter_table(plan.predicate, table.take(pa.array(changed)))
                if found.num_rows:
                    yield found.select(list(columns))


def _encoded(table: pa.Table, schema: TableSchema, names: Sequence[str]) -> pa.Array:
    return encode_rows([table.column(n) for n in names], schema.types_of(tuple(names)), table.num_rows).to_arrow()


def _state(buckets: Sequence[BucketFiles]) -> set[tuple[str, object]]:
    """What the rows of buckets depend on."""
    return {(f.file_name, b.deletion_vectors.get(f.file_name)) for b in buckets for f in b.files()}
