"""Paths of lookup files, and listings of the data files they belong to: one per bucket, so that a reader loads those of its
buckets.

Inside the table's directory, in a tree of their own that has the shape of the table's::

    <table>/lookup/<partition>/bucket-<n>/listing.json
    <table>/lookup/<partition>/bucket-<n>/<data file>.<size>.<processor>.v1.lookup      Paimon's name of a remote lookup file
    <table>/lookup/<partition>/bucket-<n>/<data file>.<size>.<processor>.v1.lookup.context   (hash stores)

Not beside the data files: Paimon's orphan cleaning removes what it does not know from bucket directories, but enters no
directory called ``lookup``. Ours knows the names: a lookup file belongs to its data file and goes with it. A listing refers to data
files by name, which is never used twice; so it is right for every snapshot and branch, only perhaps incomplete.

Listings are JSON: ``{"version": 2, "files": [{...}]}``, written whole, after the files that they name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NameKind, parse_file_name, plain_name
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.lookup.store import StoreType, parse_store_type
from lakeidx.lookup.value_rows import Processor
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import join, parent_of
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.in_parallel import in_parallel, parallel_walk

_LOOKUP_DIR = "lookup"
_VERSION = 2
_BESIDE = re.compile(r"(?P<data>.+)\.(?P<size>\d+)\.(?P<processor>[a-z-]+)\.v1\.lookup")
LISTING_NAME = "listing.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLookup:
    """A lookup file in the table's store.

    data_file    name of the data file it was made of
    path         below the lookup directory, `side_files` the same; a whole path for a file that Java has put beside the data file
    schema_id    schema of the rows in its values
    size, entries, checksum   see `lookup.store.LookupFile`; a file of Java has no checksum
    """

    data_file: str
    path: str
    schema_id: int
    processor: Processor
    store_type: StoreType
    size: int
    entries: int
    checksum: int | None
    side_files: tuple[str, ...] = ()


class LookupPlaces:
    """Names of one table's lookup files and listings."""

    def __init__(self, paths: TablePaths) -> None:
        self._paths = paths
        self.root = join(paths.root, _LOOKUP_DIR)

    def bucket_dir(self, partition: Mapping[str, Any], bucket: int) -> str:
        """Return the directory of a bucket's lookup files, below `root`."""
        return self._paths.bucket_dir(partition, bucket)[len(self._paths.root.rstrip("/")) + 1 :]

    def listing(self, partition: Mapping[str, Any], bucket: int) -> str:
        """Return the path of a bucket's listing."""
        return join(self.root, self.bucket_dir(partition, bucket), LISTING_NAME)

    def full(self, relative: str) -> str:
        """Return the whole path of a lookup file; one that is whole stays as it is."""
        return relative if relative.startswith("/") or "://" in relative else join(self.root, relative)


def lookup_file_beside(file: DataFileMeta, path: str, newest_schema: int) -> StoredLookup | None:
    """Return the lookup file that Java has put beside a data file (``lookup.remote-file.enabled``); None without a usable one.

    path            of the data file
    newest_schema   id of the table's newest schema: rows in values are of the schema that Java's writer had, which is known only
                    where the data file is of the newest one
    source          org.apache.paimon.mergetree.lookup.RemoteLookupFileManager, release 1.4.2
    """
    for name in file.extra_files:
        found = _BESIDE.fullmatch(name)
        if found is None or found["data"] != file.file_name or found["processor"] not in set(Processor):
            continue
        processor = Processor(found["processor"])
        if processor.has_rows and file.schema_id != newest_schema:
            continue
        return StoredLookup(
            data_file=file.file_name,
            path=join(parent_of(path), name),
            schema_id=file.schema_id,
            processor=processor,
            store_type=StoreType.SORT,
            size=int(found["size"]),
            entries=file.row_count,
            checksum=None,
        )
    return None


def encode_listing(files: Mapping[str, StoredLookup]) -> bytes:
    """Encode a listing as JSON.

    files   by name of the data file
    """
    rows = [asdict(f) for _, f in sorted(files.items())]
    return seal(json.dumps({"version": _VERSION, "files": rows}, indent=1).encode())


def decode_listing(data: bytes, path: str | None = None) -> dict[str, StoredLookup]:
    """Decode a listing: lookup files by name of their data file.

    errors   CorruptFileError for anything else
    """
    try:
        raw = json.loads(unseal(data, path))
        if raw["version"] != _VERSION:
            raise CorruptFileError(f"a lookup listing of version {raw['version']}", path=path)
        files = [_stored(f) for f in raw["files"]]
        return {f.data_file: f for f in files}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, InvalidInputError) as error:
        raise CorruptFileError(f"not a lookup listing: {error}", path=path) from error


