"""The difference of two states of a table: rows that are new, changed or deleted, with their values before and after.

A row has changed when any of its values differs, even to null. Only keys of files that one state has and the other has not can
differ, so of the files that both share only rows of these keys are read, and read once. States are compared bucket by bucket.
Buckets of a partition are compared together where keys may have left one for another: where their number has changed, and where
an overwrite or a resize has replaced all files of a dynamic bucket, for writers keep the bucket of a key until then (Java
compares each bucket by itself). A key that left its partition counts as deleted there and new here.

source   org.apache.paimon.table.source.snapshot.IncrementalDiffStartingScanner, org.apache.paimon.table.source.splitread.
         IncrementalDiffSplitRead, release 1.4.2
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.order.key import argsort_keys
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
from lakeidx.data.positions import sorted_positions
from lakeidx.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.predicate import Predicate, filter_table, project
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import says_expired
from lakeidx.table.scan.key_subset import KeySubset
from lakeidx.table.scan.layout import ROW_KIND
from lakeidx.table.scan.plan import BucketFiles, ScanPlan
from lakeidx.table.scan.section_read import SectionReader
from lakeidx.table.scan.states import State
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.types import DataType

#: Keys that are compared at a time.
SLICE_KEYS = 1_000_000
#: Snapshots between two states that are looked at for an overwrite; in a longer history one is taken for granted.
_COMMITS = 100

_LATER = ["+I", "+U"]


@dataclass(frozen=True, slots=True)
class DiffUnit:
    """Buckets that are compared with each other: one of each state, or all of a partition."""

    before: tuple[BucketFiles, ...]
    after: tuple[BucketFiles, ...]

    @property
    def partition(self) -> bytes:
        """The partition that the buckets are in."""
        return (self.before or self.after)[0].partition

    def files(self) -> list[DataFileMeta]:
        """Return all files of both states."""
        return [f for bucket in (*self.before, *self.after) for f in bucket.files()]


@dataclass(frozen=True, slots=True)
class DiffPlan:
    """Plan of a comparison of two states.

    plan        of the later state, without its files
    predicate   rows of the later state to give, when they are new
    older       metadata of the earlier state, when that is in another branch
    before      snapshot of the earlier state; None = the empty table
    moves       keys may be gone from one unit and new in another
    """

    plan: ScanPlan
    predicate: Predicate
    units: tuple[DiffUnit, ...]
    older: TableMetadata | None = None
    before: Snapshot | None = None
    moves: bool = False


def plan_diff(
    schema: TableSchema, before: State, after: State, predicate: Predicate, *, by_bucket: bool = False
) -> DiffPlan:
    """Plan the comparison of two states; buckets whose files are the same are left out.

    schema      both states are read with it
    predicate   bound to `schema`
    by_bucket   a key that an overwrite moved to another dynamic bucket counts as deleted there and new here
    errors      UnsupportedError for a table without a primary key, and for branches that gave new columns the same id;
                InvalidInputError when the earlier state is the later one; NotFoundError for a state that has expired
    """
    metadata = after.metadata
    if not schema.primary_keys:
        raise UnsupportedError("the difference of two states needs a primary key", path=metadata.paths.root)
    same_branch = before.metadata.paths.branch == metadata.paths.branch
    if same_branch and before.number > after.number:
        raise InvalidInputError(f"states {before.number} and {after.number}: the first must not be greater")
    if not same_branch:
        _check_columns(before.metadata, metadata)
    # Both states must be pruned alike, and by nothing that an update can change.
    by_key = project(predicate, tuple({*schema.primary_keys, *schema.partition_keys}))
    old, new = (state.plan(schema, by_key) for state in (before, after))
    units = _units(old, new)
    moved = _replaced(units) if schema.bucket == -1 else set()
    if moved and not _may_have_moved(before, old.snapshot, after):
        moved = set()
    older = None if same_branch else before.metadata
    return DiffPlan(
        plan=replace(new, buckets=(), trace=()),
        predicate=predicate,
        units=units if by_bucket else _together(units, moved),
        older=older,
        before=old.snapshot,
        moves=by_bucket and bool(moved),
    )


def _units(old: ScanPlan, new: ScanPlan) -> tuple[DiffUnit, ...]:
    """Pair the buckets of two states; those of a partition stay together where their number has changed."""
    totals: dict[bytes, set[int]] = defaultdict(set)
    for bucket in (*old.buckets, *new.buckets):
        totals[bucket.partition].add(bucket.total_buckets)
    grouped: dict[tuple[bytes, int], tuple[list[BucketFiles], list[BucketFiles]]] = {}
    for side, plan in enumerate((old, new)):
        for bucket in plan.buckets:
            number = bucket.bucket if len(totals[bucket.partition]) == 1 else -1
            grouped.setdefault((bucket.partition, number), ([], []))[side].append(bucket)
    return tuple(DiffUnit(tuple(b), tuple(a)) for b, a in grouped.values() if _state(b) != _state(a))


def _replaced(units: Sequence[DiffUnit]) -> set[bytes]:
    """Return the partitions in which several buckets differ, one of which has kept no file of the earlier state."""
    differ = Counter(unit.partition for unit in units)
    out = set()
    for unit in units:
        before, after = ({f.file_name for b in side for f in b.files()} for side in (unit.before, unit.after))
        if before and before.isdisjoint(after) and differ[unit.partition] > 1:
            out.add(unit.partition)
    return out


def _together(units: Sequence[DiffUnit], partitions: Collection[bytes]) -> tuple[DiffUnit, ...]:
    """Make one unit of those that a partition has."""
    alone, grouped = [u for u in units if u.partition not in partitions], defaultdict(list)
    for unit in units:
        if unit.partition in partitions:
            grouped[unit.partition].append(unit)
    joined = (
        DiffUnit(tuple(b for u in some for b in u.before), tuple(b for u in some for b in u.after))
        for some in grouped.values()
    )
    return (*alone, *joined)


def _may_have_moved(before: State, snapshot: Snapshot | None, after: State) -> bool:
    """Return True unless the commits between two states are known, and none of them is an overwrite.

    snapshot   of the earlier state
    """
    metadata = after.metadata
    if before.metadata.paths.branch != metadata.paths.branch or after.number - before.number > _COMMITS:
        return True
    try:
        # A tag may keep a state that is not part of the history any more.
        if snapshot is None or metadata.load_snapshot(snapshot.id).identity != snapshot.identity:
            return True
        commits = map(metadata.load_snapshot, range(before.number + 1, after.number + 1))
        return any(s.commit_kind is CommitKind.OVERWRITE for s in commits)
    except NotFoundError:
        return True


def _check_columns(one: TableMetadata, other: TableMetadata) -> None:
    """Raise UnsupportedError when both branches have added columns since they parted: their ids mean different columns."""
    schemas, others = one.all_schemas(), other.all_schemas()
    shared = max((a.highest_field_id for a, b in zip(schemas, others, strict=False) if a == b), default=-1)
    if min(schemas[-1].highest_field_id, others[-1].highest_field_id) > shared:
        raise UnsupportedError(
            "both branches have added columns since they parted; their states cannot be compared", path=one.paths.root
        )


def read_diff(metadata: TableMetadata, plan: DiffPlan, unit: DiffUnit, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read the rows of one unit that the later state has and the earlier one has not, deletes left out.

    columns   of the rows to give, in order
    """
    if not unit.after:
        return
    for rows in read_changed_rows(metadata, plan, unit, columns):
        later = rows.filter(pc.is_in(rows.column(ROW_KIND), value_set=pa.array(_LATER))).drop_columns([ROW_KIND])
        if later.num_rows:
            yield later


