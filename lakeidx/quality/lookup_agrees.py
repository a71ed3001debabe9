"""The rule that lookup files agree with the table: a sample of present and of absent keys, looked up and scanned."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.binary_row_vec import encode_rows
from lakeidx.data.json_values import json_rows, json_values
from lakeidx.errors import CorruptFileError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.format.snapshot import Snapshot
from lakeidx.lookup.file_cache import LookupFileCache
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.quality.result import SAMPLE_LIMIT, BucketId, RuleResult, Severity, bounded
from lakeidx.table.handle import TableHandle
from lakeidx.table.intervals import Section
from lakeidx.table.newest import on_newest
from lakeidx.table.scan.plan import BucketFiles
from lakeidx.table.scan.table_scan import ScanUnit, TableScan, scan_table


@dataclass(slots=True)
class _Found:
    """Findings over the samples of all sections."""

    asked: int = 0
    missing: int = 0
    too_many: int = 0
    different: int = 0
    unreadable: int = 0
    skipped: int = 0
    offenders: list[dict[str, Any]] = field(default_factory=list)


def check_lookup_agrees(
    table: TableHandle,
    *,
    sample_rows: int = 1000,
    buckets: Collection[BucketId] | None = None,
    max_rows: int | None = None,
) -> RuleResult:
    """Check that a lookup of some keys finds the rows of a scan of the same snapshot, and nothing for absent keys.

    sample_rows    present keys asked, the same number of every section that is examined, and as many made of their
                   columns mixed again, the last one moved away: few of those exist (a scan says which)
    buckets        only these; None = the whole table
    max_rows       read sections of so many rows together at most, but one at least; None = all
    errors         UnavailableError. A lookup file that cannot be read is a finding; data files that cannot are skipped,
                   other rules refer to them
    cost           a scan of the sections that are examined, one after another
    """
    with tempfile.TemporaryDirectory(prefix="lakeidx-lookup-check-") as folder:

        def check(_: Snapshot | None) -> RuleResult:
            # It trusts no local copy of a lookup file, and stays at the snapshot of the scan.
            fresh = TableLookup(table.metadata, files=LookupFileCache(folder), pinned=True)
            return _check(table, fresh, sample_rows, np.random.default_rng(0), buckets, max_rows)

        return on_newest(table.metadata, check)


def _check(
    table: TableHandle,
    lookup: TableLookup,
    sample_rows: int,
    rng: np.random.Generator,
    buckets: Collection[BucketId] | None,
    max_rows: int | None,
) -> RuleResult:
    lookup.lookup(_no_keys(table))
    scan = scan_table(table, snapshot=lookup.snapshot_id, falls_back=False)
    wanted = None if buckets is None else set(buckets)
    units = [(b, s) for b, s in scan.units() if wanted is None or (b.partition, b.bucket) in wanted]
    if max_rows is not None:
        units = _within(units, max_rows, rng)
    found = _Found()
    each = -(-sample_rows // max(1, len(units)))
    for bucket, section in units:
        try:
            expected = _sample(scan, bucket, section, each, rng)
        except UnavailableError:
            raise
        except LakeIdxError as error:
            if isinstance(error, NotFoundError) and error.snapshot_id is not None:
                # Not damage: the snapshot has expired.
                raise
            found.skipped += 1
            continue
        try:
            _compare(table, lookup, expected, rng, found)
        except CorruptFileError as error:
            found.unreadable += 1
            found.offenders.append({"file": error.path, "offset": error.offset, "fault": error.message})
    metrics = {
        "sections": len(units),
        "sections_skipped": found.skipped,
        "keys_asked": found.asked,
        "keys_missing": found.missing,
        "keys_too_many": found.too_many,
        "rows_different": found.different,
        "lookup_files_unreadable": found.unreadable,
        "lookup_files_asked": lookup.metrics.lookup_files,
        "data_files_asked": lookup.metrics.data_files,
    }
    return RuleResult(
        name="lookup_store_agrees",
        passed=found.missing + found.too_many + found.different + found.unreadable == 0,
        severity=Severity.ERROR,
        metrics=metrics,
        sample=bounded({k: str(v) for k, v in row.items()} for row in found.offenders),
        description="The lookup store and a scan return the same rows.",
    )


def _within(units: list[ScanUnit], max_rows: int, rng: np.random.Generator) -> list[ScanUnit]:
    """Draw some units, each as likely as the others, whose files have so many rows together; one at least."""
    chosen: list[int] = []
    rows = 0
    for i in rng.permutation(len(units)).tolist():
        rows += sum(f.row_count for run in units[i][1] for f in run)
        if chosen and rows > max_rows:
            break
        chosen.append(i)
    return [units[i] for i in sorted(chosen)]


def _sample(scan: TableScan, bucket: BucketFiles, section: Section, size: int, rng: np.random.Generator) -> pa.Table:
    """Return the rows of a section, as many of each part of it as its share."""
    parts = []
    rows = 0
    for part in scan.read_section(bucket, section):
        rows += part.num_rows
        chosen = rng.choice(part.num_rows, min(size, part.num_rows), replace=False)
        parts.append(part.take(pa.array(np.sort(chosen))))
    if not parts:
        return scan.arrow_schema.empty_table()
    few = pa.concat_tables(parts)
    kept = np.sort(rng.choice(few.num_rows, min(size, few.num_rows), replace=False))
    return few.take(pa.array(kept))


def _compare(
    table: TableHandle, lookup: TableLookup, expected: pa.Table, rng: np.random.Generator, found: _Found
) -> None:
    if not expected.num_rows:
        return
    keys = expected.select(list(table.schema.primary_keys))
    answer = lookup.lookup(keys)
    different = _different_rows(answer.rows, expected, answer.found)
    absent = _absent_keys(keys, rng)
    # Nearly always none: only then is it worth asking a scan which of them exist after all.
    claimed = absent.filter(pa.array(lookup.lookup(absent).found))
    too_many = claimed.filter(pa.array(~_is_present(claimed, table, lookup.snapshot_id))) if len(claimed) else claimed
    found.asked += 2 * keys.num_rows
    found.missing += int((~answer.found).sum())
    found.too_many += too_many.num_rows
    found.different += int(different.sum())
    for fault, rows in (
        ("missing", keys.filter(pa.array(~answer.found))),
        ("another row", keys.filter(pa.array(different))),
        ("not in the table", too_many),
    ):
        found.offenders += [{**row, "fault": fault} for row in json_rows(rows.slice(0, SAMPLE_LIMIT))]


def _no_keys(table: TableHandle) -> pa.Table:
    schema = table.schema.arrow_schema
    return schema.empty_table().select(list(table.schema.primary_keys))


def _different_rows(got: pa.Table, expected: pa.Table, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return bool[n]: found, but with another value in some column."""
    out = np.zeros(expected.num_rows, np.bool_)
    for name in expected.column_names:
        a, b = got.column(name), expected.column(name)
        if a.combine_chunks().equals(b.combine_chunks().cast(a.type)):
            continue
        # Row by row only where columns differ: a failed check.
        out |= np.array([repr(x) != repr(y) for x, y in zip(json_values(a), json_values(b), strict=True)], np.bool_)
    return out & found


