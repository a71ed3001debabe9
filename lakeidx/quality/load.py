"""Loads the evidence of the rules: index hashes, live keys, file sizes and snapshots of a table, or of the buckets a run touched.

Nothing here raises because of what it finds: bytes that cannot be read become entries of `TableEvidence.unreadable`, and their
buckets take no part in the rules over keys, so that one fault does not show as many.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.errors import CorruptFileError, LakeIdxError, NotFoundError
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.quality.index_file_rules import IndexFile
from lakeidx.quality.key_rules import BucketKeys
from lakeidx.quality.result import BucketId
from lakeidx.quality.tasks.bucket_keys import read_live_keys
from lakeidx.quality.tasks.decode_files import decode_files, paths_of_bucket
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import parent_of
from lakeidx.table.index_files import examine_hash_index, index_file_path
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import load_newest
from lakeidx.table.scan.plan import BucketFiles, ScanPlan, plan_scan
from lakeidx.table.view import HASH_INDEX, SnapshotView, decode_partition_dict
from lakeidx.tasks.in_parallel import requests_of, runner_of_small_files
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner, Runner

if TYPE_CHECKING:
    from lakeidx.quality.iceberg_rules import IcebergEvidence

Hashes = NDArray[np.int32]

#: Snapshots a look at a single run goes back.
_RECENT_SNAPSHOTS = 10


@dataclass(slots=True)
class TableEvidence:
    """Evidence of one state of a table.

    scope         buckets that were examined
    index_files   HASH files of the partitions in scope, as named and as found
    index         (partition, bucket) -> int32 hashes of each HASH file of those partitions that could be read
    live          (partition, bucket) -> int32 hashes of the keys alive after merge, for buckets in scope that could be read
    suspects      of these keys, the ones whose hash occurs more than once in their partition: all that can be there twice
    expected      path -> size of every file the state needs, None where no size is written down
    found         path -> size of those that are there
    snapshots     the number in the file's name -> snapshot
    decoded       data files that were decoded to the last page, and their bytes
    unreadable    files whose bytes could not be read, as plain values
    miscounted    files of which the manifest counts the deletes wrongly, as plain values
    iceberg       Iceberg metadata; None where nothing was to be looked at
    """

    schema: TableSchema
    snapshot: Snapshot | None
    view: SnapshotView
    scope: tuple[BucketId, ...]
    index_files: list[IndexFile] = field(default_factory=list)
    index: dict[BucketId, Hashes] = field(default_factory=dict)
    live: dict[BucketId, Hashes] = field(default_factory=dict)
    suspects: list[BucketKeys] = field(default_factory=list)
    expected: dict[str, int | None] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    latest_hint: int | None = None
    decoded: tuple[int, int] = (0, 0)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    miscounted: list[dict[str, Any]] = field(default_factory=list)
    iceberg: IcebergEvidence | None = None

    def partition_name(self, partition: bytes) -> str:
        """Return ``month=1/day=2``; ``-`` for a table without partitions."""
        values = decode_partition_dict(partition, self.schema)
        return "/".join(f"{k}={v}" for k, v in values.items()) or "-"


def load_evidence(
    metadata: TableMetadata,
    *,
    buckets: Collection[BucketId] | None = None,
    partitions: Collection[bytes] | None = None,
    decode: Collection[str] | None = None,
    runner: Runner | None = None,
    history: int | None = None,
    key_rows: int | None = None,
    seed: str = "",
) -> TableEvidence:
    """Read what the rules need of the newest state.

    buckets      only these, and the hash indexes of their partitions; None = the whole table
    partitions   only these; not with `buckets`
    decode       names of the data files to decode to the last page; None = all of the scope
    runner       where data files are read, a bucket or a file to a task; None = threads of this process
    history      how many snapshots are looked at, with the metadata files of the newest; None = all, but only the last ones for
                 `buckets`; 0 = neither
    key_rows     rows of the buckets whose keys are read: some of the scope, drawn by `seed`, one at least; None = all of it
    errors       CorruptFileError when the newest snapshot or its manifests cannot be read, UnavailableError
    memory       hashes of the partitions in scope, 8 bytes for each key; of a task the key columns of a bucket, or a row group
    """
    of_buckets = None if buckets is None else {p for p, _ in buckets}
    view = load_newest(metadata, partitions=of_buckets if partitions is None else set(partitions))
    snapshot, schema = view.snapshot, metadata.latest_schema()
    wanted = None if buckets is None else set(buckets)
    scope = tuple(place for place in sorted(view.entries.places()[1]) if wanted is None or place in wanted)
    evidence = TableEvidence(schema, snapshot, view, scope)
    cores = LocalRunner(available_cores())
    pool = cores.with_threads(requests_of(metadata.store))
    if history is None and buckets is not None:
        history = _RECENT_SNAPSHOTS
    _load_sizes(metadata, evidence, pool, of_metadata=history != 0, whole=buckets is None)
    _load_index(metadata, evidence, pool)
    largest = max(evidence.found.values(), default=0)
    readers = runner_of_small_files(runner or cores, metadata.store, largest)
    plans = _plan_keys(metadata, evidence, key_rows, seed) if schema.primary_keys else {}
    _decode_data_files(metadata, evidence, readers, decode)
    if plans:
        _load_keys(metadata, evidence, readers, plans)
    if history != 0:
        _load_snapshots(metadata, evidence, pool, last=history)
        if schema.table_options.writes_iceberg:
            from lakeidx.quality.iceberg_rules import load_iceberg

            evidence.iceberg = load_iceberg(metadata, schema, snapshot, pool, files=buckets is None)
    return evidence


def _load_sizes(
    metadata: TableMetadata, evidence: TableEvidence, pool: LocalRunner, *, of_metadata: bool, whole: bool
) -> None:
    """Load expected and found sizes of data files in scope, and of the snapshot's metadata files; `whole`: see `_listings`."""
    paths, snapshot = metadata.paths, evidence.snapshot
    if snapshot is None:
        return
    wanted = set(evidence.scope)
    folders: set[str] = set()
    for entry in evidence.view.entries:
        if (entry.partition, entry.bucket) not in wanted:
            continue
        partition = decode_partition_dict(entry.partition, evidence.schema)
        path = paths.data_file(partition, entry.bucket, entry.file.file_name, external_path=entry.file.external_path)
        evidence.expected[path] = entry.file.file_size
        for name in entry.file.extra_files:
            evidence.expected[f"{path.rpartition('/')[0]}/{name}"] = None
        folders.add(path.rpartition("/")[0])
    if of_metadata:
        evidence.expected |= _metadata_files(metadata, snapshot)
    alone = [p for p in evidence.expected if p.rpartition("/")[0] not in folders]
    for listed in pool.map(list, _listings(metadata, folders, whole=whole)):
        evidence.found |= {f.path: f.size for f in listed if f.path in evidence.expected}
    for path, info in zip(alone, pool.map(metadata.store.info, alone), strict=True):
        if info is not None:
            evidence.found[path] = info.size