def read_changed_rows(
    metadata: TableMetadata, plan: DiffPlan, unit: DiffUnit, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Read what has changed in one unit.

    columns   of the rows to give, in order; among them perhaps _SEQUENCE_NUMBER
    returns   the columns and `ROW_KIND`: ``+I`` new, ``-U`` and ``+U`` before and after a change, ``-D`` deleted; by key,
              before in front of after; rows that the filter does not select are left out, each by its own values
    memory    the keys of files that only one state has, and the rows of `SLICE_KEYS` of them in both states
    """
    older = metadata if plan.older is None else plan.older
    with says_expired(older, plan.before), says_expired(metadata, plan.plan.snapshot):
        yield from _read_changes(metadata, plan, unit, columns)


def _read_changes(
    metadata: TableMetadata, plan: DiffPlan, unit: DiffUnit, columns: Sequence[str]
) -> Iterator[pa.Table]:
    sequence = SEQUENCE_NUMBER in columns
    scan = TableScan(metadata, plan.plan, keep_sequence=sequence)
    older = scan if plan.older is None else TableScan(plan.older, plan.plan, keep_sequence=sequence)
    keys = _changed_keys(older, scan, unit)
    rows = sum(t.num_rows for t in keys)
    slices = max(1, -(-rows // SLICE_KEYS))
    for number in range(slices):
        subset = KeySubset(plan.plan.schema, _slice(keys, plan.plan.schema, number, slices))
        before, after = _state_rows(older, unit.before, subset), _state_rows(scan, unit.after, subset)
        found = _compare(before, after, plan.plan.schema)
        selected = filter_table(plan.predicate, found)
        if selected.num_rows:
            yield selected.select([*columns, ROW_KIND])


def count_differing(old: pa.ChunkedArray, new: pa.ChunkedArray, data_type: DataType) -> int:
    """Count how many of n pairs of values differ; null equals null, NaN equals NaN."""
    before, after = (encode_rows([column], [data_type], len(column)).to_arrow() for column in (old, new))
    return pc.sum(pc.not_equal(before, after)).as_py() or 0


def _changed_keys(older: TableScan, newer: TableScan, unit: DiffUnit) -> list[pa.Table]:
    """Return the key columns of all rows that only one of the states has, or whose deletion has changed."""
    before, after = (
        {f.file_name: (scan.section_reader(b), f, b.deletion_vectors.get(f.file_name)) for b in side for f in b.files()}
        for scan, side in ((older, unit.before), (newer, unit.after))
    )
    out: list[pa.Table] = []
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            reader, file, _ = old or new  # type: ignore[misc]
            out += reader.keys(file)
        elif old[2] != new[2]:
            was, now = (_deleted(reader, file) for reader, file, _ in (old, new))
            out += new[0].keys(new[1], np.setxor1d(was, now, assume_unique=True))
    return out


def _deleted(reader: SectionReader, file: DataFileMeta) -> npt.NDArray[np.int64]:
    """Read a file's deleted rows: int64[k] ascending positions."""
    positions = reader.deletion_vector(file)
    return np.empty(0, np.int64) if positions is None else sorted_positions(positions)


def _slice(keys: Sequence[pa.Table], schema: TableSchema, number: int, slices: int) -> Iterator[pa.Table]:
    """Take one of several disjoint shares of the keys."""
    for table in keys:
        if slices == 1:
            yield table
            continue
        hashes = hash_columns([table.column(n) for n in schema.trimmed_primary_keys], schema.key_types, table.num_rows)
        yield table.filter(pa.array(hashes.view(np.uint32) % np.uint32(slices) == number))


def _state_rows(scan: TableScan, buckets: Sequence[BucketFiles], subset: KeySubset) -> pa.Table:
    tables = [t for bucket in buckets for t in scan.read_bucket(bucket, only=subset)]
    return pa.concat_tables(tables) if tables else scan.arrow_schema.empty_table()


def _compare(before: pa.Table, after: pa.Table, schema: TableSchema) -> pa.Table:
    """Find the rows that differ, by key, with their kinds."""
    keys = schema.trimmed_primary_keys
    old_keys, new_keys = (_encoded(t, schema, keys) for t in (before, after))
    at = pc.index_in(new_keys, value_set=old_keys)
    known = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
    place = at.drop_null().to_numpy()
    old_rows, new_rows = (
        _encoded(t.take(pa.array(rows)), schema, schema.field_names) for t, rows in ((before, place), (after, known))
    )
    differs = pc.not_equal(old_rows, new_rows).to_numpy(zero_copy_only=False)
    updated_old, updated_new = place[differs], known[differs]
    inserted = np.flatnonzero(at.is_null().to_numpy(zero_copy_only=False))
    deleted = np.setdiff1d(np.arange(before.num_rows), place, assume_unique=True)
    parts = (("-D", before, deleted), ("-U", before, updated_old), ("+U", after, updated_new), ("+I", after, inserted))
    kinds = np.repeat(np.arange(len(parts)), [len(rows) for _, _, rows in parts])
    rows = pa.concat_tables([table.take(pa.array(rows)) for _, table, rows in parts])
    order = np.lexsort((kinds, _by_key(rows, schema)))
    names = pa.array([kind for kind, _, _ in parts])
    return rows.append_column(ROW_KIND, names.take(pa.array(kinds))).take(pa.array(order))


def _by_key(rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Return int64[n]: rank of each row's key; equal keys have one rank."""
    order = argsort_keys([rows.column(n) for n in schema.trimmed_primary_keys], schema.key_types)
    encoded = _encoded(rows, schema, schema.trimmed_primary_keys).take(pa.array(order))
    new = np.ones(len(order), np.int64)
    if len(order):
        new[1:] = pc.not_equal(encoded[1:], encoded[:-1]).to_numpy(zero_copy_only=False)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def _encoded(table: pa.Table, schema: TableSchema, names: Sequence[str]) -> pa.Array:
    return encode_rows([table.column(n) for n in names], schema.types_of(tuple(names)), table.num_rows).to_arrow()


def _state(buckets: Sequence[BucketFiles]) -> set[tuple[str, object]]:
    """Return what the rows of buckets depend on."""
    return {(f.file_name, b.deletion_vectors.get(f.file_name)) for b in buckets for f in b.files()}
