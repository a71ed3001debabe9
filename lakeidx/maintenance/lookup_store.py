"""Stage `lookup_store`: lookup files for the data files of the newest snapshot that have none yet, and a listing of all of them.

A data file never changes, so a lookup file is good as long as its data file lives: files that compaction moved to another level
keep theirs. Running the stage twice builds nothing the second time; two runs at once build some files twice, and the listing that
is written last counts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from lakeidx.errors import InvalidInputError
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX
from lakeidx.format.manifest import ManifestEntry
from lakeidx.lookup.build import LookupBuild, build_lookup_file, lookup_processor, lookup_store_type
from lakeidx.lookup.listing import Listing, LookupPlaces, StoredLookup, listing_ids, read_listing, write_listing
from lakeidx.results import Result
from lakeidx.storage.base import FileInfo
from lakeidx.table.expiration.orphans import used_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.plan import skips_level_0
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import Runner


class LookupStoreReport(Result, BaseModel):
    """What the stage did.

    snapshot_id   snapshot that is listed; None for a table without one
    built         lookup files made, with `entries` keys and `bytes` bytes
    reused        lookup files that were there
    removed       lookup files and listings removed because nothing needs them any more
    """

    model_config = ConfigDict(frozen=True)

    snapshot_id: int | None
    store_type: str
    built: int
    reused: int
    removed: int
    entries: int
    bytes: int
    seconds: float


def run_lookup_store(
    metadata: TableMetadata,
    runner: Runner,
    *,
    partitions: Collection[bytes] | None = None,
    local_dir: str | None = None,
    remove: bool = True,
) -> LookupStoreReport:
    """Build missing lookup files of the newest snapshot.

    partitions   build only for these (partition bytes); files that are there for others stay listed
    local_dir    local directory for files before they are uploaded
    remove       also remove what no live data file needs
    errors       InvalidInputError for a table without primary key; CorruptFileError, UnavailableError
    """
    started = time.monotonic()
    schema = metadata.latest_schema()
    if not schema.primary_keys:
        raise InvalidInputError("lookup files need a primary key", path=metadata.paths.root)
    store_type = lookup_store_type(schema)
    snapshot = metadata.latest_snapshot()
    if snapshot is None:
        return LookupStoreReport(
            snapshot_id=None, store_type=store_type, built=0, reused=0, removed=0, entries=0, bytes=0,
            seconds=time.monotonic() - started,
        )  # fmt: skip
    places = LookupPlaces(metadata.paths)
    hides_level_0 = skips_level_0(schema)
    live = [
        e for e in load_view(metadata, snapshot).entries
        if e.bucket >= 0 and not (hides_level_0 and e.file.level == 0)
    ]  # fmt: skip
    before = read_listing(metadata.store, places, snapshot.id)
    there = _still_there(metadata, places, before)
    kept = {
        e.file.file_name: there[e.file.file_name]
        for e in live
        if e.file.file_name in there and _serves(there[e.file.file_name], lookup_processor(schema), store_type)
    }
    todo = [
        LookupBuild(metadata, schema, e, local_dir)
        for e in live
        if e.file.file_name not in kept and (partitions is None or e.partition in partitions)
    ]
    todo.sort(key=_largest_first)
    made = runner.map(build_lookup_file, todo, label="lookup_store")
    files = kept | {f.data_file: f for f in made}
    if before is None or before.snapshot_id != snapshot.id or dict(before.files) != files:
        write_listing(metadata.store, places, Listing(snapshot.id, files))
    removed = len(clean_lookup_files(metadata).files) if remove else 0
    return LookupStoreReport(
        snapshot_id=snapshot.id,
        store_type=store_type,
        built=len(made),
        reused=len(kept),
        removed=removed,
        entries=sum(f.entries for f in made),
        bytes=sum(f.size for f in made),
        seconds=time.monotonic() - started,
    )


def _largest_first(work: LookupBuild) -> int:
    return -work.entry.file.file_size


def _serves(file: StoredLookup, processor: str, store_type: str) -> bool:
    return file.processor == processor and file.store_type == store_type


def _still_there(metadata: TableMetadata, places: LookupPlaces, listing: Listing | None) -> Mapping[str, StoredLookup]:
    """Return the listed files that exist with the listed size: others may have been removed."""
    if listing is None or not listing.files:
        return {}
    sizes = {f.path: f.size for f in metadata.store.walk(places.root)}
    return {
        name: f
        for name, f in listing.files.items()
        if sizes.get(places.full(f.path)) == f.size and all(places.full(s) in sizes for s in f.side_files)
    }


@dataclass(frozen=True, slots=True)
class LookupCleanReport:
    """Lookup files and listings that were removed, or in a dry run would be."""

    files: tuple[FileInfo, ...]
    dry_run: bool

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return sum(f.size for f in self.files)


def clean_lookup_files(metadata: TableMetadata, *, dry_run: bool = False) -> LookupCleanReport:
    """Remove lookup files whose data file no snapshot, tag or branch refers to, and listings of snapshots that are gone.

    The newest listing stays. Call it after snapshots have expired.
    errors   CorruptFileError, UnavailableError: while a snapshot cannot be read it is unknown what it needs
    """
    places = LookupPlaces(metadata.paths)
    found = list(metadata.store.walk(places.root))
    if not found:
        return LookupCleanReport((), dry_run)
    # First the listing, then the metadata: what is built in the meantime is not among the files examined.
    ids = listing_ids(metadata.store, places)
    kept_ids = {*metadata.snapshot_ids(), *ids[-1:]}
    old_listings = {places.listing(i) for i in ids if i not in kept_ids}
    used = used_names(metadata)
    gone = []
    for file in found:
        name = parse_file_name(file.name.removesuffix(CONTEXT_SUFFIX))
        if file.path in old_listings or (name.kind is NameKind.LOOKUP and name.label not in used):
            gone.append(file)
    if not dry_run:
        metadata.store.delete_many(f.path for f in gone)
    return LookupCleanReport(tuple(gone), dry_run)


def lookup_coverage(metadata: TableMetadata) -> tuple[int, int]:
    """Return (live data files of the newest snapshot with a listed lookup file, all of them)."""
    snapshot = metadata.latest_snapshot()
    if snapshot is None:
        return 0, 0
    listing = read_listing(metadata.store, LookupPlaces(metadata.paths), snapshot.id)
    names = [_name(e) for e in load_view(metadata, snapshot).entries]
    return sum(n in (listing.files if listing is not None else {}) for n in names), len(names)


def _name(entry: ManifestEntry) -> str:
    return entry.file.file_name