def _listings(metadata: TableMetadata, folders: Collection[str], *, whole: bool) -> list[Iterator[FileInfo]]:
    """Return listings of the files in buckets' folders.

    whole   these are all buckets of their partitions: the folders of a partition are listed together
    """
    store, beside = metadata.store, dict[str, list[str]]()
    for folder in sorted(folders):
        beside.setdefault(parent_of(folder), []).append(folder)
    # Beside the buckets of a table without partitions lies all that is no data.
    walked = [p for p, below in beside.items() if whole and len(below) > 1 and p != metadata.paths.root.rstrip("/")]
    rest = [folder for parent, below in beside.items() if parent not in walked for folder in below]
    return [*map(store.walk, walked), *(_listed(store, folder) for folder in rest)]


def _listed(store: ObjectStore, folder: str) -> Iterator[FileInfo]:
    yield from store.list(folder)


def _metadata_files(metadata: TableMetadata, snapshot: Snapshot) -> dict[str, int | None]:
    """Return the metadata files of a snapshot, with their recorded sizes."""
    path = metadata.paths.manifest_path
    found: dict[str, int | None] = {path(m.file_name): m.file_size for m in metadata.data_manifests(snapshot)}
    found[path(snapshot.base_manifest_list)] = snapshot.base_manifest_list_size
    found[path(snapshot.delta_manifest_list)] = snapshot.delta_manifest_list_size
    if snapshot.index_manifest is not None:
        found[path(snapshot.index_manifest)] = None
    return found


def _load_index(metadata: TableMetadata, evidence: TableEvidence, pool: LocalRunner) -> None:
    entries = [e for e in evidence.view.index if e.index_type == HASH_INDEX]

    def read(entry: IndexEntry) -> IndexFile:
        size, hashes, intact = examine_hash_index(metadata, evidence.schema, entry)
        # Sorted here, side by side: every rule needs them so.
        return IndexFile(entry=entry, size=size, hashes=None if hashes is None else np.sort(hashes), intact=intact)

    for entry, file in zip(entries, pool.map(read, entries), strict=True):
        path = index_file_path(metadata, evidence.schema, entry)
        evidence.expected[path] = entry.file_size
        if file.size is not None:
            evidence.found[path] = file.size
        evidence.index_files.append(file)
        if file.hashes is not None:
            evidence.index[entry.partition, entry.bucket] = file.hashes