def _absent_keys(keys: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Return keys of the right types that are probably absent: numbers far away, texts with a suffix."""
    columns = []
    for i, column in enumerate(keys.columns):
        mixed = column.take(pa.array(rng.permutation(len(column))))
        if i == keys.num_columns - 1:
            mixed = _moved(mixed)
        columns.append(mixed)
    return pa.Table.from_arrays(columns, names=keys.column_names)


def _moved(column: pa.ChunkedArray) -> pa.ChunkedArray:
    t = column.type
    if pa.types.is_integer(t):
        limit = 2 ** (t.bit_width - 1)
        moved = [(v + limit // 2 + limit) % (2 * limit) - limit for v in column.to_pylist()]
        return pa.chunked_array([pa.array(moved, t)])
    if pa.types.is_string(t):
        return pa.chunked_array([pa.array([f"{v}\x01absent" for v in column.to_pylist()], t)])
    return column


def _is_present(asked: pa.Table, table: TableHandle, snapshot_id: int | None) -> npt.NDArray[np.bool_]:
    """Return bool[n]: whether a scan without indexes finds the key."""
    types = [table.schema.field(n).type for n in asked.column_names]
    mine = encode_rows(asked.columns, types).to_arrow()
    out = np.zeros(asked.num_rows, np.bool_)
    scan = scan_table(table, snapshot=snapshot_id, columns=asked.column_names, falls_back=False)
    for rows in scan.batches():
        there = encode_rows([rows.column(n) for n in asked.column_names], types).to_arrow()
        out |= np.asarray(pc.is_in(mine, value_set=there).to_numpy(zero_copy_only=False))
    return out
