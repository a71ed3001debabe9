"""The order of changes where a key leaves one bucket for another within a commit: what is gone comes before what is there.

A key moves when a row of a cross-partition table comes with another partition, and when an overwrite finds it another dynamic
bucket. Its delete is among the rows of one bucket, its new row among those of another. Whoever applies the rows one after
another, by key, would lose the row if the delete came last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.predicate import TRUE
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.incremental_diff import DiffUnit
from lakeidx.table.scan.plan import BucketFiles, ScanPlan
from lakeidx.table.scan.section_read import VALUE_KIND
from lakeidx.table.scan.table_scan import ScanUnit, TableScan

#: A reader and what it reads.
Work = tuple[Callable[[ScanUnit], Iterator[pa.Table]], ScanUnit]


def gone_first(metadata: TableMetadata, plan: ScanPlan, scan: TableScan) -> list[Work]:
    """Plan the records of one commit so that, of every bucket, the keys that end deleted come first, then all others.

    scan      gives the columns wanted, with `VALUE_KIND`
    returns   what to read, in order; the records of one key in one bucket stay together and keep their order
    memory    the keys of a bucket's records, where there are deletes among them
    """
    buckets: dict[tuple[bytes, int], list[BucketFiles]] = {}
    for bucket in plan.buckets:
        buckets.setdefault((bucket.partition, bucket.bucket), []).append(bucket)
    names, wider = scan.arrow_schema.names, _with_keys(scan)
    first: list[Work] = []
    then: list[Work] = []
    for files in buckets.values():
        units = [(bucket, section) for bucket in files for section in bucket.sections]
        gone = _gone(metadata, plan, units) if any(f.may_hold_deletes for b in files for f in b.files()) else None
        if gone is None or not len(gone):
            then += [(lambda unit: scan.read_section(*unit), unit) for unit in units]
            continue
        first += [(partial(_some, wider, names, gone, among=True), unit) for unit in units]
        then += [(partial(_some, wider, names, gone, among=False), unit) for unit in units]
    return [*first, *then]


def _gone(metadata: TableMetadata, plan: ScanPlan, units: Sequence[ScanUnit]) -> pa.Array:
    """Find the keys, encoded, whose last record in a bucket is a retract."""
    schema = plan.schema
    scan = TableScan(metadata, replace(plan, predicate=TRUE), columns=schema.trimmed_primary_keys, keep_deletes=True)
    tables = [t for unit in units for t in scan.read_section(*unit)]
    if not tables:
        return pa.array([], pa.large_binary())
    rows = pa.concat_tables(tables)
    found = _encoded(rows, schema).dictionary_encode()
    last = np.zeros(len(found.dictionary), np.int64)
    last[found.indices.to_numpy()] = np.arange(rows.num_rows)
    retracts = rows.column(VALUE_KIND).to_numpy()[last] & 1 == 1
    return found.dictionary.filter(pa.array(retracts))


def _with_keys(scan: TableScan) -> TableScan:
    """Return the scan with the key columns that it leaves out."""
    missing = [n for n in scan.plan.schema.trimmed_primary_keys if n not in scan.arrow_schema.names]
    return TableScan(
        scan.metadata,
        scan.plan,
        columns=[*scan.columns, *missing],
        keep_deletes=scan.keep_deletes,
        keep_sequence=scan.keep_sequence,
    )


def _some(scan: TableScan, names: Sequence[str], keys: pa.Array, unit: ScanUnit, *, among: bool) -> Iterator[pa.Table]:
    """Read the rows of a unit whose keys are, or are not, among some.

    names   of the columns wanted; the scan has those of the key besides
    """
    for rows in scan.read_section(*unit):
        mine = pc.is_in(_encoded(rows, scan.plan.schema), value_set=keys)
        yield rows.filter(mine if among else pc.invert(mine)).select(names)


def _encoded(rows: pa.Table, schema: TableSchema) -> pa.Array:
    columns = [rows.column(n) for n in schema.trimmed_primary_keys]
    return encode_rows(columns, schema.key_types, rows.num_rows).to_arrow().cast(pa.large_binary())


def only_deletes(
    read: Callable[[DiffUnit], Iterator[pa.Table]], column: str, unit: DiffUnit, *, others: bool
) -> Iterator[pa.Table]:
    """Read the rows of kind -D of a comparison, or all others.

    column   of the kinds
    """
    for rows in read(unit):
        deletes = pc.equal(rows.column(column), "-D")
        yield rows.filter(pc.invert(deletes) if others else deletes)