def _broken(evidence: TableEvidence) -> set[str]:
    """Return files that are missing or of another size, which other rules report."""
    return {
        p for p, size in evidence.expected.items() if p not in evidence.found or size not in (None, evidence.found[p])
    }


def _plan_keys(
    metadata: TableMetadata, evidence: TableEvidence, key_rows: int | None, seed: str
) -> dict[BucketId, ScanPlan]:
    """Plan a scan of each bucket whose keys are read."""
    wanted, broken = set(evidence.scope), _broken(evidence)
    try:
        plan = plan_scan(metadata, evidence.snapshot, evidence.schema, view=evidence.view)
    except LakeIdxError as error:
        evidence.unreadable.append({"file": error.path, "fault": error.message})
        return {}
    whole = [
        b
        for b in plan.buckets
        if (b.partition, b.bucket) in wanted and broken.isdisjoint(paths_of_bucket(metadata, evidence.schema, b))
    ]
    chosen = whole if key_rows is None else _drawn(whole, key_rows, seed)
    return {(b.partition, b.bucket): replace(plan, buckets=(b,), trace=()) for b in chosen}


def _decode_data_files(
    metadata: TableMetadata, evidence: TableEvidence, runner: Runner, names: Collection[str] | None
) -> None:
    scope, broken = set(evidence.scope), _broken(evidence)
    chosen = [
        e
        for e in evidence.view.entries
        if (e.partition, e.bucket) in scope and (names is None or e.file.file_name in names)
    ]
    results = decode_files(metadata, chosen, runner, skip=broken)
    evidence.decoded = (len(results), sum(d.bytes for d in results))
    evidence.unreadable += [d.fault for d in results if d.fault is not None]
    evidence.miscounted += [d.miscounted for d in results if d.miscounted is not None]


def _load_keys(
    metadata: TableMetadata, evidence: TableEvidence, runner: Runner, plans: Mapping[BucketId, ScanPlan]
) -> None:
    unreadable = {fault.get("file") for fault in evidence.unreadable}
    readable = [p for p in plans.values() if unreadable.isdisjoint(paths_of_bucket(metadata, p.schema, p.buckets[0]))]
    across = evidence.schema.bucket_mode is BucketMode.KEY_DYNAMIC
    for found in read_live_keys(metadata, readable, runner, across_partitions=across):
        if found.hashes is None:
            name = evidence.partition_name(found.place[0])
            evidence.unreadable.append({"partition": name, **(found.fault or {})})
            continue
        evidence.live[found.place] = found.hashes
        if found.suspects is not None:
            evidence.suspects.append(found.suspects)


def _drawn(buckets: list[BucketFiles], most: int, seed: str) -> list[BucketFiles]:
    """Draw buckets that have up to so many rows together, one at least, in their order."""
    rows = np.array([sum(f.row_count for f in b.files()) for b in buckets], np.int64)
    order = np.random.default_rng(zlib.crc32(seed.encode())).permutation(len(buckets))
    count = int(np.searchsorted(np.cumsum(rows[order]), most, side="right"))
    return [buckets[n] for n in sorted(order[: max(1, count)].tolist())]


def _load_snapshots(metadata: TableMetadata, evidence: TableEvidence, pool: LocalRunner, *, last: int | None) -> None:
    # Before the snapshots are listed: one that is committed in between is not behind the hint.
    try:
        evidence.latest_hint = int(metadata.store.get(metadata.paths.latest))
    except (NotFoundError, ValueError):
        evidence.latest_hint = None
    ids, earliest = metadata.listed_snapshot_ids(), metadata.earliest_hint()
    if earliest in ids:
        # Those before it are no longer part of the history: an expiry deletes them, or left them at its death.
        ids = [i for i in ids if i >= earliest]

    def read(number: int) -> Snapshot | CorruptFileError | None:
        try:
            return metadata.load_snapshot(number)
        except NotFoundError:
            return None
        except CorruptFileError as error:
            return error

    chosen = ids if last is None else ids[-last:]
    for number, found in zip(chosen, pool.map(read, chosen), strict=True):
        if isinstance(found, Snapshot):
            evidence.snapshots[number] = found
        elif found is not None:
            evidence.unreadable.append({"file": found.path, "offset": found.offset, "fault": found.message})