def _stored(raw: Mapping[str, Any]) -> StoredLookup:
    # Paths stay inside the lookup directory whatever a listing says.
    names = [str(raw["path"]), *map(str, raw["side_files"])]
    for part in (p for n in names for p in n.split("/")):
        plain_name(part)
    return StoredLookup(
        data_file=str(raw["data_file"]),
        path=names[0],
        schema_id=int(raw["schema_id"]),
        processor=Processor(raw["processor"]),
        store_type=parse_store_type(str(raw["store_type"])),
        size=int(raw["size"]),
        entries=int(raw["entries"]),
        checksum=int(raw["checksum"]),
        side_files=tuple(names[1:]),
    )


def read_listing(store: ObjectStore, path: str) -> dict[str, StoredLookup]:
    """Load the listing of a bucket; empty without one."""
    try:
        return decode_listing(store.get(path), path)
    except NotFoundError:
        return {}


def write_listing(store: ObjectStore, path: str, files: Mapping[str, StoredLookup]) -> None:
    """Write the listing of a bucket."""
    store.put(path, encode_listing(files))


#: Partition bytes and bucket.
Place = tuple[bytes, int]


@dataclass(slots=True)
class _Bucket:
    """The names in one bucket's directory of lookup files.

    files     lookup files by name of the data file; there may be two, made by other options
    names     all names
    """

    listing: FileInfo | None = None
    files: dict[str, list[FileInfo]] = field(default_factory=dict)
    names: dict[str, FileInfo] = field(default_factory=dict)

    def names_suffice(self) -> bool:
        """Return True when names determine the listing: it was written last, and no data file has two lookup files."""
        if self.listing is None:
            return False
        newest = self.listing.mtime_ms
        return all(
            len(found) == 1 and found[0].mtime_ms <= newest and found[0].size == _size_in(found[0].name)
            for found in self.files.values()
        )


class StoredFiles:
    """The lookup files of a table, as stored.

    found   all files below the lookup directory
    """

    def __init__(self, metadata: TableMetadata, schema: TableSchema) -> None:
        self._store, self._schema = metadata.store, schema
        self.places = LookupPlaces(metadata.paths)
        self.found = parallel_walk(metadata.store, self.places.root)
        self._buckets: dict[str, _Bucket] = {}
        for file in self.found:
            folder = file.path[len(self.places.root) + 1 :].rpartition("/")[0]
            bucket = self._buckets.setdefault(folder, _Bucket())
            bucket.names[file.name] = file
            if file.name == LISTING_NAME:
                bucket.listing = file
            elif (name := parse_file_name(file.name)).kind is NameKind.LOOKUP and name.label is not None:
                bucket.files.setdefault(name.label, []).append(file)

    def folder(self, place: Place) -> str:
        """Return the directory of a bucket's lookup files, below the lookup directory."""
        partition = decode_partition_dict(place[0], self._schema)
        return self.places.bucket_dir(partition, place[1])

    def serving(self, live: Iterable[ManifestEntry], processor: Processor, store_type: StoreType) -> set[str]:
        """Return the names of the data files that have a listed lookup file of that kind.

        errors   CorruptFileError for a damaged listing
        """
        by_place: dict[Place, list[str]] = {}
        for entry in live:
            by_place.setdefault((entry.partition, entry.bucket), []).append(entry.file.file_name)
        folders = {place: self.folder(place) for place in by_place}
        known = {place: self._buckets[f] for place, f in folders.items() if f in self._buckets}
        doubtful = [place for place, bucket in known.items() if not bucket.names_suffice()]
        read = in_parallel(lambda p: read_listing(self._store, self.listing(folders[p])), doubtful)
        listed = dict(zip(doubtful, read, strict=True))
        out: set[str] = set()
        for place, bucket in known.items():
            for name in by_place[place]:
                if place in listed:
                    stored = listed[place].get(name)
                    serves = stored is not None and self._is_there(stored, bucket, processor, store_type)
                else:
                    serves = name in bucket.files and _is_named(
                        bucket, bucket.files[name][0].name, processor, store_type
                    )
                if serves:
                    out.add(name)
        return out

    def listing(self, folder: str) -> str:
        """Return the path of the listing in a bucket's directory."""
        return self.places.full(f"{folder}/{LISTING_NAME}")

    def has(self, folder: str, data_file: str) -> bool:
        """Return True when a data file had a lookup file of any kind."""
        bucket = self._buckets.get(folder)
        return bucket is not None and data_file in bucket.files

    def _is_there(self, stored: StoredLookup, bucket: _Bucket, processor: Processor, store_type: StoreType) -> bool:
        """Return True for a listed file of that kind that exists with the listed size: others may have been removed."""
        if stored.processor != processor or stored.store_type != store_type:
            return False
        info = bucket.names.get(stored.path.rpartition("/")[2])
        sides = all(s.rpartition("/")[2] in bucket.names for s in stored.side_files)
        return info is not None and info.size == stored.size and sides


def _is_named(bucket: _Bucket, name: str, processor: Processor, store_type: StoreType) -> bool:
    """Return True when a lookup file's name, and whether it has a context, match that kind."""
    has_context = f"{name}{CONTEXT_SUFFIX}" in bucket.names
    return name.split(".")[-3] == processor and has_context == (store_type is StoreType.HASH)


def _size_in(name: str) -> int:
    return int(name.split(".")[-4])
