"""Stage `lookup_store`: lookup files for the data files of the newest snapshot that have none yet, listed bucket by bucket.

A data file never changes, so a lookup file is good as long as its data file lives: files that compaction moved to another level
keep theirs. Files are made and listed group by group: one that cannot be made is left out and named at the end, a driver that dies
loses the group it was in. Running the stage twice builds nothing the second time; two runs at once build some files twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from lakeidx.errors import InvalidInputError
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX
from lakeidx.lookup.build import LookupBuild, build_lookup_file, lookup_processor, lookup_store_type
from lakeidx.lookup.listing import LISTING_NAME, LookupPlaces, StoredLookup, read_listing, write_listing
from lakeidx.lookup.stored_files import Place, StoredFiles
from lakeidx.results import Result
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import parent_of
from lakeidx.table.expiration.orphans import used_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.newest import is_superseded, load_newest
from lakeidx.table.scan.plan import skips_level_0
from lakeidx.table.view import data_file_path
from lakeidx.tasks.groups import GroupedWork
from lakeidx.tasks.in_parallel import in_parallel, parallel_walk, runner_of_small_files
from lakeidx.tasks.runner import Runner


class LookupStoreReport(Result, BaseModel):
    """Report of the stage.

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
    errors       of the kind of the first data file's that no lookup file could be made of, naming it, when all others are listed;
                 InvalidInputError for a table without primary key; CorruptFileError, UnavailableError
    """
    started = time.monotonic()
    schema = metadata.latest_schema()
    if not schema.primary_keys:
        raise InvalidInputError("lookup files need a primary key", path=metadata.paths.root)
    store_type = lookup_store_type(schema)
    view = load_newest(metadata)
    if view.snapshot is None:
        return LookupStoreReport(
            snapshot_id=None, store_type=store_type, built=0, reused=0, removed=0, entries=0, bytes=0,
            seconds=time.monotonic() - started,
        )  # fmt: skip
    hides_level_0 = skips_level_0(schema)
    live = [e for e in view.entries if e.bucket >= 0 and not (hides_level_0 and e.file.level == 0)]
    stored = StoredFiles(metadata, schema)
    kept = stored.serving(live, lookup_processor(schema), store_type)
    todo = [
        LookupBuild(metadata, schema, e, local_dir)
        for e in live
        if e.file.file_name not in kept and (partitions is None or e.partition in partitions)
    ]
    label = f"lookup_store: {metadata.paths.root}"
    runner = runner_of_small_files(runner, metadata.store, max(map(_file_size, todo), default=0))
    tasks = GroupedWork(runner, build_lookup_file, _data_file, _file_size, label, ("data files", "made ready"))
    made: list[StoredLookup] = []
    for group in tasks.groups(_by_bucket(todo)):
        done = tasks.run(group)
        _list_files(metadata, stored, {e.file.file_name for e in live}, done)
        made += [f for _, f in done]
        if tasks.failed and not made:
            break
    if tasks.failed and is_superseded(metadata, view.snapshot):
        tasks.take_missing()  # What others have replaced meanwhile needs none.
    tasks.raise_failed(len(todo), len(made))
    removed = len(clean_lookup_files(metadata).files) if remove else 0
    return LookupStoreReport(
        snapshot_id=view.snapshot.id,
        store_type=store_type,
        built=len(made),
        reused=len(kept),
        removed=removed,
        entries=sum(f.entries for f in made),
        bytes=sum(f.size for f in made),
        seconds=time.monotonic() - started,
    )


def _by_bucket(work: Sequence[LookupBuild]) -> list[LookupBuild]:
    """Sort work so that few groups list files of the same bucket: heaviest buckets first, in each its largest files."""
    weights: Counter[Place] = Counter()
    for w in work:
        weights[w.place] += _file_size(w)
    return sorted(work, key=lambda w: (-weights[w.place], w.place, -_file_size(w)))


def _data_file(work: LookupBuild) -> str:
    return data_file_path(work.metadata, work.entry)


def _file_size(work: LookupBuild) -> int:
    return work.entry.file.file_size


def _list_files(
    metadata: TableMetadata,
    stored: StoredFiles,
    live: Collection[str],
    made: Sequence[tuple[LookupBuild, StoredLookup]],
) -> None:
    """Add the built files to the listings of their buckets; drop entries that are neither live nor in the store."""
    new: dict[Place, dict[str, StoredLookup]] = {}
    for work, file in made:
        new.setdefault(work.place, {})[file.data_file] = file

    def add(place: Place) -> None:
        folder = stored.folder(place)
        path = stored.listing(folder)
        before = read_listing(metadata.store, path)
        kept = {name: f for name, f in before.items() if name in live or stored.has(folder, name)}
        write_listing(metadata.store, path, kept | new[place])

    in_parallel(add, list(new))


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
    """Remove lookup files whose data file no snapshot, tag or branch refers to, and listings of buckets that have none left.

    Call it after snapshots have expired.
    errors   CorruptFileError, UnavailableError: while a snapshot cannot be read it is unknown what it needs
    """
    places = LookupPlaces(metadata.paths)
    # What is built in the meantime is not among the files examined: they are listed before the metadata.
    found = parallel_walk(metadata.store, places.root)
    if not found:
        return LookupCleanReport((), dry_run)
    used = used_names(metadata)
    gone, kept, listings = [], set(), []
    for file in found:
        name = parse_file_name(file.name.removesuffix(CONTEXT_SUFFIX))
        if name.kind is not NameKind.LOOKUP:
            listings.append(file)
        elif name.label in used:
            kept.add(parent_of(file.path))
        else:
            gone.append(file)
    gone += [f for f in listings if _is_listing(f, places) and parent_of(f.path) not in kept]
    if not dry_run:
        metadata.store.delete_many(f.path for f in gone)
    return LookupCleanReport(tuple(gone), dry_run)


def _is_listing(file: FileInfo, places: LookupPlaces) -> bool:
    """Return True for a listing; earlier releases had one for each snapshot, which no one reads any more."""
    if file.name == LISTING_NAME:
        return True
    return file.name.startswith("listing-") and len(file.path[len(places.root) + 1 :].split("/")) <= 2


def lookup_coverage(metadata: TableMetadata) -> tuple[int, int]:
    """Return (live data files of the newest snapshot with a lookup file of the kind the table wants, all of them)."""
    schema, live = metadata.latest_schema(), load_newest(metadata).entries
    if not len(live):
        return 0, 0
    return len(StoredFiles(metadata, schema).serving(live, lookup_processor(schema), lookup_store_type(schema))), len(
        live
    )
