"""The keys that live in a bucket, read by a task of its own: hashes of all, keys only where two may be the same.

A bucket is read again for the keys whose hash another bucket has, too: few, unless a rule fails. So what leaves a task is 4 bytes
for each key, and what a task holds are the key columns of one bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import are_known, ascending_distinct
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.errors import LakeIdxError, UnavailableError
from lakeidx.quality.key_rules import BucketKeys
from lakeidx.quality.result import BucketId
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import ScanPlan
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.tasks.runner import Runner

Hashes = NDArray[np.int32]
_NONE: Hashes = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class _Work:
    """One bucket.

    plan     of a scan of this bucket alone
    shared   int32, ascending, hashes that other buckets have, too
    """

    metadata: TableMetadata
    plan: ScanPlan
    shared: Hashes


@dataclass(frozen=True, slots=True)
class LiveKeys:
    """Live keys of one bucket.

    hashes     int32[n], ascending, of every key after merge; None when the bucket could not be read
    suspects   the keys whose hash came more than once: all that can be there twice
    fault      why it could not be read, as plain values
    """

    place: BucketId
    hashes: Hashes | None
    suspects: BucketKeys | None = None
    fault: dict[str, Any] | None = None


def read_live_keys(
    metadata: TableMetadata, plans: Iterable[ScanPlan], runner: Runner, *, across_partitions: bool
) -> list[LiveKeys]:
    """Read the keys of buckets, each in a task.

    plans               one for each bucket
    across_partitions   a key lives in one partition at a time
    errors              UnavailableError; anything else that is wrong with a bucket is in its result
    """
    label = f"verify: {metadata.paths.root}"
    works = [_Work(metadata, plan, _NONE) for plan in plans]
    found = runner.map(_read, works, label=label) if works else []
    again = []
    for group in _groups(found, across_partitions=across_partitions):
        shared = _shared([found[n].hashes for n in group])
        for n in group if len(shared) else ():
            mine = np.intersect1d(shared, found[n].hashes)  # type: ignore[arg-type]
            if len(mine):
                again.append((n, replace(works[n], shared=mine)))
    if again:
        for (n, _), second in zip(again, runner.map(_read, [work for _, work in again], label=label), strict=True):
            found[n] = second
    return found


def _groups(found: list[LiveKeys], *, across_partitions: bool) -> Iterator[list[int]]:
    """Yield the numbers of the buckets among which a key may live once."""
    groups: dict[bytes, list[int]] = {}
    for number, one in enumerate(found):
        if one.hashes is not None:
            groups.setdefault(b"" if across_partitions else one.place[0], []).append(number)
    yield from groups.values()


def _shared(of_buckets: list[Hashes | None]) -> Hashes:
    """Return the hashes that more than one bucket has."""
    columns = [ascending_distinct(hashes) for hashes in of_buckets if hashes is not None]
    # A merge sort: the buckets' hashes are ascending.
    return _repeated(np.sort(np.concatenate(columns), kind="stable")) if len(columns) > 1 else np.empty(0, np.int32)


def _repeated(ordered: Hashes) -> Hashes:
    return ascending_distinct(ordered[1:][ordered[1:] == ordered[:-1]])


def _rows_of(wanted: Hashes, hashes: Hashes) -> NDArray[np.int64]:
    """Return the rows that have one of a few hashes, ascending: the low 16 bits of a hash exclude most rows."""
    likely = np.zeros(1 << 16, np.bool_)
    likely[wanted.astype(np.uint16)] = True
    rows = np.flatnonzero(likely[hashes.astype(np.uint16)])
    return rows[are_known(hashes[rows], wanted)]


def _read(work: _Work) -> LiveKeys:
    """Read the keys of one bucket.

    errors   UnavailableError; anything else that is wrong is in the result
    """
    schema, (bucket,) = work.plan.schema, work.plan.buckets
    place = (bucket.partition, bucket.bucket)
    names = list(schema.identity_columns)
    types = list(schema.types_of(names))
    scan = TableScan(work.metadata, work.plan, columns=names)
    try:
        tables = list(scan.read_bucket(bucket))
    except UnavailableError:
        raise
    except LakeIdxError as error:
        fault = {"bucket": bucket.bucket, "file": error.path, "offset": error.offset, "fault": error.message}
        return LiveKeys(place, None, fault=fault)
    keys = pa.concat_tables(tables) if tables else scan.arrow_schema.empty_table()
    hashes = hash_columns([keys.column(n) for n in names], types)
    ordered = np.sort(hashes)
    wanted = np.union1d(_repeated(ordered), work.shared)
    rows = _rows_of(wanted, hashes)
    if not len(rows):
        return LiveKeys(place, ordered)
    taken = keys.take(pa.array(rows))
    encoded = encode_rows([taken.column(n) for n in names], types)
    suspects = BucketKeys(partition=place[0], bucket=place[1], keys=encoded, hashes=hashes[rows])
    return LiveKeys(place, ordered, suspects)
